"""Starting the test platform: in a process of its own, or in this one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from segue.testing.platform.doors import Doors
from segue.testing.platform.hands import Hands
from segue.testing.platform.wire import Rules

TOKEN = "the-token-of-the-bot"  # noqa: S105 - it opens nothing but this
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A platform that runs."""

    url: str
    """For the bot."""
    control: str
    """For the test."""
    token: str

    def hands(self) -> Hands:
        """New ones, to be used in an `async with`."""
        return Hands(self.control)


@contextlib.asynccontextmanager
async def serving(
    rules: Rules = Rules(),  # noqa: B008 - it is frozen
    *,
    token: str = TOKEN,
    port: int = 0,
    journal: Path | None = None,
) -> AsyncGenerator[Peer]:
    """The platform in this process: quick to start, and gone when this process dies."""
    doors = Doors(rules, token=token, port=port, journal=journal)
    try:
        await doors.open()
        yield Peer(url=doors.bot.url, control=f"{doors.test.url}/control", token=token)
    finally:
        await doors.close()


@contextlib.contextmanager
def running(
    rules: Rules = Rules(),  # noqa: B008 - it is frozen
    *,
    token: str = TOKEN,
    journal: Path | None = None,
) -> Generator[Peer]:
    """The platform in a process of its own, which ends with the `with` or with this process."""
    arguments = ["--token", token, "--rules", msgspec.json.encode(rules).decode(), "--until-eof"]
    if journal is not None:
        arguments += ["--journal", str(journal)]
    process = subprocess.Popen(
        [sys.executable, "-m", "segue.testing.platform", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        try:
            url, control = process.stdout.readline().strip(), process.stdout.readline().strip()
            if not control:
                raise RuntimeError("the test platform did not start")
            yield Peer(url=url, control=control, token=token)
        finally:
            process.stdin.close()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
