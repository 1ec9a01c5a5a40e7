"""Starting this Telegram: in a process of its own, or in this one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from segue.testing.telegram.doors import Doors
from segue.testing.telegram.hands import Hands
from segue.testing.telegram.shown import Settings

TOKEN = "7000000001:the_token_of_the_bot_for_tests_00001"  # noqa: S105 - it opens nothing but this
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A Telegram that runs."""

    url: str
    """For the bot; python-telegram-bot takes `base_url` and `file_url`."""
    control: str
    """For the test."""
    token: str

    @property
    def base_url(self) -> str:
        return f"{self.url}/bot"

    @property
    def file_url(self) -> str:
        return f"{self.url}/file/bot"

    def hands(self) -> Hands:
        """New ones, to be used in an `async with`."""
        return Hands(self.control)


@contextlib.asynccontextmanager
async def serving(
    settings: Settings = Settings(),  # noqa: B008 - it is frozen
    *,
    token: str = TOKEN,
    port: int = 0,
    journal: Path | None = None,
) -> AsyncGenerator[Peer]:
    """In this process: quick to start, and gone when this process dies."""
    doors = Doors(settings, token=token, port=port, journal=journal)
    try:
        await doors.open()
        yield Peer(url=doors.bot.url, control=f"{doors.test.url}/control", token=token)
    finally:
        await doors.close()


@contextlib.contextmanager
def running(
    settings: Settings = Settings(),  # noqa: B008 - it is frozen
    *,
    token: str = TOKEN,
    journal: Path | None = None,
) -> Generator[Peer]:
    """In a process of its own, which ends with the `with` or with this process."""
    said = msgspec.json.encode(settings).decode()
    arguments = ["--token", token, "--settings", said, "--until-eof"]
    if journal is not None:
        arguments += ["--journal", str(journal)]
    process = subprocess.Popen(
        [sys.executable, "-m", "segue.testing.telegram", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        try:
            url, control = process.stdout.readline().strip(), process.stdout.readline().strip()
            if not control:
                raise RuntimeError("the fake of Telegram did not start")
            yield Peer(url=url, control=control, token=token)
        finally:
            process.stdin.close()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
