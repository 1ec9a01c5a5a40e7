"""What is to be said is said in order, once, and never dropped in silence."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from segue.core.address import Address, Platform
from segue.core.handoff import ERROR_LIMIT
from segue.core.session import Origin, Session
from segue.store import Store, outbox
from segue.store.bubbles import UnconfirmedBubble
from segue.store.outbox import SEND_TIMEOUT, UNCERTAIN, Outgoing, OutgoingState
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import CHANNEL, DM, ODD, ROOM, TOPIC, draft

ALL = frozenset(Platform)
TELEGRAM = Platform.TELEGRAM


async def next_ones(store: Store, seconds: float = SEND_TIMEOUT) -> list[Outgoing]:
    return list(await store.outbox.claim(ALL, seconds=seconds))


async def claimed(
    store: Store, key: str = "1", address: Address = DM, session_id: str | None = None
) -> Outgoing:
    assert await store.outbox.enqueue(replace(draft(key, address), session_id=session_id))
    (outgoing,) = await next_ones(store)
    return outgoing


async def stands(store: Store, key: str = "1") -> Outgoing:
    outgoing = await store.outbox.get(key)
    assert outgoing is not None
    return outgoing


async def test_what_is_queued_is_kept_as_it_was(store: Store, session: Session, clock: FakeClock):
    said = replace(draft("key 1", TOPIC, "grüß Gott 👋\n"), session_id=session.id)
    assert await store.outbox.enqueue(said)
    queued = await stands(store, "key 1")
    assert (queued.key, queued.address, queued.body) == ("key 1", TOPIC, "grüß Gott 👋\n")
    assert (queued.session_id, queued.state, queued.attempt) == (
        session.id,
        OutgoingState.QUEUED,
        0,
    )
    assert (queued.queued, queued.finished) == (clock.now(), None)
    assert await store.outbox.get("key 2") is None


async def test_a_file_is_kept_as_it_was_until_it_is_delivered(store: Store, clock: FakeClock):
    every = bytes(range(256))
    said = replace(draft("1", DM), file="/home/me/boat.png", data=every)
    assert await store.outbox.enqueue(said)
    assert not await store.outbox.enqueue(replace(said, data=b"another"))
    (outgoing,) = await next_ones(store)
    await store.outbox.prune(clock.now())
    assert (outgoing.file, await store.outbox.data(outgoing)) == ("/home/me/boat.png", every)
    await store.outbox.sent(outgoing)
    await store.outbox.prune(clock.now())
    assert await store.outbox.data(outgoing) == b""
    assert await store.outbox.data(await claimed(store, "2")) == b""


async def test_the_same_key_is_said_once(store: Store, open_store: OpenStore):
    assert await store.outbox.enqueue(draft("1", DM, "hello"))
    assert not await store.outbox.enqueue(draft("1", DM, "hello"))
    assert not await (await open_store()).outbox.enqueue(draft("1", TOPIC, "something else"))
    (outgoing,) = await next_ones(store)
    assert (outgoing.body, outgoing.address) == ("hello", DM)
    await store.outbox.sent(outgoing)
    assert not await store.outbox.enqueue(draft("1", DM, "hello"))
    assert await next_ones(store) == []


async def test_each_address_hears_things_in_their_order_one_at_a_time(
    store: Store, open_store: OpenStore
):
    other = await open_store()
    for i in range(3):
        await store.outbox.enqueue(draft(f"dm {i}", DM))
        await store.outbox.enqueue(draft(f"topic {i}", TOPIC))
    for i in range(3):
        gateway = other if i % 2 else store
        claims = await next_ones(gateway)
        assert [claim.key for claim in claims] == [f"dm {i}", f"topic {i}"]
        assert await next_ones(store) == await next_ones(other) == []
        for claim in claims:
            assert await gateway.outbox.sent(claim)
    assert await next_ones(store) == []


async def test_two_gateways_never_claim_the_same(store: Store, open_store: OpenStore):
    gateways = [store, await open_store(), await open_store()]
    addresses = [replace(DM, chat_id=f"{i}") for i in range(12)]
    for address in addresses:
        await store.outbox.enqueue(draft(f"first {address}", address))
        await store.outbox.enqueue(draft(f"second {address}", address))
    claims = await asyncio.gather(
        *(g.outbox.claim(ALL, limit=3) for g in gateways for _ in range(3))
    )
    keys = [outgoing.key for claim in claims for outgoing in claim]
    assert len(keys) == len(set(keys))
    assert all(key.startswith("first") for key in keys)
    keys += [o.key for g in gateways for o in await next_ones(g)]
    assert sorted(keys) == sorted(f"first {address}" for address in addresses)


async def test_a_claim_takes_only_what_its_platforms_need_and_no_more_than_asked_for(
    store: Store,
):
    for key, address in (("1", DM), ("2", CHANNEL), ("3", ROOM), ("4", TOPIC)):
        await store.outbox.enqueue(draft(key, address))
    assert await store.outbox.claim(set()) == ()
    (first,) = await store.outbox.claim({TELEGRAM, Platform.SLACK}, limit=1)
    assert first.key == "1"
    rest = await store.outbox.claim({TELEGRAM, Platform.SLACK})
    assert [outgoing.key for outgoing in rest] == ["2", "4"]


async def test_what_was_sent_is_kept_with_its_receipt(store: Store, clock: FakeClock):
    outgoing = await claimed(store)
    assert (outgoing.state, outgoing.attempt) == (OutgoingState.SENDING, 1)
    clock.advance(1)
    assert await store.outbox.sent(outgoing, "message 77")
    sent = await stands(store)
    assert (sent.state, sent.receipts, sent.error) == (OutgoingState.SENT, ("message 77",), None)
    assert sent.finished == clock.now()


async def test_a_message_that_the_platform_did_not_deliver_after_all_has_failed(
    store: Store, session: Session
):
    first = await claimed(store, session_id=session.id)
    undelivered = store.outbox.undelivered
    assert await undelivered(DM, "7", "blocked") is None, "its receipt may come yet"
    assert await store.outbox.progress(first, "7")
    assert await undelivered(DM, "7", "blocked") is None, "its next part is on its way"
    assert await store.outbox.sent(first, "77")
    assert await undelivered(DM, "777", "blocked") is False
    assert await undelivered(ROOM, "7", "blocked") is False
    assert (await stands(store)).state is OutgoingState.SENT
    assert await undelivered(DM, "7", "blocked") is True
    failed = await stands(store)
    assert (failed.state, failed.error, failed.reported) == (OutgoingState.FAILED, "blocked", False)
    assert await store.outbox.troubled(reported=False) == (failed,)
    assert await undelivered(DM, "7", "again") is False, "it is delivered twice"


async def test_the_parts_of_a_message_that_arrived_are_known_in_order(store: Store):
    outgoing = await claimed(store)
    for receipt in ("77", 'a "b"\\\n\u2028', ""):
        assert await store.outbox.progress(outgoing, receipt)
    under_way = await stands(store)
    assert under_way == replace(outgoing, receipts=("77", 'a "b"\\\n\u2028', ""))
    assert await store.outbox.sent(outgoing, "79")
    assert (await stands(store)).receipts == ("77", 'a "b"\\\n\u2028', "", "79")


async def test_a_message_whose_last_part_has_a_receipt_needs_none_when_it_is_sent(
    store: Store,
):
    outgoing = await claimed(store)
    await store.outbox.progress(outgoing, "77")
    assert await store.outbox.sent(outgoing)
    assert (await stands(store)).receipts == ("77",)


async def test_each_part_that_arrived_leaves_time_for_the_next(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    outgoing = await claimed(store)
    for n in range(3):
        clock.advance(SEND_TIMEOUT - 1)
        assert await store.outbox.progress(outgoing, f"{n}")
        assert await (await open_store()).outbox.recover(set()) == ()
    clock.advance(SEND_TIMEOUT)
    (lost,) = await (await open_store()).outbox.recover(set())
    assert lost.receipts == ("0", "1", "2")
    assert not await store.outbox.progress(outgoing, "3")
    assert (await stands(store)).receipts == ("0", "1", "2")


async def test_what_is_sent_again_goes_on_after_the_last_part_that_arrived(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    outgoing = await claimed(store)
    await store.outbox.progress(outgoing, "77")
    await store.outbox.retry(outgoing, "slow down", seconds=0)
    (again,) = await next_ones(store)
    assert again.receipts == ("77",)
    await store.outbox.progress(again, "78")
    clock.advance(SEND_TIMEOUT)
    other = await open_store()
    assert await other.outbox.recover({TELEGRAM}) == ()
    (third,) = await next_ones(other)
    assert third.receipts == ("77", "78")
    assert not await store.outbox.progress(again, "a late one")
    assert await other.outbox.failed(third, "no")
    assert (await stands(store)).receipts == ("77", "78")


async def test_buttons_are_kept_as_they_were(store: Store):
    buttons = (("Yes ✓", "a:1:once"), ('No "', "a:1:never"), (ODD, ODD))
    assert await store.outbox.enqueue(replace(draft("1"), buttons=buttons))
    assert await store.outbox.enqueue(draft("2", TOPIC))
    first, second = await next_ones(store)
    assert first.buttons == (*buttons[:2], ("a\ufffdb\ufffdc", "a\ufffdb\ufffdc"))
    assert second.buttons == ()


async def test_how_much_waits_for_an_address_is_known(store: Store):
    assert await store.outbox.waiting(DM) == 0
    for key, address in (("1", DM), ("2", DM), ("3", TOPIC), ("4", DM)):
        await store.outbox.enqueue(draft(key, address))
    assert await store.outbox.waiting(DM) == 3
    claims = await next_ones(store)
    assert await store.outbox.waiting(DM) == 3
    for claim in claims:
        await store.outbox.sent(claim)
    assert (await store.outbox.waiting(DM), await store.outbox.waiting(TOPIC)) == (2, 0)
    await store.outbox.failed((await next_ones(store))[0], "no")
    assert await store.outbox.waiting(DM) == 1


@pytest.mark.parametrize("state", [OutgoingState.FAILED, OutgoingState.UNCERTAIN])
async def test_what_cannot_be_delivered_is_kept_with_its_reason_and_holds_nothing_back(
    store: Store, state: OutgoingState
):
    outgoing = await claimed(store)
    await store.outbox.enqueue(draft("2"))
    tell = store.outbox.failed if state is OutgoingState.FAILED else store.outbox.uncertain
    assert await tell(outgoing, "x" * 600)
    over = await stands(store)
    assert (over.state, over.error) == (state, "x" * (ERROR_LIMIT - 1) + "…")
    assert [claim.key for claim in await next_ones(store)] == ["2"]


async def test_a_retry_waits_for_its_time_and_holds_back_only_its_address(
    store: Store, clock: FakeClock
):
    outgoing = await claimed(store)
    await store.outbox.enqueue(draft("2", DM))
    await store.outbox.enqueue(draft("3", TOPIC))
    assert await store.outbox.retry(outgoing, "slow down", seconds=30)
    assert [claim.key for claim in await next_ones(store)] == ["3"]
    clock.advance(29.999)
    assert await next_ones(store) == []
    clock.advance(0.001)
    (again,) = await next_ones(store)
    assert (again.key, again.attempt, again.error) == ("1", 2, "slow down")
    assert await store.outbox.sent(again)
    assert [claim.key for claim in await next_ones(store)] == ["2"]


async def test_only_the_newest_claim_says_how_it_went(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    stale = await claimed(store)
    clock.advance(SEND_TIMEOUT)
    assert await other.outbox.recover(ALL) == ()
    (newest,) = await next_ones(other)
    for gateway, claim in ((store, stale), (store, newest), (other, stale)):
        assert not await gateway.outbox.sent(claim)
        assert not await gateway.outbox.failed(claim, "no")
        assert not await gateway.outbox.uncertain(claim, "no")
        assert not await gateway.outbox.retry(claim, "no", seconds=0)
    assert await stands(store) == newest
    assert await other.outbox.sent(newest)
    assert not await other.outbox.failed(newest, "on second thoughts")
    assert (await stands(store)).state is OutgoingState.SENT


async def test_what_a_dead_gateway_was_sending_is_sent_again_where_a_key_makes_that_safe(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    dying = await open_store()
    await claimed(dying)
    await store.outbox.enqueue(draft("2"))
    clock.advance(SEND_TIMEOUT)
    assert await store.outbox.recover({TELEGRAM}) == ()
    (again,) = await next_ones(store)
    assert (again.key, again.attempt) == ("1", 2)


async def test_what_a_dead_gateway_was_sending_is_uncertain_elsewhere_and_reported(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    dying = await open_store()
    await claimed(dying)
    await store.outbox.enqueue(draft("2"))
    clock.advance(SEND_TIMEOUT)
    (lost,) = await store.outbox.recover({Platform.MATRIX})
    assert (lost.key, lost.state, lost.error) == ("1", OutgoingState.UNCERTAIN, UNCERTAIN)
    assert lost.finished == clock.now()
    assert await store.outbox.recover({Platform.MATRIX}) == ()
    assert await store.outbox.troubled() == (lost,)
    assert [claim.key for claim in await next_ones(store)] == ["2"]


async def test_what_a_living_gateway_is_sending_is_left_alone(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    outgoing = await claimed(store)
    clock.advance(SEND_TIMEOUT - 1)
    assert await (await open_store()).outbox.recover(set()) == ()
    assert await store.outbox.sent(outgoing)


async def test_what_a_gateway_was_sending_that_is_known_to_be_gone_is_looked_after_at_once(
    store: Store, open_store: OpenStore
):
    dying, living = await open_store(), await open_store()
    await claimed(dying, "1")
    await claimed(living, "2", TOPIC)
    alive = {store.process, living.process}
    assert await store.outbox.recover(ALL, alive=alive) == ()
    (again,) = await next_ones(store)
    assert (again.key, again.attempt) == ("1", 2)


async def test_only_what_was_sent_on_the_platforms_at_hand_is_looked_after(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    dying = await open_store()
    await claimed(dying, "1", DM)
    await claimed(dying, "2", CHANNEL)
    clock.advance(SEND_TIMEOUT)
    (lost,) = await store.outbox.recover(set(), platforms={Platform.SLACK})
    assert lost.key == "2"
    assert (await stands(store, "1")).state is OutgoingState.SENDING
    (lost,) = await store.outbox.recover(set())
    assert lost.key == "1"


async def test_what_was_becoming_a_live_bubble_can_be_repeated_on_any_platform(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    dying = await open_store()
    await dying.outbox.bubble(DM, "77")
    await dying.outbox.begin_bubble(TOPIC, "key", "Half")
    await claimed(dying, "an edit", DM)
    await claimed(dying, "a message", TOPIC)
    clock.advance(SEND_TIMEOUT)
    (lost,) = await store.outbox.recover(set())
    assert lost.key == "a message"
    (again,) = await next_ones(store)
    assert again.key == "an edit"


async def test_a_later_part_is_no_edit_of_the_bubble(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    dying = await open_store()
    await dying.outbox.progress(await claimed(dying), "76")
    await dying.outbox.bubble(DM, "77")
    clock.advance(SEND_TIMEOUT)
    (lost,) = await store.outbox.recover(set())
    assert lost.receipts == ("76",)


async def test_what_a_gateway_that_ended_was_sending_is_looked_after_at_once(
    store: Store, open_store: OpenStore
):
    dying = await open_store()
    await claimed(dying)
    await dying.close()
    (lost,) = await store.outbox.recover(set())
    assert lost.key == "1"


async def test_what_the_caller_is_sending_itself_is_not_looked_after(
    store: Store, clock: FakeClock
):
    outgoing = await claimed(store)
    clock.advance(SEND_TIMEOUT)
    assert await store.outbox.recover(set(), besides=[outgoing.no]) == ()
    assert await store.outbox.sent(outgoing, "77")


async def test_a_receipt_that_is_recorded_twice_counts_once(store: Store):
    outgoing = await claimed(store)
    for receipt in ("1", "1", "11", "11", "1"):
        assert await store.outbox.progress(outgoing, receipt)
    assert (await stands(store)).receipts == ("1", "11", "1")


async def test_what_is_troubled_is_listed_the_newest_first(store: Store):
    for key in "12345":
        outgoing = await claimed(store, key)
        if key == "3":
            await store.outbox.sent(outgoing)
        elif key == "4":
            await store.outbox.uncertain(outgoing, "who knows")
        else:
            await store.outbox.failed(outgoing, "no")
    assert [o.key for o in await store.outbox.troubled()] == ["5", "4", "2", "1"]
    assert [o.key for o in await store.outbox.troubled(limit=1)] == ["5"]


async def test_what_is_troubled_is_reported_once(
    store: Store, open_store: OpenStore, session: Session
):
    failed, uncertain, sent = [
        await claimed(store, key, address, session.id)
        for key, address in (("1", DM), ("2", TOPIC), ("3", ROOM))
    ]
    assert not await store.outbox.reported(failed.no)
    await store.outbox.failed(failed, "no")
    await store.outbox.uncertain(uncertain, "who knows")
    await store.outbox.sent(sent)
    assert [o.key for o in await store.outbox.troubled(reported=False)] == ["2", "1"]
    tries = [store.outbox, (await open_store()).outbox]
    assert sorted(await asyncio.gather(*(o.reported(failed.no) for o in tries))) == [False, True]
    assert not await store.outbox.reported(sent.no)
    assert [(o.key, o.reported) for o in await store.outbox.troubled()] == [
        ("2", False),
        ("1", True),
    ]
    assert [o.key for o in await store.outbox.troubled(reported=False)] == ["2"]
    assert [o.key for o in await store.outbox.troubled(reported=True)] == ["1"]


async def test_trouble_without_a_session_crowds_out_no_report(store: Store, session: Session):
    await store.outbox.failed(await claimed(store, "1", DM, session.id), "no")
    for key in "23":
        await store.outbox.failed(await claimed(store, key), "no")
    assert [o.key for o in await store.outbox.troubled(limit=2)] == ["3", "2"]
    assert [o.key for o in await store.outbox.troubled(reported=False, limit=2)] == ["1"]


async def test_the_live_bubble_of_an_address_is_found_by_the_next_gateway(
    store: Store, open_store: OpenStore, session: Session
):
    await store.outbox.bubble(DM, "77", session.id)
    await store.outbox.bubble(TOPIC, "78")
    await store.outbox.bubble(CHANNEL, "1.2")
    await store.outbox.bubble(replace(ROOM, chat_id=ODD), ODD)
    next_one = (await open_store()).outbox
    assert await next_one.bubbles({TELEGRAM}) == {DM: "77", TOPIC: "78"}
    assert await next_one.bubbles({Platform.SLACK}) == {CHANNEL: "1.2"}
    assert await next_one.bubbles({Platform.MATRIX}) == {
        replace(ROOM, chat_id=ODD): "a\ufffdb\ufffdc"
    }
    assert await next_one.bubbles(set()) == {}


async def test_a_live_bubble_is_known_from_before_it_is_sent(store: Store, open_store: OpenStore):
    await store.outbox.bubble(DM, "77")
    await store.outbox.begin_bubble(DM, "key", "Half")
    next_one = (await open_store()).outbox
    assert await next_one.bubbles(ALL) == {}
    assert await next_one.begun_bubbles(ALL) == {DM: UnconfirmedBubble("key", "Half")}
    assert await next_one.begun_bubbles({Platform.SLACK}) == {}
    await store.outbox.bubble(DM, "78")
    assert await next_one.bubbles(ALL) == {DM: "78"}
    assert await next_one.begun_bubbles(ALL) == {}


async def test_a_live_bubble_that_became_an_answer_is_forgotten_together_with_its_sending(
    store: Store,
):
    for address in (DM, TOPIC, CHANNEL):
        await store.outbox.bubble(address, "77")
    await store.outbox.sent(await claimed(store, "1", DM), "77")
    await store.outbox.progress(await claimed(store, "2", TOPIC), "77")
    await store.outbox.sent(await claimed(store, "3", CHANNEL), "78")
    assert await store.outbox.bubbles(ALL) == {CHANNEL: "77"}


async def test_an_address_has_one_live_bubble_until_it_is_gone(store: Store):
    for receipt in ("77", "78"):
        await store.outbox.bubble(DM, receipt)
    assert await store.outbox.bubbles(ALL) == {DM: "78"}
    for _ in range(2):
        await store.outbox.bubble(DM, None)
        assert await store.outbox.bubbles(ALL) == {}


async def test_a_turn_shows_its_progress_while_it_runs_there_and_nothing_waits(
    store: Store, session: Session
):
    no = await store.inbox.record("bot", "1", DM, "hello")
    assert no is not None
    assert await store.outbox.progress_after(DM, session.id, no) is None
    await store.bindings.rebind(session.id, DM, Origin.MESSAGE)
    assert await store.outbox.progress_after(DM, session.id, no) == 0
    waiting = await claimed(store)
    assert await store.outbox.progress_after(DM, session.id, no) is None
    await store.outbox.sent(waiting, "77")
    assert await store.outbox.progress_after(DM, session.id, no) == 0
    await store.bindings.rebind(session.id, TOPIC, Origin.RESUME)
    assert await store.outbox.progress_after(DM, session.id, no) is None


async def test_a_turn_that_is_finished_shows_no_progress(store: Store, session: Session):
    no = await store.inbox.record("bot", "1", DM, "hello")
    assert no is not None
    await store.bindings.rebind(session.id, DM, Origin.MESSAGE)
    await store.inbox.finish([no])
    assert await store.outbox.progress_after(DM, session.id, no) is None


async def test_pruning_forgets_only_what_was_delivered_before_then(store: Store, clock: FakeClock):
    await store.outbox.sent(await claimed(store, "old"))
    await store.outbox.failed(await claimed(store, "failed"), "no")
    await store.outbox.uncertain(await claimed(store, "uncertain"), "hm")
    clock.advance(10)
    await store.outbox.sent(await claimed(store, "new"))
    await store.outbox.enqueue(draft("queued"))
    assert await store.outbox.prune(clock.now()) == 1
    assert await store.outbox.get("old") is None
    for key in ("failed", "uncertain", "new", "queued"):
        assert await store.outbox.get(key)
    assert await store.outbox.prune(clock.now() + timedelta(days=1)) == 1


async def test_what_no_database_can_hold_is_marked_not_rejected(store: Store):
    address = replace(DM, chat_id=ODD)
    assert await store.outbox.enqueue(draft("1", address, ODD))
    (outgoing,) = await next_ones(store)
    assert (outgoing.body, outgoing.address) == ("a\ufffdb\ufffdc", address)
    assert await store.outbox.retry(outgoing, ODD, seconds=0)
    (outgoing,) = await next_ones(store)
    assert await store.outbox.sent(outgoing, ODD)
    assert (await stands(store)).receipts == ("a\ufffdb\ufffdc",)


async def test_what_a_handoff_said_and_may_not_have_arrived_is_offered_again_once(store: Store):
    for key in ("handoff:1:recap", "handoff:1:reply", "handoff:1:stayed", "s/1"):
        await store.outbox.uncertain(await claimed(store, key), "who knows")
    for update in ("1", "2"):
        await store.inbox.record("bot", update, DM, "hello")
    offered = [outgoing.key for outgoing in await open_rows(store)]
    assert offered == ["again:handoff:1:recap", "again:handoff:1:reply"]


async def open_rows(store: Store) -> list[Outgoing]:
    """All that waits, in the order in which it is sent."""
    found: list[Outgoing] = []
    while taken := await store.outbox.claim([DM.platform]):
        found += taken
        for outgoing in taken:
            await store.outbox.sent(outgoing)
    return found


async def test_a_pause_that_the_platform_asked_for_is_known_for_its_address(store: Store):
    outgoing = await claimed(store, "1")
    assert await store.outbox.retry(outgoing, "500", seconds=60)
    assert await store.outbox.asked_to_wait(DM) == 0
    outgoing = await claimed(store, "2", TOPIC)
    assert await store.outbox.retry(outgoing, "429", seconds=60, asked=True)
    assert 0 < await store.outbox.asked_to_wait(TOPIC) <= 60


async def test_what_ends_each_gateway_that_sends_it_is_not_tried_for_ever(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outbox, "MAX_ATTEMPTS", 3)
    await store.outbox.enqueue(draft("1"))
    for attempt in range(1, 4):
        assert [o.attempt for o in await store.outbox.claim([DM.platform])] == [attempt]
        await store.outbox.recover([DM.platform], alive=[])
    assert (await stands(store)).state is OutgoingState.UNCERTAIN
