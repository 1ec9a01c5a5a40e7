"""How fast a platform may be written to, and how long to wait before trying again."""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from segue.core.address import Address
from segue.platforms.base import Capabilities

LEAST = 0.5
"""Seconds of the first pause before something is tried again."""
_MOST_CHATS = 4096


@dataclass(slots=True)
class Backoff:
    """Growing pauses, with jitter, so that many do not come back at one instant."""

    least: float = field(default_factory=lambda: LEAST)
    most: float = 60.0
    attempt: int = 0

    def next(self) -> float:
        self.attempt += 1
        return pause(self.attempt, self.least, self.most)

    def reset(self) -> None:
        self.attempt = 0


def pause(attempt: int, least: float, most: float) -> float:
    """Seconds before the attempt after this one."""
    return min(least * 2 ** min(attempt - 1, 16), most) * random.uniform(0.75, 1.25)


class Pace:
    """Lets messages through at the rate that a platform allows: a few at once in each chat, then
    one after another, and not too many in all."""

    def __init__(
        self, capabilities: Capabilities, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._capabilities = capabilities
        self._clock = clock
        self._all = 0.0
        self._chats: OrderedDict[str, float] = OrderedDict()

    async def turn(self, address: Address) -> None:
        """Wait until a message may go out there."""
        if (seconds := self.due(address)) > 0:
            await asyncio.sleep(seconds)

    def due(self, address: Address) -> float:
        """Book a message, and say in how many seconds it may go out."""
        able = self._capabilities
        now = self._clock()
        # Each books the time that it takes; what lies in the past is a burst that may be used.
        self._all = max(self._all, now - 1.0) + 1 / able.per_second
        chat = max(self._chats.pop(address.chat_id, 0.0), now - able.chat_burst * able.chat_seconds)
        self._chats[address.chat_id] = chat + able.chat_seconds
        while len(self._chats) > _MOST_CHATS:
            self._chats.popitem(last=False)
        return max(self._all, self._chats[address.chat_id]) - now
