"""Messages of an absence, which are read from histories."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.errors import ConnectFailed
from segue.platforms import backlog
from segue.platforms.backlog import Backlog, BacklogPage, CatchUp
from segue.platforms.base import Inbound, InboundKind
from segue.platforms.errors import Failures, Lost, Refused

FAILURES = Failures(Platform.DISCORD)
CHAT = Address(platform=Platform.DISCORD, chat_type=ChatType.CHANNEL, chat_id="5")
THREAD = Address(platform=Platform.DISCORD, chat_type=ChatType.CHANNEL, chat_id="5", thread_id="70")
OTHER = Address(platform=Platform.DISCORD, chat_type=ChatType.CHANNEL, chat_id="6")
ANNA = Sender(platform=Platform.DISCORD, user_id="1")
EVE = Sender(platform=Platform.DISCORD, user_id="2")
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


def message(number: int, by: Sender = ANNA, at: Address = CHAT) -> Inbound:
    name = str(number)
    return Inbound(
        kind=InboundKind.MESSAGE, update_id=name, message_id=name, address=at, sender=by, text=name
    )


# Where to begin


def made() -> Backlog:
    """A backlog of a platform whose ids are seconds."""
    return Backlog(FAILURES, lambda at: int(at.timestamp()), _time_of)


def _time_of(number: int) -> datetime:
    return datetime.fromtimestamp(number, UTC)


def test_only_chats_where_the_bot_talks_are_read():
    it = made()
    it.note(CHAT, "1")
    assert it.newest() == []
    it.follow(CHAT, "2")
    it.follow(CHAT, "9")
    assert it.newest() == [(CHAT, 2)], "what came before the bot spoke again may be unread"
    it.note(CHAT, "4")
    it.note(CHAT, "3")
    assert it.newest() == [(CHAT, 4)]


@pytest.mark.parametrize("contact", [NOON, None], ids=["with a contact", "without"])
def test_the_places_that_are_read_are_those_where_something_was_written_last(
    monkeypatch: pytest.MonkeyPatch, contact: datetime | None
):
    monkeypatch.setattr(backlog, "PLACES", 3)
    it = made()
    noon = int(NOON.timestamp())
    recorded = {
        replace(THREAD, thread_id=str(began)): f"{began + 60} x"
        for began in (noon - 86_400 * days for days in (2, 1, 5, 3, 4))
    }
    it.remember({CHAT: "", **recorded}, contact=contact)
    found = [at.thread_id for at, _ in it.newest()]
    expected = {None, str(noon - 86_400), str(noon - 2 * 86_400)}
    assert set(found) == expected, "new threads are found in their chat"


async def test_strangers_do_not_make_the_bot_read_a_place():
    it = made()
    it.remember({}, wanted=known)
    await it.arrived(message(1, EVE))
    assert it.newest() == []
    await it.arrived(message(2, ANNA))
    await it.arrived(message(3, EVE))
    assert it.newest() == [(CHAT, 3)]


def test_a_new_process_starts_where_the_gateway_stopped_recording():
    it = made()
    it.remember({CHAT: "", THREAD: "", OTHER: "12 2026-11-17"})
    last = dict(it.newest())
    assert last[OTHER] == 12
    assert last[THREAD] == 70
    yesterday = datetime.now(UTC) - timedelta(days=1)
    assert abs(last[CHAT] - yesterday.timestamp()) < 60
    odd = made()
    odd.remember({CHAT: "not a number", OTHER: "1.5 C1"})
    assert odd.newest() == [(OTHER, 15)]


def test_what_the_process_has_heard_counts_but_not_what_it_said_before_it_knew_the_record():
    it = made()
    it.follow(CHAT, "30")
    it.remember({CHAT: "10"})
    assert it.newest() == [(CHAT, 10)]
    it.note(CHAT, "40")
    it.follow(OTHER, "41")
    it.remember({CHAT: "10", OTHER: ""})
    assert it.newest() == [(CHAT, 40), (OTHER, 41)]


def test_what_arrived_before_the_last_contact_is_not_read_again():
    it = made()
    contact = int(NOON.timestamp())
    recorded = {CHAT: str(contact - 9_000), THREAD: "", OTHER: str(contact + 5)}
    it.remember(recorded, contact=NOON)
    overlap = contact - int(backlog.OVERLAP.total_seconds())
    assert dict(it.newest()) == {CHAT: overlap, THREAD: overlap, OTHER: contact + 5}


# Reading


Fetch = Callable[[Address, int, str], Awaitable[BacklogPage[Inbound]]]


def history(
    *messages: Inbound, page: int = 3, failing: dict[str, Exception] | None = None
) -> Fetch:
    """Pages of a history, the newest first. A page in `failing` fails once."""
    failures = failing if failing is not None else {}

    async def fetch(at: Address, last: int, before: str) -> BacklogPage[Inbound]:
        if (error := failures.pop(before, None)) is not None:
            raise error
        every = [it for it in messages if it.address == at and int(it.message_id) > last]
        rest = [it for it in every if not before or int(it.message_id) < int(before)]
        newest = rest[-page:][::-1]
        numbers = [int(it.message_id) for it in newest]
        return BacklogPage(
            found=newest,
            size=len(newest),
            edge=_time_of(numbers[-1]) if numbers else None,
            newest=max(numbers, default=0),
            next=str(numbers[-1]) if len(rest) > page else "",
        )

    return fetch


async def read(it: Backlog, fetch: Fetch, into: list[Inbound] | None = None) -> list[Inbound]:
    found: list[Inbound] = [] if into is None else into
    received = it.receive(fetch)
    async with contextlib.aclosing(received):
        async for inbound in received:
            found += [] if inbound is None else [inbound]
    return found


async def known(sender: Sender, text: str) -> bool:
    return sender == ANNA


async def test_pages_are_read_back_to_the_last_message_and_heard_in_order():
    it = made()
    it.remember({CHAT: "10"}, wanted=known)
    every = [message(number, ANNA if number % 4 else EVE) for number in range(5, 40)]
    assert not it.is_read
    found = await read(it, history(*every))
    assert [int(one.text) for one in found] == [n for n in range(11, 40) if n % 4]
    assert it.is_read
    assert it.newest() == [(CHAT, 39)]


async def test_a_page_that_fails_in_the_middle_loses_nothing_and_keeps_the_order():
    it = made()
    it.remember({CHAT: "10", OTHER: "10"})
    every = [message(number) for number in range(11, 20)]
    there = [message(number, at=OTHER) for number in range(11, 14)]
    fetch = history(*every, *there, failing={"14": Lost("it broke", arrived=True)})
    found: list[Inbound] = []
    with pytest.raises(ConnectFailed):
        await read(it, fetch, found)
    assert {one.address for one in found} <= {OTHER}, "nothing of a place before all of it is read"
    it.follow(CHAT, "20")
    every.append(message(20))  # written until the next connection
    it.away()
    found += await read(it, history(*every, *there))
    assert [int(one.text) for one in found if one.address == CHAT] == [*range(11, 21)]
    assert [int(one.text) for one in found if one.address == OTHER] == [11, 12, 13]


async def test_too_many_messages_are_reported_and_the_newest_are_heard(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(backlog, "MESSAGES", 6)
    it = made()
    it.remember({CHAT: "10"})
    gap, *found = await read(it, history(*(message(number) for number in range(11, 40))))
    assert gap.kind is InboundKind.GAP
    assert gap.gap is not None
    assert (gap.gap.since, gap.gap.until) == (_time_of(10), _time_of(34))
    assert [int(one.text) for one in found] == [*range(34, 40)]
    it.away()
    assert await read(it, history(*(message(number) for number in range(11, 40)))) == []


async def test_the_time_is_shared_by_all_places(monkeypatch: pytest.MonkeyPatch):
    now = 0.0
    catch_up = CatchUp(FAILURES, lambda: now)
    catch_up.begin()

    async def fetch(begin: str) -> BacklogPage[int]:
        nonlocal now
        now += backlog.SECONDS / 3
        return BacklogPage(found=[1], size=1, next="more")

    async def anything(it: int) -> bool:
        return True

    first = await catch_up.read("a", fetch, anything)
    assert (len(first.found), first.is_complete) == (3, False)
    second = await catch_up.read("b", fetch, anything)
    assert (len(second.found), second.is_complete) == (0, False)


async def test_a_busy_platform_is_waited_for_only_while_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
):
    waited: list[float] = []
    now = 0.0

    async def pause(seconds: float) -> None:
        nonlocal now
        waited.append(seconds)
        now += seconds

    async def busy(begin: str) -> BacklogPage[int]:
        raise Refused(429, "too many requests", after=60.0)

    async def anything(it: int) -> bool:
        return True

    monkeypatch.setattr(backlog, "pause", pause)
    catch_up = CatchUp(FAILURES, lambda: now)
    catch_up.begin()
    past = await catch_up.read("a", busy, anything)
    assert not past.is_complete
    assert waited == [60.0] * 4, "a fifth pause would last until the time is over"


@pytest.mark.parametrize("status", [400, 403, 404])
async def test_a_place_that_is_gone_is_not_reported(status: int):
    it = made()
    it.remember({CHAT: "10"})
    assert await read(it, history(failing={"": Refused(status, "gone")})) == []
    assert it.is_read


async def test_a_refused_account_is_never_a_gap():
    it = made()
    it.remember({CHAT: "10"})
    for _ in range(backlog.ATTEMPTS + 1):
        with pytest.raises(ConnectFailed):
            await read(it, history(failing={"": Refused(401, "the token is not right")}))


async def test_places_that_appeared_meanwhile_are_read_too():
    it = made()
    it.remember({CHAT: "10"})
    there = history(message(11), message(71, at=THREAD), message(72, at=THREAD))

    async def fetch(at: Address, last: int, before: str) -> BacklogPage[Inbound]:
        if at == CHAT:
            it.discover(THREAD, 70)
        return await there(at, last, before)

    assert [one.text for one in await read(it, fetch)] == ["11", "71", "72"]


async def test_a_new_process_looks_for_places_since_the_last_contact_but_repeats_no_message():
    known_since = int((NOON - backlog.OVERLAP).timestamp())
    recorded = known_since + 30
    there = history(*(message(recorded + number) for number in range(-20, 3)))
    looked: list[int] = []
    it = made()

    async def fetch(at: Address, last: int, before: str) -> BacklogPage[Inbound]:
        looked.append(last)
        return await there(at, last, before)

    it.remember({CHAT: str(recorded)}, contact=NOON)
    assert [one.text for one in await read(it, fetch)] == [str(recorded + 1), str(recorded + 2)]
    assert set(looked) == {known_since}
    looked.clear()
    it.away()
    assert await read(it, fetch) == []
    assert looked == [recorded + 2], "the process knows the places that it found"


async def test_a_gap_in_the_search_for_places_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(backlog, "MESSAGES", 6)
    known_since = int((NOON - backlog.OVERLAP).timestamp())
    recorded = known_since + 30
    it = made()
    it.remember({CHAT: str(recorded)}, contact=NOON)
    there = history(*(message(recorded + number) for number in range(-20, 3)))
    gap, *found = await read(it, there)
    assert gap.gap is not None
    assert (gap.gap.since, gap.gap.until) == (_time_of(known_since), _time_of(recorded - 3))
    assert [one.text for one in found] == [str(recorded + 1), str(recorded + 2)]
