"""Rate limiting."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from segue.core.address import Address
from segue.platforms.base import Capabilities

_MAX_CHATS = 4096


class RateLimiter:
    """Limits of a platform: a burst per chat, then a steady rate, and a rate for all chats."""

    def __init__(
        self, capabilities: Capabilities, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._capabilities = capabilities
        self._clock = clock
        self._all = 0.0
        self._chats: OrderedDict[str, float] = OrderedDict()

    async def wait(self, address: Address) -> None:
        """Wait until a message may be sent at `address`."""
        if (seconds := self.due(address)) > 0:
            await asyncio.sleep(seconds)

    def due(self, address: Address) -> float:
        """Reserve a slot for one message, and return the seconds until it may be sent."""
        able = self._capabilities
        now = self._clock()
        # Each message reserves its share of time. Time in the past is the available burst.
        self._all = max(self._all, now - 1.0) + 1 / able.per_second
        chat = max(self._chats.pop(address.chat_id, 0.0), now - able.chat_burst * able.chat_seconds)
        self._chats[address.chat_id] = chat + able.chat_seconds
        while len(self._chats) > _MAX_CHATS:
            self._chats.popitem(last=False)
        return max(self._all, self._chats[address.chat_id]) - now
