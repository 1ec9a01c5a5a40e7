"""`python -m segue.testing.telegram`: a fake of Telegram as a process.

It prints two lines: its URL for the bot, and its URL for the test.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from segue.testing.telegram.running import TOKEN, serving
from segue.testing.telegram.shown import Settings


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m segue.testing.telegram")
    parser.add_argument("--port", type=int, default=0, help="where the bot connects; 0: any")
    parser.add_argument("--journal", type=Path, help="a file that every call is noted in")
    parser.add_argument("--token", default=TOKEN, help="the bot's token")
    parser.add_argument("--settings", default="{}", help="what the bot and the server are, as JSON")
    parser.add_argument(
        "--until-eof", action="store_true", help="end when standard input does, or says anything"
    )
    chosen = parser.parse_args(arguments)
    settings = msgspec.json.decode(chosen.settings, type=Settings)
    asyncio.run(_serve(settings, chosen))


async def _serve(settings: Settings, chosen: argparse.Namespace) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    async with serving(
        settings, token=chosen.token, port=chosen.port, journal=chosen.journal
    ) as peer:
        sys.stdout.write(f"{peer.url}\n{peer.control}\n")
        sys.stdout.flush()
        if chosen.until_eof:
            loop.add_reader(sys.stdin.fileno(), over.set)
        await over.wait()


if __name__ == "__main__":
    main()
