"""Read what users wrote while the adapter was away, for platforms that send each event only once.

The adapter fetches one page of a history, and `CatchUp` decides how many are read. It reads from
the newest message back to the known one, because users still wait for an answer to the newest.
Nothing of a place is yielded before all of its pages are read, so the order is kept and a failure
loses nothing.

`Backlog` knows in which places to read, and since which message. It needs ids that are numbers,
with or without a point, and that grow with time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
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
"""How long reading may take, for all places together, because new messages wait meanwhile. The time
to record what was read does not count."""
ATTEMPTS = 5
"""After so many failures, a place is left unread, so that it does not stop the others."""
PLACES = 250
"""How many places to read: those with the newest messages. Each takes a call, and Slack allows 50 a
minute."""
OVERLAP = timedelta(minutes=15)
"""Messages that arrived this long before the last contact may not be recorded."""
_UNRECORDED = timedelta(days=1)
_BUSY_SECONDS = 5.0

logger = logging.getLogger(__name__)

pause: Callable[[float], Awaitable[None]] = asyncio.sleep
"""Waits that many seconds for a busy platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogPage(Generic[T]):
    """One page of a history."""

    found: Sequence[T]
    """The messages of users, in the order of reading."""
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
    """The part of a place's history that was read."""

    found: Sequence[T]
    """The wanted messages, in the order of reading."""
    edge: datetime | None
    """The time of the last message that was read. None if there was none."""
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
        one for "". A busy platform is asked again after the time that it names. Another failure is
        raised, and the caller reads the place again over the next connection."""
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
            seconds = _BUSY_SECONDS if failed.after is None else failed.after
            if self._clock() + seconds >= until:
                return False
            await pause(seconds)
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
    """The update that reports the time that was not read. `known` is the time of the known message,
    and `since` the time at which reading was to begin, if it is earlier."""
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
        """Whether `remember` was called. Until then, `_last` has only the places where the bot has
        spoken in this process, and the missed messages are older."""
        self._recorded: dict[Address, int] = {}
        """The last message that the gateway has recorded in each place, or where a thread began."""
        self._search: dict[Address, int] = {}
        """The message since which a chat is searched for new threads, if not since its last one: an
        earlier process may have recorded that message and stopped before it recorded the threads.
        """
        self._unread: list[tuple[Address, int]] = []
        self._absences = 1  # the adapter was away before its first connection
        self._reading = 0
        self._read = 0
        self._catch_up = CatchUp(failures)
        self._wanted: Wanted = _all_wanted

    def follow(self, at: Address, since: str) -> None:
        """Note that the bot talks at that address since that message. Other places are not read."""
        self._last.setdefault(at, _number(since))

    def note(self, at: Address, message: str) -> None:
        """Note that a message arrived."""
        if at in self._last:
            self._last[at] = max(self._last[at], _number(message))

    async def arrived(self, inbound: Inbound) -> None:
        """Note an update that arrived. The bot talks where a user whom the gateway knows addresses
        it. Others cannot make it read a place."""
        if inbound.kind is not InboundKind.MESSAGE:
            return
        at = inbound.address
        if inbound.addressed and at not in self._last and await self.is_wanted(inbound.sender):
            self.follow(at, inbound.message_id)
        self.note(at, inbound.message_id)

    def remember(
        self,
        recorded: Mapping[Address, str],
        *,
        contact: datetime | None = None,
        wanted: Wanted | None = None,
    ) -> None:
        """Take the last recorded update of each place, as Adapter.remember does.

        Messages from before the last contact were not missed: they arrived then. Without a contact,
        in a place without recorded updates, the messages of the last day were missed, or all
        messages of a thread, because its id is older than they are. Threads that appeared since the
        last contact are searched for in every chat.
        """
        self._wanted = wanted or _all_wanted
        now = datetime.now(UTC)
        for at, update_id in recorded.items():
            if at in self._last and self._is_informed:
                continue
            message = update_id.partition(" ")[0] or at.thread_id
            if message is None:
                known = 0 if contact else self._id_at(now - _UNRECORDED)
            elif message.replace(".", "").isdecimal():
                known = _number(message)
            else:
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
        """The places with the newest messages, each with the message since which it is read. A chat
        is as new as its newest thread, because new threads are found in it."""
        # After a contact, most places are read since the same message.
        ages = {at: (last, self._recorded.get(at, 0)) for at, last in self._last.items()}
        for at, age in list(ages.items()):
            chat = replace(at, thread_id=None)
            if chat in ages:
                ages[chat] = max(ages[chat], age)
        return sorted(self._last.items(), key=lambda it: ages[it[0]])[-PLACES:]

    async def is_wanted(self, sender: Sender) -> bool:
        """Whether the gateway wants the messages of that sender."""
        return await self._wanted(sender, "")

    async def wants(self, inbound: Inbound) -> bool:
        """Whether the gateway wants that update."""
        return await self._wanted(inbound.sender, inbound.typed)

    def discover(self, at: Address, since: int) -> None:
        """Also read a place that appeared while the adapter was away, unless it is known. Called by
        `fetch`."""
        if at not in self._last:
            self._last[at] = since
            self._unread.insert(0, (at, since))

    def away(self) -> None:
        """Note that the adapter was away, so that `receive` reads all places again."""
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
        """Yield the missed updates of each place, as Adapter.receive does.

        `fetch` returns a page of a place after a message, beginning with the newest, or with the
        oldest if `is_forward`, and calls `discover`. `complete` takes a wanted update and adds what
        costs calls. A place that was read is not read again until `away`.
        """
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
                # Before the messages: once one of them is recorded, the gap would not be known.
                known = self._time_of(last)
                begin = self._time_of(since)
                yield gap(at, known, past, now, since=begin, is_forward=is_forward(at))
            found = past.found if is_forward(at) else past.found[::-1]
            for inbound in found:
                yield inbound if complete is None else await complete(inbound)
                await self.arrived(inbound)
            newest = past.newest
            if is_forward(at) and not past.is_complete:
                newest = self._id_at(now)  # a reported gap is not read later
            self._last[at] = max(self._last.get(at, 0), newest)
            self._search.pop(at, None)  # the threads that were found are in `_last`
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
            if _number(inbound.message_id) <= last:
                return False
            return await self.wants(inbound)

        return await self._catch_up.read(at.key, page, wanted)


def _number(message: str) -> int:
    return int(message.replace(".", ""))
