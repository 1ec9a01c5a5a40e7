"""For platforms that send an event once: keep it until it is recorded, and look for what users
wrote while the adapter was away. Ids of messages are numbers, perhaps with a point, and later ones
are greater."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from segue.core.address import Address
from segue.platforms.base import Inbound, InboundKind
from segue.platforms.errors import Failures

T = TypeVar("T")

_PLACES = 100


class Events(Generic[T]):
    """Events in the order of their arrival. One stays the first until it is recorded."""

    def __init__(self) -> None:
        self._waiting: deque[T] = deque()
        self.append = self._waiting.append

    def insert(self, events: Sequence[T]) -> None:
        """Insert events after the first one."""
        self._waiting.extendleft((*reversed(events), self._waiting.popleft()))

    async def receive(
        self,
        failures: Failures,
        listen: Callable[[], Awaitable[None]],
        handle: Callable[[T], Awaitable[Inbound | None]],
    ) -> AsyncGenerator[Inbound | None]:
        """Yield what `handle` makes of each event, as Adapter.receive does. `listen` waits until
        something arrives."""
        while True:
            with failures.connecting():
                while not self._waiting:
                    await listen()
            yield None
            with failures.connecting():
                inbound = await handle(self._waiting[0])
            if inbound is not None:
                yield inbound
            self._waiting.popleft()


class Backlog:
    """The last message that arrived in each place where the bot talks."""

    def __init__(
        self, id_at: Callable[[datetime], int], place: Callable[[Address], str] | None = None
    ) -> None:
        """`id_at` returns the id that a message of that time has, without a point. `place` names an
        address: by the thread or else the chat, if it is not given."""
        self._id_at = id_at
        self._place = place or _thread_or_chat
        self._last: dict[str, int] = {}
        self._unread: list[tuple[str, int]] | None = None

    def talks(self, place: str, since: str) -> None:
        """The bot talks there since that message. In other places, it misses nothing."""
        self._last.setdefault(place, _number(since))

    def speaks(self, at: Address, since: str) -> None:
        """The bot talks at that address since that message."""
        self.talks(self._place(at), since)

    def heard(self, place: str, message: str) -> None:
        if place in self._last:
            self._last[place] = max(self._last[place], _number(message))

    def recorded(self, inbound: Inbound) -> None:
        """Take an update that is recorded."""
        if inbound.kind is InboundKind.MESSAGE:
            if inbound.addressed:
                self.speaks(inbound.address, inbound.message_id)
            self.heard(self._place(inbound.address), inbound.message_id)

    def remember(self, recorded: Mapping[Address, str]) -> None:
        """Add what the gateway has recorded. Where that is nothing, what users wrote in the last
        day is missed. The id of a thread is older than its messages."""
        day = self._id_at(datetime.now(UTC) - timedelta(days=1))
        for at, update_id in recorded.items():
            message = update_id.partition(" ")[0] or at.thread_id or str(day)
            if message.replace(".", "").isdecimal():
                self._last.setdefault(self._place(at), _number(message))

    def newest(self) -> list[tuple[str, int]]:
        """The places where something happened last, each with its last message."""
        return sorted(self._last.items(), key=lambda it: it[1])[-_PLACES:]

    def away(self) -> None:
        """The adapter was away: `receive` has something to read."""
        self._unread = None

    async def receive(
        self, failures: Failures, missed: Callable[[str, int], Awaitable[Sequence[Inbound]]]
    ) -> AsyncGenerator[Inbound | None]:
        """Yield what was missed in each place, as Adapter.receive does. `missed` returns what came
        there after that message, in order. What was read is not read again until `away`."""
        if self._unread is None:
            self._unread = self.newest()
        while self._unread:
            with failures.connecting():
                found = await missed(*self._unread[-1])
            yield None
            for inbound in found:
                yield inbound
                self.recorded(inbound)
            self._unread.pop()


def _number(message: str) -> int:
    return int(message.replace(".", ""))


def _thread_or_chat(at: Address) -> str:
    return at.thread_id or at.chat_id
