"""Each update from a platform is stored once, until it is answered."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from segue.core.address import Platform
from segue.core.errors import PlatformLost
from segue.core.session import Origin, Session, Usage
from segue.store import Store, Tx, bindings, gateways, inbox, sessions, transcripts
from segue.store.gateways import ALIVE_SECONDS
from segue.testing.clock import FakeClock
from segue.turns import queries
from tests.store.conftest import OpenStore
from tests.store.samples import AT, CHANNEL, DM, ODD, ROOM, TOPIC, answered, hold, on_postgres, said

ELSEWHERE = replace(DM, chat_id="43")


async def waiting(store: Store) -> list[str]:
    return [incoming.body for incoming in await inbox.waiting(store)]


async def test_an_update_is_stored_unchanged(store: Store, clock: FakeClock):
    number = await inbox.record(store, "bot", "update 1", TOPIC, '{"text": "grüß Gott 👋"}')
    (incoming,) = await inbox.waiting(store)
    assert incoming.no == number
    assert (incoming.platform, incoming.account) == (TOPIC.platform, "bot")
    assert (incoming.update_id, incoming.address) == ("update 1", TOPIC)
    assert (incoming.body, incoming.received) == ('{"text": "grüß Gott 👋"}', clock.now())


async def test_the_same_update_is_recorded_once(store: Store, open_store: OpenStore):
    assert await inbox.record(store, "bot", "1", DM, "hello") is not None
    assert await inbox.record(store, "bot", "1", DM, "hello") is None
    assert await inbox.record(await open_store(), "bot", "1", ELSEWHERE, "hello") is None
    assert await waiting(store) == ["hello"]


async def test_the_same_update_at_the_same_moment_is_recorded_once(
    store: Store, open_store: OpenStore
):
    openings = [store, await open_store()]
    numbers = await asyncio.gather(
        *(inbox.record(o, "bot", "1", DM, "hello") for o in openings for _ in range(5))
    )
    assert len([number for number in numbers if number is not None]) == 1


async def test_the_same_update_id_on_another_account_or_platform_is_another_update(store: Store):
    matrix = replace(DM, platform=Platform.MATRIX)
    assert await inbox.record(store, "bot", "1", DM, "a") is not None
    assert await inbox.record(store, "other bot", "1", DM, "b") is not None
    assert await inbox.record(store, "bot", "1", matrix, "c") is not None
    assert await inbox.record(store, "bot", "2", DM, "d") is not None
    assert await waiting(store) == ["a", "b", "c", "d"]


async def test_waiting_updates_are_listed_in_order_of_arrival(store: Store, open_store: OpenStore):
    other = await open_store()
    for i in range(6):
        await inbox.record(other if i % 2 else store, "bot", f"{i}", DM, f"{i}")
    assert await waiting(store) == [f"{i}" for i in range(6)]
    assert [i.body for i in await inbox.waiting(store, limit=2)] == ["0", "1"]


async def test_waiting_updates_can_be_listed_by_platform(store: Store):
    for n, address in enumerate((DM, ROOM, TOPIC, CHANNEL, DM)):
        await inbox.record(store, "bot", f"{n}", address, f"{n}")
    for platforms, bodies in (
        ([Platform.TELEGRAM], ["0", "2", "4"]),
        ({Platform.TELEGRAM, Platform.MATRIX}, ["0", "1", "2", "4"]),
        ({Platform.DISCORD}, []),
        (set[Platform](), []),
        (None, ["0", "1", "2", "3", "4"]),
    ):
        assert [i.body for i in await inbox.waiting(store, platforms)] == bodies
    some = await inbox.waiting(store, [Platform.TELEGRAM, Platform.MATRIX], limit=2)
    assert [incoming.body for incoming in some] == ["0", "1"]


async def test_the_entries_of_a_deleted_session_no_longer_wait(store: Store, session: Session):
    numbers = [await inbox.record(store, "bot", f"{n}", DM, f"{n}") for n in range(2)]
    taken, other = [number for number in numbers if number is not None]
    lease = await hold(store, session.id)
    await store.write(inbox.take, [taken], session.id)
    await sessions.delete(store, session.id, lease=lease)
    assert [incoming.no for incoming in await inbox.waiting(store)] == [other]


async def test_a_finished_update_no_longer_waits_and_is_still_deduplicated(store: Store):
    numbers = [await inbox.record(store, "bot", f"{i}", DM, f"{i}") for i in range(3)]
    done = [number for number in numbers[:2] if number is not None]
    assert await inbox.finish(store, done) == 2
    assert await inbox.finish(store, done) == 0
    assert await inbox.finish(store, []) == 0
    assert await waiting(store) == ["2"]
    assert await inbox.record(store, "bot", "0", DM, "again") is None


async def test_pruning_deletes_only_updates_finished_before_the_given_time(
    store: Store, clock: FakeClock
):
    first = await inbox.record(store, "bot", "1", DM, "old and done")
    await inbox.record(store, "bot", "2", DM, "old and waiting")
    clock.advance(2 * 60 * 60)
    second = await inbox.record(store, "bot", "3", DM, "just done")
    assert first is not None
    assert second is not None
    await inbox.finish(store, [first])
    clock.advance(10)
    await inbox.finish(store, [second])
    assert await inbox.prune(store, clock.now()) == 1
    assert await waiting(store) == ["old and waiting"]
    assert await inbox.record(store, "bot", "1", DM, "sent anew") is not None
    assert await inbox.record(store, "bot", "3", DM, "sent anew") is None


async def test_the_last_updates_of_a_chat_stay_so_that_it_is_read_after_a_long_absence(
    store: Store, clock: FakeClock
):
    group = replace(DM, chat_id="7")
    numbers = [
        await inbox.record(store, "bot", update, at, "done")
        for update, at in (("1", DM), ("2", DM), ("3", group))
    ]
    await inbox.finish(store, [number for number in numbers if number is not None])
    clock.advance(60 * 24 * 60 * 60)
    assert await inbox.prune(store, clock.now()) == 0
    assert await inbox.newest(store, DM.platform, "bot") == {DM: "2", group: "3"}
    assert await inbox.record(store, "bot", "1", DM, "read again") is None


async def test_unstorable_characters_in_an_update_are_replaced(store: Store):
    assert await inbox.record(store, ODD, ODD, replace(DM, chat_id=ODD), ODD) is not None
    assert await inbox.record(store, ODD, ODD, replace(DM, chat_id=ODD), ODD) is None
    (incoming,) = await inbox.waiting(store)
    assert incoming.body == "a\ufffdb\ufffdc"
    assert incoming.address.chat_id == ODD


async def test_an_update_and_its_effect_are_stored_in_one_transaction(
    store: Store, session: Session
):
    lease = await hold(store, session.id)

    def take(tx: Tx, fail: bool) -> None:
        number = inbox.record(tx, "bot", "1", DM, "hello")
        assert number is not None
        transcripts.append(tx, lease, [said("hello")])
        inbox.finish(tx, [number])
        if fail:
            raise ZeroDivisionError

    for fail in (True, False):
        try:
            await store.write(take, fail)
        except ZeroDivisionError:
            assert len(await transcripts.load(store, session.id)) == 0
    assert len(await transcripts.load(store, session.id)) == 1
    assert await inbox.waiting(store) == ()
    assert await inbox.record(store, "bot", "1", DM, "hello") is None


async def test_the_newest_update_of_a_message_is_found(store: Store):
    await inbox.record(store, "bot", "1", DM, "one", "77")
    second = await inbox.record(store, "bot", "2", DM, "two", "77")
    await inbox.record(store, "bot", "3", DM, "nameless")
    assert second is not None
    await inbox.finish(store, [second])
    assert await inbox.said(store, "bot", DM, "77") == "two"
    assert await inbox.said(store, "other bot", DM, "77") is None
    assert await inbox.said(store, "bot", TOPIC, "77") is None
    assert await inbox.said(store, "bot", DM, "") is None


async def test_an_update_that_is_set_aside_is_finished_and_listed_with_its_reason(store: Store):
    first, second = [await inbox.record(store, "bot", n, DM, n) for n in ("1", "2")]
    assert first is not None
    assert second is not None
    await inbox.finish(store, [second])
    assert await inbox.set_aside(store, first, "no")
    assert not await inbox.set_aside(store, first, "again")
    assert await inbox.set_aside(store, second, "x" * 1000)  # a command, which is finished first
    assert await waiting(store) == []
    listed = await inbox.troubled(store)
    assert [(i.no, i.error) for i in listed] == [(second, "x" * 499 + "…"), (first, "no")]


async def test_an_update_is_set_aside_once_whether_recorded_or_not(store: Store):
    recorded = await inbox.record(store, "bot", "1", DM, "hello")
    assert await store.write(inbox.refuse, "bot", "1", DM, "no") == recorded
    assert await store.write(inbox.refuse, "bot", "1", DM, "no") is None
    assert await store.write(inbox.refuse, "bot", "2", DM, "nor this") is not None
    assert await inbox.record(store, "bot", "2", DM, "hello") is None  # it is delivered again
    assert await waiting(store) == []
    assert [i.error for i in await inbox.troubled(store)] == ["nor this", "no"]


# A platform that another gateway took over


async def test_a_gateway_that_lost_a_platform_cannot_change_its_inbox(
    store: Store, open_store: OpenStore, session: Session, clock: FakeClock
):
    other = await open_store()
    await gateways.announce(store, "hangs", [DM.platform, CHANNEL.platform])
    number = await inbox.record(store, "bot", "1", DM, "hello")
    assert number is not None
    lease = await hold(store, session.id)
    clock.advance(ALIVE_SECONDS)
    await gateways.announce(other, "takes over", [DM.platform])
    for refused in (
        inbox.record(store, "bot", "2", DM, "late"),
        inbox.finish(store, [number]),
        store.write(queries.begin, lease, said("hello"), [number], AT),
        store.write(queries.add, lease, answered("hello"), Usage(), inbox_ids=[number]),
    ):
        with pytest.raises(PlatformLost, match="Another gateway serves telegram now"):
            await refused
    assert await waiting(store) == ["hello"]
    assert await inbox.record(store, "bot", "2", CHANNEL, "elsewhere") is not None
    assert await inbox.record(other, "bot", "2", DM, "not late") is not None
    assert await inbox.finish(other, [number]) == 1


@on_postgres
async def test_a_gateway_that_loses_a_platform_meanwhile_records_nothing(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    await gateways.announce(store, "hangs", [DM.platform])
    clock.advance(ALIVE_SECONDS)
    taken, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def take_over(tx: Tx) -> None:
        gateways.announce(tx, "takes over", [DM.platform], seconds=ALIVE_SECONDS)
        loop.call_soon_threadsafe(taken.set)
        go.wait()

    taking = asyncio.ensure_future(other.write(take_over))
    await taken.wait()
    recording = asyncio.ensure_future(inbox.record(store, "bot", "1", DM, "hello"))
    await asyncio.sleep(0.05)
    assert not recording.done()
    go.set()
    await taking
    with pytest.raises(PlatformLost):
        await recording
    assert await waiting(store) == []


async def test_the_newest_update_of_each_chat_and_door_is_found(store: Store, session: Session):
    for update_id, at in (("1", DM), ("2", DM), ("3", ELSEWHERE)):
        await inbox.record(store, "bot", update_id, at, "hello")
    await inbox.record(store, "another", "9", DM, "hello")
    await bindings.rebind(store, session.id, TOPIC, Origin.RESUME)
    assert await inbox.newest(store, DM.platform, "bot") == {DM: "2", ELSEWHERE: "3", TOPIC: ""}
    assert await inbox.newest(store, Platform.MATRIX, "bot") == {}
