"""Run a fake as a process. It prints two lines: its URL for the bot, and its URL for the test."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from segue.testing.peers.process import Fake


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
