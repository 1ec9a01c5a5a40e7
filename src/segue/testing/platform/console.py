"""Chat on the test platform in a shell: `python -m segue.testing.platform.console`.

You are Anna, in a group with the bot. A line goes where the bot wrote last, and one that begins
with a slash is a command. To press a button, write its label.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable

from segue.testing.platform.control import Driver
from segue.testing.platform.server import serving
from segue.testing.platform.state import BOT, Message, Shape
from segue.testing.platform.wire import Rules

PORT = 4040
TOKEN = "secret"  # noqa: S105 - of a service on this machine
RULES = Rules(edits=False)
"""An answer is shown when it is complete."""
LOOK_SECONDS = 0.1


async def chat(read: Callable[[], str], write: Callable[[str], object], port: int = PORT) -> None:
    """Serve the platform until `read` returns nothing more."""
    async with serving(RULES, token=TOKEN, port=port) as peer, peer.driver() as driver:
        talk = Talk(driver, await driver.user("Anna"), write)
        await talk.begin()
        write(f"The platform is at {peer.url}. The bot's token is {TOKEN!r}. Write to it:\n")
        showing = asyncio.create_task(talk.show())
        try:
            while line := await asyncio.to_thread(read):
                await talk.say(line.strip())
        finally:
            showing.cancel()
            await asyncio.wait([showing])


class Talk:
    """What Anna sees and says."""

    def __init__(self, driver: Driver, anna: str, write: Callable[[str], object]) -> None:
        self._driver = driver
        self._anna = anna
        self._write = write
        self._group = ""
        self._last: Message | None = None
        """The bot's last message."""

    async def begin(self) -> None:
        self._group = await self._driver.chat(Shape.GROUP, [self._anna], name="Team")

    async def show(self) -> None:
        """Write each message of the bot, and the labels of its buttons."""
        shown = 0
        while True:
            messages = (await self._driver.look()).messages
            for message in messages[shown:]:
                if message.author == BOT.id:
                    self._last = message
                    labels = "".join(f" [{label}]" for label in message.labels)
                    self._write(f"[{message.thread or message.chat}] {message.text}{labels}\n")
            shown = len(messages)
            await asyncio.sleep(LOOK_SECONDS)

    async def say(self, line: str) -> None:
        last = self._last
        if last is not None and line in last.labels:
            await self._driver.press(self._anna, last.id, line)
            return
        thread = None if last is None else last.thread
        is_command = line.startswith("/")
        await self._driver.say(self._anna, self._group, line, thread=thread, command=is_command)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(chat(sys.stdin.readline, sys.stdout.write))
