"""Run an adapter's setup checks, and report a platform that does not answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from segue.core.address import Platform
from segue.platforms.base import Finding
from segue.platforms.errors import Failures, Refused


def check(ok: object, good: str, bad: str, fix: str) -> Finding:
    """The finding `good`, or `bad` with its fix."""
    return Finding(True, good) if ok else Finding(False, bad, fix)


async def examine(
    checks: AsyncGenerator[Finding], failures: Failures, platform: Platform, no_account: Finding
) -> list[Finding]:
    """Run the checks until one of their calls fails. `no_account` is for an account that the
    platform does not accept."""
    found: list[Finding] = []
    try:
        async for finding in checks:
            found.append(finding)  # noqa: PERF401 - those before a failure count
    except failures.all as error:
        failure = failures.read(error)
        denied = isinstance(failure, Refused) and failure.status in (401, 404)
        text = f"{platform.title()} cannot be asked: {failure.reason}."
        fix = f"Check the network, and platforms.{platform} in the settings."
        found.append(no_account if denied else Finding(False, text, fix, vital=True))
    return found
