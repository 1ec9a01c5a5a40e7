"""`python -m segue.testing.platform`: the test platform as a process.

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

from segue.testing.platform.running import TOKEN, serving
from segue.testing.platform.wire import Rules


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m segue.testing.platform")
    parser.add_argument("--port", type=int, default=0, help="where the bot connects; 0: any")
    parser.add_argument("--journal", type=Path, help="a file that every call is noted in")
    parser.add_argument("--token", default=TOKEN, help="the bot's token")
    parser.add_argument("--rules", default="{}", help="what the platform can do, as JSON")
    parser.add_argument(
        "--until-eof", action="store_true", help="end when standard input does, or says anything"
    )
    chosen = parser.parse_args(arguments)
    rules = msgspec.json.decode(chosen.rules, type=Rules)
    asyncio.run(_serve(rules, chosen))


async def _serve(rules: Rules, chosen: argparse.Namespace) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    async with serving(rules, token=chosen.token, port=chosen.port, journal=chosen.journal) as peer:
        sys.stdout.write(f"{peer.url}\n{peer.control}\n")
        sys.stdout.flush()
        if chosen.until_eof:
            loop.add_reader(sys.stdin.fileno(), over.set)
        await over.wait()


if __name__ == "__main__":
    main()
