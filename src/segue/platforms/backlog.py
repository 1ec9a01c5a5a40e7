"""For platforms that send an event once: keep it until it is recorded, and read what users wrote
while the adapter was away. Ids of messages are numbers, perhaps with a point, and later ones are
greater.

The adapter fetches one page of a history; `CatchUp` decides how many. It reads from the newest
message back to the known one, because the newest are what users still wait for. Nothing of a place
is yielded before all of its pages are read, so the order is kept and a failure loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from segue.core.address import Address, Sender
from segue.platforms.base import Gap, Inbound, InboundKind, Wanted
from segue.platforms.errors import Failures, Lost, Refused

T = TypeVar("T")

MESSAGES = 10_000
"""How many messages of one place are read, those of others included: a day of a busy channel, and
at most a hundred calls."""
SECONDS = 300.0
"""How long reading may take, for all places together: new messages wait meanwhile. To record what
was read takes its own time."""
ATTEMPTS = 5
"""After so many failures, a place is left unread: it must not stop the others."""
PLACES = 250
"""In how many places, those where something was written last, is read what was missed. Each takes a
call, and Slack allows 50 a minute."""
OVERLAP = timedelta(minutes=15)
"""What arrived so long before the last contact may not be recorded."""
_UNRECORDED = timedelta(days=1)
_BUSY_SECONDS = 5.0
_QUEUE = 10_000

logger = logging.getLogger(__name__)

pause: Callable[[float], Awaitable[None]] = asyncio.sleep
"""Waits that many seconds for a busy platform."""


class Events(Generic[T]):
    """Events in the order of their arrival. One stays the first until it is recorded."""

    def __init__(self) -> None:
        self._waiting: deque[T] = deque()
        self._changed = asyncio.Event()

    def append(self, event: T) -> None:
        self._waiting.append(event)
        self._changed.set()

    async def receive(
        self,
        failures: Failures,
        listen: Callable[[], Awaitable[None]],
        handle: Callable[[T], AsyncGenerator[Inbound | None]],
    ) -> AsyncGenerator[Inbound | None]:
        """Yield what `handle` makes of each event, as Adapter.receive does. `listen` waits until
        something arrives. It is called all the time, because a platform closes a connection that
        nobody reads, and handling an event may take minutes."""
        ear = asyncio.ensure_future(self._listen(listen))
        try:
            while True:
                with failures.connecting():
                    await self._arrival(ear)
                yield None
                async with contextlib.aclosing(handle(self._waiting[0])) as found:
                    async for inbound in found:
                        yield inbound
                self._waiting.popleft()
                self._changed.set()
        finally:
            ear.cancel()
            await asyncio.wait([ear])
            if not ear.cancelled():
                ear.exception()  # raised already, or of no interest any more

    async def _listen(self, listen: Callable[[], Awaitable[None]]) -> None:
        while True:
            while len(self._waiting) >= _QUEUE:
                self._changed.clear()
                await self._changed.wait()
            await listen()

    async def _arrival(self, ear: asyncio.Future[None]) -> None:
        """Wait for an event. Raise what `listen` raised if there is none."""
        while not self._waiting:
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait([ear, changed], return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
            if ear.done() and not self._waiting:
                ear.result()


# Histories


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogPage(Generic[T]):
    """One page of a history."""

    found: Sequence[T]
    """What users wrote, in the order of reading."""
    size: int
    """The number of all messages on the page."""
    edge: datetime | None = None
    """The time of the last message in the order of reading. None if the page is empty."""
    newest: int = 0
    """The id of the newest message on the page, if ids are numbers."""
    next: str = ""
    """Where the next page begins. Empty if this page reaches the known message."""


@dataclass(frozen=True, slots=True)
class Past(Generic[T]):
    """What was read of one place."""

    found: Sequence[T]
    """What is wanted, in the order of reading."""
    edge: datetime | None
    """How far it was read. None if nothing was."""
    newest: int
    is_complete: bool


class CatchUp:
    """Reads histories page by page, within limits that all places of an adapter share."""

    def __init__(self, failures: Failures, clock: Callable[[], float] = time.monotonic) -> None:
        self._failures = failures
        self._clock = clock
        self._left = 0.0
        self._failed: Counter[str] = Counter()

    def begin(self) -> None:
        """Start the time for all places."""
        self._left = SECONDS

    async def read(
        self,
        place: str,
        fetch: Callable[[str], Awaitable[BacklogPage[T]]],
        wanted: Callable[[T], Awaitable[bool]],
    ) -> Past[T]:
        """Read the history of a place. `fetch` returns the page that begins there, and the first
        one for "". A busy platform is asked again, when it says. After another failure, which is
        raised, read it again over the next connection."""
        began = self._clock()
        try:
            return await self._read(place, fetch, wanted, began + self._left)
        finally:
            self._left = max(self._left - (self._clock() - began), 0.0)

    async def _read(
        self,
        place: str,
        fetch: Callable[[str], Awaitable[BacklogPage[T]]],
        wanted: Callable[[T], Awaitable[bool]],
        until: float,
    ) -> Past[T]:
        found: list[T] = []
        edge: datetime | None = None
        newest = 0
        begin = ""
        left = MESSAGES
        is_complete = False
        while not is_complete and left > 0 and self._clock() < until:
            try:
                page = await fetch(begin)
            except self._failures.all as error:
                failed = self._failures.read(error)
                if isinstance(failed, Refused) and failed.status in (400, 403, 404):
                    is_complete = not begin  # the bot sees nothing there, or no longer
                    break
                if await self._may_go_on(place, failed, until):
                    continue
                break
            found += [it for it in page.found if await wanted(it)]
            edge = page.edge or edge
            newest = max(newest, page.newest)
            begin = page.next
            left -= max(page.size, 1)
            is_complete = not begin
        del self._failed[place]
        if not is_complete:
            logger.warning("history not read to its end platform=%s", self._failures.platform)
        return Past(found, edge, newest, is_complete)

    async def _may_go_on(self, place: str, failed: Refused | Lost, until: float) -> bool:
        """Wait if the platform is busy, and return whether there is time for that. Raise another
        failure, unless this place has failed too often."""
        if isinstance(failed, Refused) and failed.status == 429:
            after = _BUSY_SECONDS if failed.after is None else failed.after
            if self._clock() + after >= until:
                return False
            await pause(after)
            return True
        self._failed[place] += 1
        is_account = isinstance(failed, Refused) and failed.status == 401
        if is_account or self._failed[place] < ATTEMPTS:
            raise failed
        return False


def gap(
    at: Address,
    known: datetime,
    past: Past[T],
    now: datetime,
    *,
    since: datetime | None = None,
    is_forward: bool = False,
) -> Inbound:
    """The update that says which time was not read. `known` is the time of the known message,
    `since` where the reading was to begin, if it is earlier."""
    begin = since or known
    missing = Gap(past.edge or begin, now) if is_forward else Gap(begin, past.edge or now)
    return Inbound(
        kind=InboundKind.GAP,
        # The same after a crash, as long as nothing of the place is recorded.
        update_id=f"gap {at.key} {known.isoformat()}",
        address=at,
        sender=Sender(platform=at.platform, user_id=""),
        gap=missing,
    )


async def _all_wanted(sender: Sender, text: str) -> bool:
    return True


class Backlog:
    """The last message that arrived in each place where the bot talks."""

    def __init__(
        self,
        failures: Failures,
        id_at: Callable[[datetime], int],
        time_of: Callable[[int], datetime],
    ) -> None:
        """`id_at` returns the id that a message of that time has, without a point, and `time_of`
        the time of an id."""
        self._failures = failures
        self._id_at = id_at
        self._time_of = time_of
        self._last: dict[Address, int] = {}
        self._is_informed = False
        """Whether the gateway has said what is recorded. Until then, `_last` is only where the bot
        has spoken in this process, and what was missed came before."""
        self._recorded: dict[Address, int] = {}
        """The last message that the gateway has recorded in each place, or where a thread began."""
        self._search: dict[Address, int] = {}
        """Since when a chat is searched for threads that appeared, if not since its last message:
        an earlier process may have stopped when that was recorded, and its threads were not."""
        self._unread: list[tuple[Address, int]] = []
        self._absences = 1  # the adapter was away before its first connection
        self._reading = 0
        self._read = 0
        self._catch_up = CatchUp(failures)
        self._wanted: Wanted = _all_wanted

    def speaks(self, at: Address, since: str) -> None:
        """The bot talks at that address since that message. In other places, it misses nothing."""
        self._last.setdefault(at, _number(since))

    def heard(self, at: Address, message: str) -> None:
        """That message arrived."""
        if at in self._last:
            self._last[at] = max(self._last[at], _number(message))

    async def arrived(self, inbound: Inbound) -> None:
        """Take a message that arrived. The bot talks where someone whom the gateway knows addresses
        it. Others cannot make it read a place."""
        if inbound.kind is not InboundKind.MESSAGE:
            return
        at = inbound.address
        if inbound.addressed and at not in self._last and await self.is_wanted(inbound.sender):
            self.speaks(at, inbound.message_id)
        self.heard(at, inbound.message_id)

    def remember(
        self,
        recorded: Mapping[Address, str],
        *,
        contact: datetime | None = None,
        wanted: Wanted | None = None,
    ) -> None:
        """Add what the gateway has recorded. What was written before the last contact is not
        missed: it arrived then. Without a contact, and where nothing is recorded, what users wrote
        in the last day is missed, or everything in a thread, whose id is older than its messages.
        Threads that appeared since the last contact are missed too, whatever is recorded in their
        chats.
        """
        self._wanted = wanted or _all_wanted
        now = datetime.now(UTC)
        for at, update_id in recorded.items():
            message = update_id.partition(" ")[0] or at.thread_id
            if message is None:
                known = 0 if contact else self._id_at(now - _UNRECORDED)
            elif message.replace(".", "").isdecimal():
                known = _number(message)
            else:
                continue
            if at in self._last and self._is_informed:
                continue
            self._recorded[at] = known
            if contact is not None:
                since = self._id_at(contact - OVERLAP)
                known = max(known, since)
                if at.thread_id is None:
                    self._search[at] = since
            self._last[at] = known
        self._is_informed = True

    def newest(self) -> list[tuple[Address, int]]:
        """The places where something was written last, each with the message since which it is
        read. A chat counts as its newest thread: threads that appeared are found in it."""
        # After a contact, most places are read since the same message.
        ages = {at: (last, self._recorded.get(at, 0)) for at, last in self._last.items()}
        for at, age in list(ages.items()):
            chat = replace(at, thread_id=None)
            if chat in ages:
                ages[chat] = max(ages[chat], age)
        return sorted(self._last.items(), key=lambda it: ages[it[0]])[-PLACES:]

    async def is_wanted(self, sender: Sender) -> bool:
        """Whether the gateway has a use for what that sender writes."""
        return await self._wanted(sender, "")

    async def wants(self, inbound: Inbound) -> bool:
        """Whether the gateway has a use for that update."""
        return await self._wanted(inbound.sender, inbound.typed)

    def discover(self, at: Address, since: int) -> None:
        """Read a place too that appeared while the adapter was away, if it is not known. Call it
        while another one is read."""
        if at not in self._last:
            self._last[at] = since
            self._unread.insert(0, (at, since))

    def away(self) -> None:
        """The adapter was away: `receive` has something to read."""
        self._absences += 1

    @property
    def is_read(self) -> bool:
        """Whether nothing is left to read."""
        return self._read == self._absences

    async def receive(
        self,
        fetch: Callable[[Address, int, str], Awaitable[BacklogPage[Inbound]]],
        complete: Callable[[Inbound], Awaitable[Inbound]] | None = None,
        is_forward: Callable[[Address], bool] = lambda at: False,
    ) -> AsyncGenerator[Inbound | None]:
        """Yield what was missed in each place, as Adapter.receive does. `fetch` returns one page of
        what came there after that message, beginning with the newest, or with the oldest if
        `is_forward`, and calls `discover`. `complete` adds what costs calls, so only to what is
        wanted. What was read is not read again until `away`."""
        absence = self._absences
        if self._reading != absence:
            self._reading = absence
            self._unread = self.newest()
            if rest := len(self._last) - len(self._unread):
                platform = self._failures.platform
                logger.warning("old places not read platform=%s places=%d", platform, rest)
        self._catch_up.begin()
        while self._unread:
            at, last = self._unread[-1]
            since = self._search.get(at, last)
            now = datetime.now(UTC)
            with self._failures.connecting():
                past = await self._past(at, since, last, fetch)
            yield None
            if not past.is_complete:
                # Before the messages: once one of them is recorded, nobody would know of the gap.
                known = self._time_of(last)
                begin = self._time_of(since)
                yield gap(at, known, past, now, since=begin, is_forward=is_forward(at))
            found = past.found if is_forward(at) else past.found[::-1]
            for inbound in found:
                yield inbound if complete is None else await complete(inbound)
                await self.arrived(inbound)
            newest = past.newest
            if is_forward(at) and not past.is_complete:
                newest = self._id_at(now)  # what is reported is not read later
            self._last[at] = max(self._last.get(at, 0), newest)
            self._search.pop(at, None)  # what was found is in `_last`
            self._unread.pop()
        self._read = absence

    async def _past(
        self,
        at: Address,
        since: int,
        last: int,
        fetch: Callable[[Address, int, str], Awaitable[BacklogPage[Inbound]]],
    ) -> Past[Inbound]:
        """Read a place back to `since`, and keep what came after the message `last`."""

        async def page(begin: str) -> BacklogPage[Inbound]:
            return await fetch(at, since, begin)

        async def wanted(inbound: Inbound) -> bool:
            is_new = _number(inbound.message_id) > last
            return is_new and await self.wants(inbound)

        return await self._catch_up.read(at.key, page, wanted)


def _number(message: str) -> int:
    return int(message.replace(".", ""))
