"""Idempotency keys for a platform that takes none, but keeps an invisible stamp with a message.

The history of a chat is searched for our stamps before the first message to it over a connection,
and again after a send whose outcome is unknown. That finds what an earlier process sent, or a call
whose answer was lost, and costs one more call per chat.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping

from segue.core.address import Address
from segue.platforms.errors import Failures

PREFIX = "segue-"
_MOST = 10_000
_LOOKS, _PAUSE = 5, 0.2
"""How often to look for a message, and how many seconds longer the pause is each time."""

Search = Callable[[Address], Awaitable[Mapping[str, str]]]
"""Returns the ids of our messages in a chat, by their stamps."""


def stamp(key: str) -> str:
    """The stamp of a message that is sent under `key`."""
    return PREFIX + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class SentMessages:
    """The messages that are known to have arrived."""

    def __init__(self) -> None:
        self._ids: dict[tuple[Address, str], str] = {}
        self._searched: set[Address] = set()

    async def find(self, search: Search, at: Address, key: str) -> str | None:
        """The id of the message that was sent under `key`, or None if none was. Until `add`, the
        outcome of the next send is unknown."""
        name = (at, stamp(key))
        if name not in self._ids:
            if at not in self._searched:
                for found, message in (await search(at)).items():
                    self._ids[at, found] = message
            self._searched.discard(at)
        return self._ids.get(name)

    def add(self, at: Address, key: str, message: str) -> None:
        """Take the id of a message that was sent, and with it the outcome."""
        self._searched.add(at)
        self._ids[at, stamp(key)] = message
        while len(self._ids) > _MOST:
            oldest = next(iter(self._ids))
            self._searched.discard(oldest[0])
            del self._ids[oldest]

    async def appear(
        self,
        find: Callable[[Address, str], Awaitable[str | None]],
        at: Address,
        key: str,
        failures: Failures,
    ) -> str | None:
        """The id of a message that was sent under `key`, and can be found a moment later. None if
        it cannot. It has arrived all the same."""
        for attempt in range(_LOOKS):
            await asyncio.sleep(_PAUSE * attempt)
            try:
                if (found := await find(at, key)) is not None:
                    return found
            except failures.all:
                break
        return None

    def doubt(self, at: Address) -> None:
        """Search that chat again."""
        self._searched.discard(at)

    def forget(self) -> None:
        """Search again everywhere: another process may have sent something since."""
        self._searched.clear()
