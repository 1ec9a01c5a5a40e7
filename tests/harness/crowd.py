"""A user who writes in many chats at once and reads the answers.

Use it with a gateway that runs the scripted model: that model repeats each message, so every answer
shows which message it answers.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from segue.testing.platform import Driver, Message, Shape

_NOWHERE = "nowhere"
"""The id of a chat that does not exist, so the snapshot contains no messages."""
_LOOK = 0.1


@dataclass(frozen=True, slots=True)
class Talk:
    """The messages and answers of one chat."""

    said: tuple[str, ...]
    answered: tuple[str, ...]
    """The message that each answer repeats, in the order of the answers."""
    seconds: tuple[float, ...]
    """Seconds from each message in `said` to its answer."""


class Crowd:
    def __init__(self, driver: Driver, user: str, chats: Sequence[str]) -> None:
        self.chats = chats
        self._driver = driver
        self._user = user
        self._said = 0

    @classmethod
    async def of(cls, driver: Driver, user: str, count: int) -> Crowd:
        return cls(driver, user, [await driver.chat(Shape.DM, [user]) for _ in range(count)])

    async def at_once(self, each: int = 1, *, chats: int | None = None, within: float) -> float:
        """Send `each` messages in every chat, or in the first `chats`, and release them together.

        Return the seconds from the release until the last message is answered.
        """
        await self._driver.hold()
        for _ in range(each):
            for chat in self.chats[:chats]:
                await self._say(chat)
        began = time.monotonic()
        await self._driver.release()
        await self._answered(within)
        return time.monotonic() - began

    async def at_pace(self, rate: float, count: int, *, within: float) -> list[Talk]:
        """Send `count` messages, one chat after another, at `rate` per second.

        The rate does not depend on the answers. Return the talk of each chat since the start, once
        every message is answered.
        """
        began = time.monotonic()
        for number, chat in zip(range(count), itertools.cycle(self.chats), strict=False):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            await self._say(chat)
        await self._answered(within)
        return await self.talks(since=began)

    async def talks(self, *, since: float = 0.0) -> list[Talk]:
        """The talk of each chat since then."""
        by_chat: dict[str, list[Message]] = {chat: [] for chat in self.chats}
        for message in (await self._driver.look()).messages:
            if message.at >= since:
                by_chat[message.chat].append(message)
        return [self._talk(messages) for messages in by_chat.values()]

    async def _say(self, chat: str) -> None:
        self._said += 1
        await self._driver.say(self._user, chat, f"word{self._said}")

    async def _answered(self, within: float) -> None:
        """Wait until every message sent so far is answered."""
        async with asyncio.timeout(within):
            while True:
                if await self._all_is():
                    return
                await asyncio.sleep(_LOOK)

    async def _all_is(self) -> bool:
        if (await self._driver.look(_NOWHERE)).calls.get("send", 0) < self._said:
            return False
        shown = (await self._driver.look()).messages
        said = {message.text for message in shown if message.author == self._user}
        return said <= {_repeated(message) for message in shown if message.author != self._user}

    def _talk(self, messages: Sequence[Message]) -> Talk:
        said = [message for message in messages if message.author == self._user]
        answers = [message for message in messages if message.author != self._user]
        when = {_repeated(message): message.at for message in answers}
        return Talk(
            said=tuple(message.text for message in said),
            answered=tuple(map(_repeated, answers)),
            seconds=tuple(when[m.text] - m.at for m in said if m.text in when),
        )


def _repeated(message: Message) -> str:
    """Return the message that an answer repeats: the text after its last colon."""
    return message.text.rpartition(": ")[2]
