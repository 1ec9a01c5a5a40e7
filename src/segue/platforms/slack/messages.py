"""What makes a message of ours one message, on a platform that helps little with it.

Slack takes no idempotency keys, but keeps an invisible stamp with a message. `SentMessages`
searches the history of a chat for our stamps before the first message to it over a connection, and
again after a send whose outcome is unknown. That finds what an earlier process sent, or a call
whose answer was lost, and costs one more call per chat.

An unfinished answer is a stream: a message that can only grow. The answer replaces what `Streams`
show, so a stream need not be exact. One that an earlier process left behind is found by the
adapter, in the history.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from segue.core.address import Address
from segue.platforms.errors import Failures, Lost, Refused, tolerating_absence

STAMP_PREFIX = "segue-"
_MOST_SENT = 10_000
_LOOKS = 5
"""How often to look for a message."""
_PAUSE = 0.2
"""How many seconds longer the pause before the next look is each time."""
IDLE_SECONDS = 40.0
"""A stream that is not shown again for so long is removed."""
_MOST_SHOWN = 10_000
"""Characters of a stream. The rest is shown with the answer."""

Search = Callable[[Address], Awaitable[Mapping[str, str]]]
"""Returns the ids of our messages in a chat, by their stamps."""


def stamp(key: str) -> str:
    """The stamp of a message that is sent under `key`."""
    return STAMP_PREFIX + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


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
        while len(self._ids) > _MOST_SENT:
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


# Streams


@dataclass(slots=True)
class _Stream:
    id: str
    shown: str
    size: int
    grows: bool = True
    idle: asyncio.TimerHandle | None = None


class MessageCall(Protocol):
    async def __call__(self, at: Address, message: str, method: str, **given: Any) -> object: ...


class Streams:
    """The open streams: at most one at each address."""

    def __init__(
        self,
        start: Callable[[Address, str], Awaitable[str]],
        call: MessageCall,
        in_background: Callable[[Callable[[Any], Awaitable[object]]], None],
    ) -> None:
        """`start` takes the first text and returns the id of the stream, and `call` calls a method
        on a message: both raise Refused or Lost. `in_background` makes a call of which only the log
        speaks."""
        self._start = start
        self._call = call
        self._in_background = in_background
        self._open: dict[Address, _Stream] = {}
        self._unable: set[str] = set()

    def able(self, at: Address) -> bool:
        """Whether the platform has not refused a stream in that chat."""
        return at.chat_id not in self._unable

    def get(self, at: Address) -> str | None:
        """The id of the stream at that address, or None."""
        return stream.id if (stream := self._open.get(at)) else None

    async def show(self, at: Address, text: str) -> None:
        """Show `text`. What does not continue the text before is shown below it."""
        if (stream := self._open.get(at)) is None:
            stream = self._open[at] = await self._begin(at, text)
        elif stream.grows and text != stream.shown:
            goes_on = text.startswith(stream.shown)
            more = text[len(stream.shown) :] if goes_on else f"\n\n{text}"
            stream.grows = stream.size + len(more) <= _MOST_SHOWN
            if stream.grows:
                await self._grow(at, stream, more)
                stream.shown = text
                stream.size = stream.size + len(more)
        self._wait(at, stream)

    async def _begin(self, at: Address, text: str) -> _Stream:
        try:
            return _Stream(await self._start(at, text), text, len(text))
        except Refused as refused:
            if refused.status == 400:
                self._unable.add(at.chat_id)
            raise

    async def _grow(self, at: Address, stream: _Stream, more: str) -> None:
        try:
            await self._call(at, stream.id, "chat.appendStream", markdown_text=more)
        except Refused as refused:
            stream.grows = refused.status == 429  # else it has ended
            raise
        except Lost:
            stream.grows = False  # what it shows is unknown
            raise

    def _wait(self, at: Address, stream: _Stream) -> None:
        if stream.idle is not None:
            stream.idle.cancel()
        loop = asyncio.get_running_loop()
        stream.idle = loop.call_later(IDLE_SECONDS, self._abandon, at, stream)

    def _abandon(self, at: Address, stream: _Stream) -> None:
        if self._open.get(at) is stream:
            del self._open[at]
            self._in_background(lambda _: self.end(at, stream.id))

    def take(self, at: Address) -> str | None:
        """Forget the stream at that address, and return its id."""
        if (stream := self._open.pop(at, None)) is None:
            return None
        if stream.idle is not None:
            stream.idle.cancel()
        return stream.id

    async def end(
        self, at: Address, stream: str, edit: Callable[[], Awaitable[object]] | None = None
    ) -> bool:
        """Stop a stream, and turn it into a message with `edit`. Without one, or if the stream is
        gone, remove what is left of it, and return False."""
        with tolerating_absence():  # it may have ended
            await self._call(at, stream, "chat.stopStream")
        if edit is not None:
            with tolerating_absence():
                await edit()
                return True
        with tolerating_absence():
            await self._call(at, stream, "chat.delete")
        return False
