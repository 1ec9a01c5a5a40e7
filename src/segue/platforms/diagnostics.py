"""Run an adapter's setup checks, and report a platform that does not answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from segue.core.errors import ConnectFailed
from segue.platforms.base import Finding
from segue.platforms.connection import C
from segue.platforms.errors import Failures, Refused


def check(ok: object, good: str, bad: str, fix: str, *, vital: bool = False) -> Finding:
    """The finding `good`, or `bad` with its fix."""
    return Finding(True, good) if ok else Finding(False, bad, fix, vital=vital)


async def examine(
    make: Callable[[], C],
    checks: Callable[[C], AsyncGenerator[Finding]],
    failures: Failures,
    no_account: Finding,
) -> list[Finding]:
    """Run the checks with a client of their own, until one of its calls fails. `no_account` is for
    an account that the platform does not accept."""
    found: list[Finding] = []
    try:
        client = make()
    except ConnectFailed:
        return [no_account]
    try:
        async for finding in checks(client):
            found.append(finding)  # noqa: PERF401 - those before a failure count
    except failures.all as error:
        failure, platform = failures.read(error), failures.platform
        denied = isinstance(failure, Refused) and failure.status in (401, 404)
        text = f"{platform.title()} cannot be asked: {failure.reason}."
        fix = f"Check the network, and platforms.{platform}.url if you have set it."
        found.append(no_account if denied else Finding(False, text, fix, vital=True))
    finally:
        await client.close()
    return found
