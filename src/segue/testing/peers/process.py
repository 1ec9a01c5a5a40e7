"""Start a fake in a separate process, or in this one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from segue.testing.peers.driver import Obey
from segue.testing.peers.server import Server

_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A running fake. Each fake's subclass adds the driver for a test."""

    url: str
    """The URL for the bot."""
    control: str
    """The URL for the test."""
    token: str
    obey: Obey | None = None
    """Takes orders when the fake runs in this event loop. HTTP would be most of a test's time."""

    @property
    def socket_url(self) -> str:
        """The URL for WebSockets of the bot."""
        return self.url.replace("http", "ws", 1)


Settings = TypeVar("Settings", bound=msgspec.Struct)
AnyPeer = TypeVar("AnyPeer", bound=Peer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fake(Generic[Settings, AnyPeer]):
    """Everything needed to start a fake."""

    package: str
    """The package to run with `python -m`."""
    token: str
    """The bot's default token."""
    settings: type[Settings]
    """The platform's settings; the defaults suit most tests."""
    server: type[Server[Settings, Any]]
    peer: type[AnyPeer]

    @contextlib.asynccontextmanager
    async def serving(
        self,
        settings: Settings | None = None,
        *,
        token: str | None = None,
        port: int = 0,
        journal: Path | None = None,
    ) -> AsyncGenerator[AnyPeer]:
        """Run the fake in this process: fast to start, and gone when this process dies."""
        token = self.token if token is None else token
        settings = settings or self.settings()
        server = self.server(settings, token=token, port=port, journal=journal)
        try:
            await server.open()
            yield self.peer(
                url=server.bot.url,
                control=f"{server.test.url}/control",
                token=token,
                obey=server.obey,
            )
        finally:
            await server.close()

    @contextlib.contextmanager
    def running(
        self,
        settings: Settings | None = None,
        *,
        token: str | None = None,
        journal: Path | None = None,
    ) -> Generator[AnyPeer]:
        """Run the fake in a separate process, which ends with the `with` or with this process."""
        token = self.token if token is None else token
        said = msgspec.json.encode(settings or self.settings()).decode()
        arguments = ["--token", token, "--settings", said, "--until-eof"]
        if journal is not None:
            arguments += ["--journal", str(journal)]
        with _process(self.package, arguments) as (url, control):
            yield self.peer(url=url, control=control, token=token)


@contextlib.contextmanager
def _process(package: str, arguments: list[str]) -> Generator[tuple[str, str]]:
    """Start the process and yield the two URLs that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", package, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        try:
            url, control = process.stdout.readline().strip(), process.stdout.readline().strip()
            if not control:
                raise RuntimeError(f"{package} did not start")
            yield url, control
        finally:
            process.stdin.close()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
