"""Outbound messages are sent in order, once, and never dropped silently."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from segue.core.address import Address, Platform
from segue.core.session import Origin, Session
from segue.core.text import REASON_LIMIT
from segue.store import Store, Topic, outbox
from segue.store.bubbles import UnconfirmedBubble
from segue.store.outbox import (
    FORGOTTEN,
    SEND_TIMEOUT,
    UNCERTAIN,
    Outgoing,
    OutgoingState,
    PlatformPause,
)
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
    assert await store.outbox.enqueue(structs.replace(draft(key, address), session_id=session_id))
    (outgoing,) = await next_ones(store)
    return outgoing


async def stands(store: Store, key: str = "1") -> Outgoing:
    outgoing = await store.outbox.get(key)
    assert outgoing is not None
    return outgoing


async def test_a_queued_message_is_stored_unchanged(
    store: Store, session: Session, clock: FakeClock
):
    said = structs.replace(draft("key 1", TOPIC, "grüß Gott 👋\n"), session_id=session.id)
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


async def test_a_file_is_stored_unchanged_until_it_is_delivered(store: Store, clock: FakeClock):
    every = bytes(range(256))
    said = structs.replace(draft("1", DM), file="/home/me/boat.png", data=every)
    assert await store.outbox.enqueue(said)
    assert not await store.outbox.enqueue(structs.replace(said, data=b"another"))
    (outgoing,) = await next_ones(store)
    await store.outbox.prune(clock.now())
    assert (outgoing.file, await store.outbox.data(outgoing)) == ("/home/me/boat.png", every)
    await store.outbox.sent(outgoing)
    await store.outbox.prune(clock.now())
    assert await store.outbox.data(outgoing) == b""
    assert await store.outbox.data(await claimed(store, "2")) == b""


async def test_one_key_queues_one_message(store: Store, open_store: OpenStore):
    assert await store.outbox.enqueue(draft("1", DM, "hello"))
    assert not await store.outbox.enqueue(draft("1", DM, "hello"))
    assert not await (await open_store()).outbox.enqueue(draft("1", TOPIC, "something else"))
    (outgoing,) = await next_ones(store)
    assert (outgoing.body, outgoing.address) == ("hello", DM)
    await store.outbox.sent(outgoing)
    assert not await store.outbox.enqueue(draft("1", DM, "hello"))
    assert await next_ones(store) == []


async def test_messages_are_claimed_in_order_one_at_a_time_per_address(
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


async def test_two_gateways_never_claim_the_same_message(store: Store, open_store: OpenStore):
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


async def test_a_claim_respects_its_platforms_and_its_limit(
    store: Store,
):
    for key, address in (("1", DM), ("2", CHANNEL), ("3", ROOM), ("4", TOPIC)):
        await store.outbox.enqueue(draft(key, address))
    assert await store.outbox.claim(set()) == ()
    (first,) = await store.outbox.claim({TELEGRAM, Platform.SLACK}, limit=1)
    assert first.key == "1"
    rest = await store.outbox.claim({TELEGRAM, Platform.SLACK})
    assert [outgoing.key for outgoing in rest] == ["2", "4"]


async def test_a_sent_message_is_kept_with_its_receipt(store: Store, clock: FakeClock):
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
    assert await store.outbox.progress(first, "7")
    assert await store.outbox.sent(first, "77")
    assert await undelivered(DM, "777", "blocked") is False
    assert await undelivered(ROOM, "7", "blocked") is False
    assert (await stands(store)).state is OutgoingState.SENT
    assert await undelivered(DM, "7", "blocked") is True
    failed = await stands(store)
    assert (failed.state, failed.error, failed.reported) == (OutgoingState.FAILED, "blocked", False)
    assert await store.outbox.troubled(reported=False) == (failed,)
    assert await undelivered(DM, "7", "again") is False, "it is delivered twice"


async def test_a_failure_that_is_heard_before_the_receipt_is_kept_until_the_message_is_sent(
    store: Store,
):
    first = await claimed(store)
    assert await store.outbox.undelivered(DM, "7", "blocked") is False
    assert await store.outbox.undelivered(DM, "7", "blocked") is False, "it is delivered twice"
    assert await store.outbox.undelivered(DM, "a message of another app", "no") is False
    assert await store.outbox.progress(first, "7")
    assert (await stands(store)).state is OutgoingState.SENDING, "its next part is on its way"
    assert await store.outbox.sent(first, "77")
    failed = await stands(store)
    assert (failed.state, failed.error) == (OutgoingState.FAILED, "blocked")
    assert failed.receipts == ("7", "77")


async def test_a_failure_of_a_part_is_kept_while_the_rest_of_its_message_waits_for_a_retry(
    store: Store,
):
    first = await claimed(store)
    await store.outbox.progress(first, "7")
    await store.outbox.retry(first, "slow down", seconds=0)
    assert await store.outbox.undelivered(DM, "7", "blocked") is False
    (again,) = await next_ones(store)
    assert await store.outbox.sent(again, "77")
    assert (await stands(store)).error == "blocked"


async def test_a_kept_failure_survives_the_process_that_was_sending(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    first = await claimed(store)
    await store.outbox.progress(first, "7")
    await store.outbox.undelivered(DM, "7", "blocked")
    clock.advance(SEND_TIMEOUT)
    other = await open_store()
    await other.outbox.recover(set())
    failed = await stands(other)
    assert (failed.state, failed.error) == (OutgoingState.FAILED, "blocked")


@pytest.mark.parametrize("lost", ["before", "after", "in a crash"])
async def test_a_failure_that_is_heard_before_the_arrival_counts(store: Store, lost: str):
    first = await claimed(store)
    if lost == "before":
        await store.outbox.uncertain(first, "no answer")
    await store.outbox.undelivered(DM, "7", "blocked")
    await store.outbox.delivered(DM, "7", f"{first.key}/0")
    if lost == "after":
        await store.outbox.uncertain(first, "no answer")
    if lost == "in a crash":
        await store.outbox.recover(set(), alive=set())
    (again,) = await next_ones(store)
    await store.outbox.sent(again)
    failed = await stands(store)
    assert (failed.state, failed.error) == (OutgoingState.FAILED, "blocked")


async def test_a_failure_of_an_unknown_message_wakes_nobody(store: Store):
    async with store.listen(Topic.SENT) as wake:
        await wake.wait(0)  # a listener looks once at the start
        await store.outbox.undelivered(DM, "7", "blocked")
        assert not await wake.wait(0)


async def test_a_part_whose_fate_was_unknown_is_found_by_its_key(store: Store):
    first = await claimed(store)
    delivered = store.outbox.delivered
    assert await store.outbox.progress(first, "7")
    assert await delivered(DM, "7", f"{first.key}/0") is False, "it has its receipt"
    await store.outbox.uncertain(first, "no answer")
    for at, key in ((ROOM, f"{first.key}/1"), (DM, "another/1"), (DM, f"{first.key}/x"), (DM, "")):
        assert await delivered(at, "77", key) is False
    assert (await stands(store)).state is OutgoingState.UNCERTAIN
    assert await delivered(DM, "77", f"{first.key}/1") is True
    found = await stands(store)
    assert (found.state, found.receipts, found.error) == (OutgoingState.QUEUED, ("7", "77"), None)
    assert await delivered(DM, "77", f"{first.key}/1") is False, "it is delivered twice"
    (again,) = await store.outbox.claim({TELEGRAM})
    assert await store.outbox.sent(again)
    assert await store.outbox.troubled() == ()


async def test_an_arrival_that_is_heard_before_the_answer_is_lost_is_kept(store: Store):
    first = await claimed(store)
    assert await store.outbox.delivered(DM, "7", f"{first.key}/0") is False
    await store.outbox.uncertain(first, "no answer")
    found = await stands(store)
    assert (found.state, found.receipts) == (OutgoingState.QUEUED, ("7",))


async def test_a_message_that_was_offered_again_stays_uncertain(store: Store):
    first = await claimed(store, "handoff:1:recap")
    await store.outbox.uncertain(first, "no answer")
    await store.write(outbox.offer_again, DM)
    assert await store.outbox.delivered(DM, "7", f"{first.key}/0") is False
    assert (await stands(store, first.key)).state is OutgoingState.UNCERTAIN


async def test_the_receipts_of_delivered_parts_are_kept_in_order(store: Store):
    outgoing = await claimed(store)
    for receipt in ("77", 'a "b"\\\n\u2028', ""):
        assert await store.outbox.progress(outgoing, receipt)
    under_way = await stands(store)
    assert under_way == structs.replace(outgoing, receipts=("77", 'a "b"\\\n\u2028', ""))
    assert await store.outbox.sent(outgoing, "79")
    assert (await stands(store)).receipts == ("77", 'a "b"\\\n\u2028', "", "79")


async def test_a_message_is_found_by_the_receipt_of_any_part_however_many_follow_it(store: Store):
    first = await claimed(store, "first")
    for receipt in ("7", "77"):
        await store.outbox.progress(first, receipt)
    await store.outbox.sent(first)
    elsewhere = await claimed(store, "elsewhere", ROOM)
    await store.outbox.sent(elsewhere, "77")
    for number in range(300):
        await store.outbox.enqueue(draft(str(number), DM))
    for receipt in ("7", "77"):
        found = await store.outbox.sent_as(DM, receipt)
        assert found is not None
        assert found.key == "first"
    assert await store.outbox.sent_as(DM, "777") is None


async def test_a_message_whose_last_part_has_a_receipt_needs_none_when_it_is_sent(
    store: Store,
):
    outgoing = await claimed(store)
    await store.outbox.progress(outgoing, "77")
    assert await store.outbox.sent(outgoing)
    assert (await stands(store)).receipts == ("77",)


async def test_each_delivered_part_extends_the_send_timeout(
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


async def test_a_retry_continues_after_the_last_delivered_part(
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


async def test_buttons_are_stored_unchanged(store: Store):
    buttons = (("Yes ✓", "a:1:once"), ('No "', "a:1:never"), (ODD, ODD))
    assert await store.outbox.enqueue(structs.replace(draft("1"), buttons=buttons))
    assert await store.outbox.enqueue(draft("2", TOPIC))
    first, second = await next_ones(store)
    assert first.buttons == (*buttons[:2], ("a\ufffdb\ufffdc", "a\ufffdb\ufffdc"))
    assert second.buttons == ()


async def test_it_is_known_whether_a_message_to_an_address_waits(store: Store):
    assert not await store.outbox.is_waiting(DM)
    await store.outbox.enqueue(draft("0", DM))
    assert await store.outbox.is_waiting(DM)
    assert not await store.outbox.is_waiting(TOPIC)
    (claim,) = await next_ones(store)
    assert await store.outbox.is_waiting(DM)
    await store.outbox.sent(claim)
    assert not await store.outbox.is_waiting(DM)


@pytest.mark.parametrize("state", [OutgoingState.FAILED, OutgoingState.UNCERTAIN])
async def test_an_undeliverable_message_is_kept_with_its_reason_and_blocks_no_other(
    store: Store, state: OutgoingState
):
    outgoing = await claimed(store)
    await store.outbox.enqueue(draft("2"))
    tell = store.outbox.failed if state is OutgoingState.FAILED else store.outbox.uncertain
    assert await tell(outgoing, "x" * 600)
    over = await stands(store)
    assert (over.state, over.error) == (state, "x" * (REASON_LIMIT - 1) + "…")
    assert [claim.key for claim in await next_ones(store)] == ["2"]


async def test_a_retry_waits_until_it_is_due_and_blocks_only_its_address(
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


async def test_only_the_newest_claim_can_record_the_outcome(
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


async def test_a_message_of_a_dead_gateway_is_sent_again_if_the_platform_takes_keys(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    dying = await open_store()
    await claimed(dying)
    await store.outbox.enqueue(draft("2"))
    clock.advance(SEND_TIMEOUT)
    assert await store.outbox.recover({TELEGRAM}) == ()
    (again,) = await next_ones(store)
    assert (again.key, again.attempt) == ("1", 2)


async def test_a_message_that_was_sent_before_its_key_was_forgotten_is_uncertain(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    ages = {TELEGRAM: timedelta(minutes=3)}
    dying = await open_store()
    await claimed(dying)
    clock.advance(180)
    assert await store.outbox.recover({TELEGRAM}, key_ages=ages) == ()
    (again,) = await next_ones(dying)
    assert again.attempt == 2
    clock.advance(181)
    (lost,) = await store.outbox.recover({TELEGRAM}, key_ages=ages)
    assert (lost.key, lost.state) == ("1", OutgoingState.UNCERTAIN)


async def test_an_unconfirmed_message_is_uncertain_after_the_age_of_its_key(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    """The process dies between two attempts, and the next one starts when the key is forgotten."""
    ages = {TELEGRAM: timedelta(minutes=3)}
    dying = await open_store()
    first = await claimed(dying)
    began = clock.now()
    clock.advance(20)
    assert await dying.outbox.retry(first, "no answer", seconds=60, arrived=True)
    clock.advance(120)
    (second,) = await next_ones(dying)
    assert second.unconfirmed == began
    assert await dying.outbox.retry(second, "it is busy", seconds=60)
    clock.advance(60)
    (third,) = await store.outbox.claim([TELEGRAM], key_ages=ages)
    assert (third.state, third.error) == (OutgoingState.UNCERTAIN, FORGOTTEN)
    assert await next_ones(store) == []
    (trouble,) = await store.outbox.troubled()
    assert (trouble.key, trouble.state) == (first.key, OutgoingState.UNCERTAIN)


async def test_an_unconfirmed_message_is_sent_again_while_its_key_is_known(
    store: Store, clock: FakeClock
):
    ages = {TELEGRAM: timedelta(minutes=3)}
    first = await claimed(store)
    assert await store.outbox.retry(first, "no answer", seconds=60, arrived=True)
    clock.advance(180)
    (second,) = await store.outbox.claim([TELEGRAM], key_ages=ages)
    assert second.state is OutgoingState.SENDING
    assert await store.outbox.progress(second, "receipt")
    assert await store.outbox.retry(second, "it is busy", seconds=60)
    clock.advance(180)
    (third,) = await store.outbox.claim([TELEGRAM], key_ages=ages)
    assert (third.state, third.unconfirmed) == (OutgoingState.SENDING, None), "it was confirmed"


async def test_a_message_of_a_dead_gateway_is_uncertain_and_reported_without_keys(
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


async def test_a_message_that_a_live_gateway_is_sending_is_not_recovered(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    outgoing = await claimed(store)
    clock.advance(SEND_TIMEOUT - 1)
    assert await (await open_store()).outbox.recover(set()) == ()
    assert await store.outbox.sent(outgoing)


async def test_a_message_of_a_gateway_that_is_known_to_be_gone_is_recovered_at_once(
    store: Store, open_store: OpenStore
):
    dying, living = await open_store(), await open_store()
    await claimed(dying, "1")
    await claimed(living, "2", TOPIC)
    alive = {store.process, living.process}
    assert await store.outbox.recover(ALL, alive=alive) == ()
    (again,) = await next_ones(store)
    assert (again.key, again.attempt) == ("1", 2)


async def test_messages_are_recovered_for_the_given_platforms_only(
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


async def test_an_edit_of_a_bubble_can_be_repeated_on_any_platform(
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


async def test_a_later_part_does_not_edit_the_bubble(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    dying = await open_store()
    await dying.outbox.progress(await claimed(dying), "76")
    await dying.outbox.bubble(DM, "77")
    clock.advance(SEND_TIMEOUT)
    (lost,) = await store.outbox.recover(set())
    assert lost.receipts == ("76",)


async def test_a_message_of_a_gateway_whose_process_ended_is_recovered_at_once(
    store: Store, open_store: OpenStore
):
    dying = await open_store()
    await claimed(dying)
    await dying.close()
    (lost,) = await store.outbox.recover(set())
    assert lost.key == "1"


async def test_a_message_that_the_caller_is_sending_is_not_recovered(
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


async def test_failed_messages_are_listed_newest_first(store: Store):
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


async def test_a_failed_message_is_reported_once(
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
    openings = [store, await open_store()]
    assert sorted(await asyncio.gather(*(o.outbox.reported(failed.no) for o in openings))) == [
        False,
        True,
    ]
    assert not await store.outbox.reported(sent.no)
    assert [(o.key, o.reported) for o in await store.outbox.troubled()] == [
        ("2", False),
        ("1", True),
    ]
    assert [o.key for o in await store.outbox.troubled(reported=False)] == ["2"]
    assert [o.key for o in await store.outbox.troubled(reported=True)] == ["1"]


async def test_failed_messages_without_a_session_do_not_crowd_out_reports(
    store: Store, session: Session
):
    await store.outbox.failed(await claimed(store, "1", DM, session.id), "no")
    for key in "23":
        await store.outbox.failed(await claimed(store, key), "no")
    assert [o.key for o in await store.outbox.troubled(limit=2)] == ["3", "2"]
    assert [o.key for o in await store.outbox.troubled(reported=False, limit=2)] == ["1"]


async def test_the_next_gateway_finds_the_bubble_of_an_address(
    store: Store, open_store: OpenStore, session: Session
):
    await store.outbox.bubble(DM, "77", session.id)
    await store.outbox.bubble(TOPIC, "78")
    await store.outbox.bubble(CHANNEL, "1.2")
    await store.outbox.bubble(replace(ROOM, chat_id=ODD), ODD)
    other = await open_store()
    assert await other.outbox.bubbles({TELEGRAM}) == {DM: "77", TOPIC: "78"}
    assert await other.outbox.bubbles({Platform.SLACK}) == {CHANNEL: "1.2"}
    assert await other.outbox.bubbles({Platform.MATRIX}) == {
        replace(ROOM, chat_id=ODD): "a\ufffdb\ufffdc"
    }
    assert await other.outbox.bubbles(set()) == {}


async def test_a_bubble_is_recorded_before_it_is_sent(store: Store, open_store: OpenStore):
    await store.outbox.bubble(DM, "77")
    await store.outbox.begin_bubble(DM, "key", "Half")
    other = await open_store()
    assert await other.outbox.bubbles(ALL) == {}
    assert await other.outbox.begun_bubbles(ALL) == {DM: UnconfirmedBubble("key", "Half")}
    assert await other.outbox.begun_bubbles({Platform.SLACK}) == {}
    await store.outbox.bubble(DM, "78")
    assert await other.outbox.bubbles(ALL) == {DM: "78"}
    assert await other.outbox.begun_bubbles(ALL) == {}


async def test_a_bubble_is_deleted_when_its_answer_is_sent(
    store: Store,
):
    for address in (DM, TOPIC, CHANNEL):
        await store.outbox.bubble(address, "77")
    await store.outbox.sent(await claimed(store, "1", DM), "77")
    await store.outbox.progress(await claimed(store, "2", TOPIC), "77")
    await store.outbox.sent(await claimed(store, "3", CHANNEL), "78")
    assert await store.outbox.bubbles(ALL) == {CHANNEL: "77"}


async def test_an_address_has_at_most_one_bubble(store: Store):
    for receipt in ("77", "78"):
        await store.outbox.bubble(DM, receipt)
    assert await store.outbox.bubbles(ALL) == {DM: "78"}
    for _ in range(2):
        await store.outbox.bubble(DM, None)
        assert await store.outbox.bubbles(ALL) == {}


async def test_a_turn_shows_progress_only_in_its_chat_and_with_an_empty_queue(
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


async def test_a_finished_turn_shows_no_progress(store: Store, session: Session):
    no = await store.inbox.record("bot", "1", DM, "hello")
    assert no is not None
    await store.bindings.rebind(session.id, DM, Origin.MESSAGE)
    await store.inbox.finish([no])
    assert await store.outbox.progress_after(DM, session.id, no) is None


async def test_pruning_deletes_only_messages_delivered_before_the_given_time(
    store: Store, clock: FakeClock
):
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


async def test_unstorable_characters_in_a_message_are_replaced(store: Store):
    address = replace(DM, chat_id=ODD)
    assert await store.outbox.enqueue(draft("1", address, ODD))
    (outgoing,) = await next_ones(store)
    assert (outgoing.body, outgoing.address) == ("a\ufffdb\ufffdc", address)
    assert await store.outbox.retry(outgoing, ODD, seconds=0)
    (outgoing,) = await next_ones(store)
    assert await store.outbox.sent(outgoing, ODD)
    assert (await stands(store)).receipts == ("a\ufffdb\ufffdc",)


async def test_unconfirmed_messages_of_a_handoff_are_offered_again_once(store: Store):
    for key in ("handoff:1:recap", "handoff:1:reply", "handoff:1:stayed", "s/1"):
        await store.outbox.uncertain(await claimed(store, key), "who knows")
    for update in ("1", "2"):
        await store.inbox.record("bot", update, DM, "hello")
    offered = [outgoing.key for outgoing in await open_rows(store)]
    assert offered == ["again:handoff:1:recap", "again:handoff:1:reply"]


async def open_rows(store: Store) -> list[Outgoing]:
    """All queued texts, in the order in which they are sent."""
    found: list[Outgoing] = []
    while taken := await store.outbox.claim([DM.platform]):
        found += taken
        for outgoing in taken:
            await store.outbox.sent(outgoing)
    return found


async def test_a_rate_limit_is_known_for_its_address(store: Store):
    outgoing = await claimed(store, "1")
    assert await store.outbox.retry(outgoing, "500", seconds=60)
    assert await store.outbox.asked_to_wait(DM) == (0, "")
    outgoing = await claimed(store, "2", TOPIC)
    assert await store.outbox.retry(outgoing, "429", seconds=60, asked=60)
    assert await store.outbox.asked_to_wait(TOPIC) == (60, "429")
    assert await store.outbox.paused() == (), "it is over soon"


async def test_a_long_pause_is_known_until_the_message_is_sent(store: Store, clock: FakeClock):
    outgoing = await claimed(store)
    assert await store.outbox.retry(outgoing, "a captcha", seconds=60, asked=86_400)
    until = clock.now() + timedelta(days=1)
    assert await store.outbox.paused() == (
        PlatformPause(platform=TELEGRAM, until=until, reason="a captcha"),
    )
    assert await next_ones(store) == [], "it waits"
    clock.advance(60)
    (again,) = await next_ones(store)
    assert await store.outbox.sent(again, "7")
    assert await store.outbox.paused() == ()


async def test_a_message_that_crashes_every_gateway_is_given_up_after_the_last_attempt(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outbox, "MAX_ATTEMPTS", 3)
    await store.outbox.enqueue(draft("1"))
    for attempt in range(1, 4):
        assert [o.attempt for o in await store.outbox.claim([DM.platform])] == [attempt]
        await store.outbox.recover([DM.platform], alive=[])
    assert (await stands(store)).state is OutgoingState.UNCERTAIN
