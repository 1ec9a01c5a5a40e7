"""Previews on a platform where an unfinished answer is a message that can only grow: a stream.

The answer replaces what the stream shows, so the stream need not be exact. A stream that an earlier
process left behind is found by the adapter, in the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from segue.core.address import Address
from segue.platforms.errors import Lost, Refused, tolerating_absence

IDLE_SECONDS = 40.0
"""A stream that is not shown again for so long is removed."""
_MOST = 10_000
"""Characters of a stream. The rest is shown with the answer."""


@dataclass(slots=True)
class _Stream:
    id: str
    shown: str
    size: int
    grows: bool = True
    idle: asyncio.TimerHandle | None = None


class Streams:
    """The open streams: at most one at each address."""

    def __init__(
        self,
        start: Callable[[Address, str], Awaitable[str]],
        append: Callable[[Address, str, str], Awaitable[object]],
        stop: Callable[[Address, str], Awaitable[object]],
        delete: Callable[[Address, str], Awaitable[object]],
        in_background: Callable[[Callable[[Any], Awaitable[object]]], None],
    ) -> None:
        """The platform's calls, which raise Refused or Lost: `start` takes the first text and
        returns the id of the stream, `stop` makes it an ordinary message. `in_background` makes a
        call of which only the log speaks."""
        self._start = start
        self._append = append
        self._stop = stop
        self._delete = delete
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
            stream.grows = stream.size + len(more) <= _MOST
            if stream.grows:
                await self._grow(at, stream, more)
                stream.shown, stream.size = text, stream.size + len(more)
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
            await self._append(at, stream.id, more)
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
            await self._stop(at, stream)
        if edit is not None:
            with tolerating_absence():
                await edit()
                return True
        with tolerating_absence():
            await self._delete(at, stream)
        return False
