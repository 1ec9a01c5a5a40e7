"""Start a fake in a separate process, or in this one.

As a process, it prints two lines: its URL for the bot, and its URL for the test.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from segue.testing.peers.control import Obey
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
            url = process.stdout.readline().strip()
            control = process.stdout.readline().strip()
            if not control:
                raise RuntimeError(f"{package} did not start")
            yield url, control
        finally:
            process.stdin.close()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def main(fake: Fake[Any, Any], arguments: Sequence[str] | None = None) -> None:
    """Run the fake until a signal, or standard input with `--until-eof`, stops it."""
    parser = argparse.ArgumentParser(prog=f"python -m {fake.package}")
    parser.add_argument("--port", type=int, default=0, help="where the bot connects; 0: any")
    parser.add_argument("--journal", type=Path, help="a file that every call is noted in")
    parser.add_argument("--token", default=fake.token, help="the bot's token")
    parser.add_argument("--settings", default="{}", help="what the platform is like, as JSON")
    parser.add_argument(
        "--until-eof", action="store_true", help="end when standard input does, or says anything"
    )
    asyncio.run(_serve(fake, parser.parse_args(arguments)))


async def _serve(fake: Fake[Any, Any], chosen: argparse.Namespace) -> None:
    settings = msgspec.json.decode(chosen.settings, type=fake.settings)
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    async with fake.serving(
        settings, token=chosen.token, port=chosen.port, journal=chosen.journal
    ) as peer:
        sys.stdout.write(f"{peer.url}\n{peer.control}\n")
        sys.stdout.flush()
        if chosen.until_eof:
            loop.add_reader(sys.stdin.fileno(), over.set)
        await over.wait()
