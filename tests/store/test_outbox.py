"""Outbound messages are sent in order, once, and never dropped silently."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from msgspec import structs

from segue.core.address import Address, Platform
from segue.core.session import Origin, Session
from segue.core.text import REASON_LIMIT
from segue.store import Store, Topic, bindings, bubbles, deliveries, inbox, outbox
from segue.store.bubbles import UnconfirmedBubble
from segue.store.deliveries import FORGOTTEN, SEND_TIMEOUT, UNCERTAIN
from segue.store.outbox import Outgoing, OutgoingState, PlatformPause
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import CHANNEL, DM, ODD, ROOM, TOPIC, draft

ALL = frozenset(Platform)
TELEGRAM = Platform.TELEGRAM


async def next_ones(store: Store, seconds: float = SEND_TIMEOUT) -> list[Outgoing]:
    return list(await deliveries.claim(store, ALL, seconds=seconds))


async def claimed(
    store: Store, key: str = "1", address: Address = DM, session_id: str | None = None
) -> Outgoing:
    assert await outbox.enqueue(store, structs.replace(draft(key, address), session_id=session_id))
    (outgoing,) = await next_ones(store)
    return outgoing


async def stands(store: Store, key: str = "1") -> Outgoing:
    outgoing = await outbox.get(store, key)
    assert outgoing is not None
    return outgoing


async def test_a_queued_message_is_stored_unchanged(
    store: Store, session: Session, clock: FakeClock
):
    said = structs.replace(draft("key 1", TOPIC, "grüß Gott 👋\n"), session_id=session.id)
    assert await outbox.enqueue(store, said)
    queued = await stands(store, "key 1")
    assert (queued.key, queued.address, queued.body) == ("key 1", TOPIC, "grüß Gott 👋\n")
    assert (queued.session_id, queued.state, queued.attempt) == (
        session.id,
        OutgoingState.QUEUED,
        0,
    )
    assert (queued.queued, queued.finished) == (clock.now(), None)
    assert await outbox.get(store, "key 2") is None


async def test_a_file_is_stored_unchanged_until_it_is_delivered(store: Store, clock: FakeClock):
    every = bytes(range(256))
    said = structs.replace(draft("1", DM), file="/home/me/boat.png", data=every)
    assert await outbox.enqueue(store, said)
    assert not await outbox.enqueue(store, structs.replace(said, data=b"another"))
    (outgoing,) = await next_ones(store)
    await outbox.prune(store, clock.now())
    assert (outgoing.file, await outbox.data(store, outgoing)) == ("/home/me/boat.png", every)
    await deliveries.sent(store, outgoing)
    await outbox.prune(store, clock.now())
    assert await outbox.data(store, outgoing) == b""
    assert await outbox.data(store, await claimed(store, "2")) == b""


async def test_one_key_queues_one_message(store: Store, open_store: OpenStore):
    assert await outbox.enqueue(store, draft("1", DM, "hello"))
    assert not await outbox.enqueue(store, draft("1", DM, "hello"))
    assert not await outbox.enqueue(await open_store(), draft("1", TOPIC, "something else"))
    (outgoing,) = await next_ones(store)
    assert (outgoing.body, outgoing.address) == ("hello", DM)
    await deliveries.sent(store, outgoing)
    assert not await outbox.enqueue(store, draft("1", DM, "hello"))
    assert await next_ones(store) == []


async def test_messages_are_claimed_in_order_one_at_a_time_per_address(
    store: Store, open_store: OpenStore
):
    other = await open_store()
    for i in range(3):
        await outbox.enqueue(store, draft(f"dm {i}", DM))
        await outbox.enqueue(store, draft(f"topic {i}", TOPIC))
    for i in range(3):
        gateway = other if i % 2 else store
        claims = await next_ones(gateway)
        assert [claim.key for claim in claims] == [f"dm {i}", f"topic {i}"]
        assert await next_ones(store) == await next_ones(other) == []
        for claim in claims:
            assert await deliveries.sent(gateway, claim)
    assert await next_ones(store) == []


async def test_two_gateways_never_claim_the_same_message(store: Store, open_store: OpenStore):
    gateways = [store, await open_store(), await open_store()]
    addresses = [replace(DM, chat_id=f"{i}") for i in range(12)]
    for address in addresses:
        await outbox.enqueue(store, draft(f"first {address}", address))
        await outbox.enqueue(store, draft(f"second {address}", address))
    claims = await asyncio.gather(
        *(deliveries.claim(g, ALL, limit=3) for g in gateways for _ in range(3))
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
        await outbox.enqueue(store, draft(key, address))
    assert await deliveries.claim(store, set()) == ()
    (first,) = await deliveries.claim(store, {TELEGRAM, Platform.SLACK}, limit=1)
    assert first.key == "1"
    rest = await deliveries.claim(store, {TELEGRAM, Platform.SLACK})
    assert [outgoing.key for outgoing in rest] == ["2", "4"]


async def test_a_sent_message_is_kept_with_its_receipt(store: Store, clock: FakeClock):
    outgoing = await claimed(store)
    assert (outgoing.state, outgoing.attempt) == (OutgoingState.SENDING, 1)
    clock.advance(1)
    assert await deliveries.sent(store, outgoing, "message 77")
    sent = await stands(store)
    assert (sent.state, sent.receipts, sent.error) == (OutgoingState.SENT, ("message 77",), None)
    assert sent.finished == clock.now()


async def test_a_message_that_the_platform_did_not_deliver_after_all_has_failed(
    store: Store, session: Session
):
    first = await claimed(store, session_id=session.id)
    undelivered = partial(deliveries.undelivered, store)
    assert await deliveries.progress(store, first, "7")
    assert await deliveries.sent(store, first, "77")
    assert await undelivered(DM, "777", "blocked") is False
    assert await undelivered(ROOM, "7", "blocked") is False
    assert (await stands(store)).state is OutgoingState.SENT
    assert await undelivered(DM, "7", "blocked") is True
    failed = await stands(store)
    assert (failed.state, failed.error, failed.reported) == (OutgoingState.FAILED, "blocked", False)
    assert await outbox.troubled(store, reported=False) == (failed,)
    assert await undelivered(DM, "7", "again") is False, "it is delivered twice"


async def test_a_failure_that_is_heard_before_the_receipt_is_kept_until_the_message_is_sent(
    store: Store,
):
    first = await claimed(store)
    assert await deliveries.undelivered(store, DM, "7", "blocked") is False
    assert await deliveries.undelivered(store, DM, "7", "blocked") is False, "it is delivered twice"
    assert await deliveries.undelivered(store, DM, "a message of another app", "no") is False
    assert await deliveries.progress(store, first, "7")
    assert (await stands(store)).state is OutgoingState.SENDING, "its next part is on its way"
    assert await deliveries.sent(store, first, "77")
    failed = await stands(store)
    assert (failed.state, failed.error) == (OutgoingState.FAILED, "blocked")
    assert failed.receipts == ("7", "77")


async def test_a_failure_of_a_part_is_kept_while_the_rest_of_its_message_waits_for_a_retry(
    store: Store,
):
    first = await claimed(store)
    await deliveries.progress(store, first, "7")
    await deliveries.retry(store, first, "slow down", seconds=0)
    assert await deliveries.undelivered(store, DM, "7", "blocked") is False
    (again,) = await next_ones(store)
    assert await deliveries.sent(store, again, "77")
    assert (await stands(store)).error == "blocked"


async def test_a_kept_failure_survives_the_process_that_was_sending(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    first = await claimed(store)
    await deliveries.progress(store, first, "7")
    await deliveries.undelivered(store, DM, "7", "blocked")
    clock.advance(SEND_TIMEOUT)
    other = await open_store()
    await deliveries.recover(other, set())
    failed = await stands(other)
    assert (failed.state, failed.error) == (OutgoingState.FAILED, "blocked")


@pytest.mark.parametrize("lost", ["before", "after", "in a crash"])
async def test_a_failure_that_is_heard_before_the_arrival_counts(store: Store, lost: str):
    first = await claimed(store)
    if lost == "before":
        await deliveries.uncertain(store, first, "no answer")
    await deliveries.undelivered(store, DM, "7", "blocked")
    await deliveries.delivered(store, DM, "7", f"{first.key}/0")
    if lost == "after":
        await deliveries.uncertain(store, first, "no answer")
    if lost == "in a crash":
        await deliveries.recover(store, set(), alive=set())
    (again,) = await next_ones(store)
    await deliveries.sent(store, again)
    failed = await stands(store)
    assert (failed.state, failed.error) == (OutgoingState.FAILED, "blocked")


async def test_a_failure_of_an_unknown_message_wakes_nobody(store: Store):
    async with store.listen(Topic.SENT) as wake:
        await wake.wait(0)  # a listener looks once at the start
        await deliveries.undelivered(store, DM, "7", "blocked")
        assert not await wake.wait(0)


async def test_a_part_whose_fate_was_unknown_is_found_by_its_key(store: Store):
    first = await claimed(store)
    delivered = partial(deliveries.delivered, store)
    assert await deliveries.progress(store, first, "7")
    assert await delivered(DM, "7", f"{first.key}/0") is False, "it has its receipt"
    await deliveries.uncertain(store, first, "no answer")
    for at, key in ((ROOM, f"{first.key}/1"), (DM, "another/1"), (DM, f"{first.key}/x"), (DM, "")):
        assert await delivered(at, "77", key) is False
    assert (await stands(store)).state is OutgoingState.UNCERTAIN
    assert await delivered(DM, "77", f"{first.key}/1") is True
    found = await stands(store)
    assert (found.state, found.receipts, found.error) == (OutgoingState.QUEUED, ("7", "77"), None)
    assert await delivered(DM, "77", f"{first.key}/1") is False, "it is delivered twice"
    (again,) = await deliveries.claim(store, {TELEGRAM})
    assert await deliveries.sent(store, again)
    assert await outbox.troubled(store) == ()


async def test_an_arrival_that_is_heard_before_the_answer_is_lost_is_kept(store: Store):
    first = await claimed(store)
    assert await deliveries.delivered(store, DM, "7", f"{first.key}/0") is False
    await deliveries.uncertain(store, first, "no answer")
    found = await stands(store)
    assert (found.state, found.receipts) == (OutgoingState.QUEUED, ("7",))


async def test_a_message_that_was_offered_again_stays_uncertain(store: Store):
    first = await claimed(store, "handoff:1:recap")
    await deliveries.uncertain(store, first, "no answer")
    await store.write(outbox.offer_again, DM)
    assert await deliveries.delivered(store, DM, "7", f"{first.key}/0") is False
    assert (await stands(store, first.key)).state is OutgoingState.UNCERTAIN


async def test_the_receipts_of_delivered_parts_are_kept_in_order(store: Store):
    outgoing = await claimed(store)
    for receipt in ("77", 'a "b"\\\n\u2028', ""):
        assert await deliveries.progress(store, outgoing, receipt)
    under_way = await stands(store)
    assert under_way == structs.replace(outgoing, receipts=("77", 'a "b"\\\n\u2028', ""))
    assert await deliveries.sent(store, outgoing, "79")
    assert (await stands(store)).receipts == ("77", 'a "b"\\\n\u2028', "", "79")


async def test_a_message_is_found_by_the_receipt_of_any_part_however_many_follow_it(store: Store):
    first = await claimed(store, "first")
    for receipt in ("7", "77"):
        await deliveries.progress(store, first, receipt)
    await deliveries.sent(store, first)
    elsewhere = await claimed(store, "elsewhere", ROOM)
    await deliveries.sent(store, elsewhere, "77")
    for number in range(300):
        await outbox.enqueue(store, draft(str(number), DM))
    for receipt in ("7", "77"):
        found = await outbox.sent_as(store, DM, receipt)
        assert found is not None
        assert found.key == "first"
    assert await outbox.sent_as(store, DM, "777") is None


async def test_a_message_whose_last_part_has_a_receipt_needs_none_when_it_is_sent(
    store: Store,
):
    outgoing = await claimed(store)
    await deliveries.progress(store, outgoing, "77")
    assert await deliveries.sent(store, outgoing)
    assert (await stands(store)).receipts == ("77",)


async def test_each_delivered_part_extends_the_send_timeout(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    outgoing = await claimed(store)
    for n in range(3):
        clock.advance(SEND_TIMEOUT - 1)
        assert await deliveries.progress(store, outgoing, f"{n}")
        assert await deliveries.recover(await open_store(), set()) == ()
    clock.advance(SEND_TIMEOUT)
    (lost,) = await deliveries.recover(await open_store(), set())
    assert lost.receipts == ("0", "1", "2")
    assert not await deliveries.progress(store, outgoing, "3")
    assert (await stands(store)).receipts == ("0", "1", "2")


async def test_a_retry_continues_after_the_last_delivered_part(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    outgoing = await claimed(store)
    await deliveries.progress(store, outgoing, "77")
    await deliveries.retry(store, outgoing, "slow down", seconds=0)
    (again,) = await next_ones(store)
    assert again.receipts == ("77",)
    await deliveries.progress(store, again, "78")
    clock.advance(SEND_TIMEOUT)
    other = await open_store()
    assert await deliveries.recover(other, {TELEGRAM}) == ()
    (third,) = await next_ones(other)
    assert third.receipts == ("77", "78")
    assert not await deliveries.progress(store, again, "a late one")
    assert await deliveries.failed(other, third, "no")
    assert (await stands(store)).receipts == ("77", "78")


async def test_buttons_are_stored_unchanged(store: Store):
    buttons = (("Yes ✓", "a:1:once"), ('No "', "a:1:never"), (ODD, ODD))
    assert await outbox.enqueue(store, structs.replace(draft("1"), buttons=buttons))
    assert await outbox.enqueue(store, draft("2", TOPIC))
    first, second = await next_ones(store)
    assert first.buttons == (*buttons[:2], ("a\ufffdb\ufffdc", "a\ufffdb\ufffdc"))
    assert second.buttons == ()


async def test_it_is_known_whether_a_message_to_an_address_waits(store: Store):
    assert not await outbox.is_waiting(store, DM)
    await outbox.enqueue(store, draft("0", DM))
    assert await outbox.is_waiting(store, DM)
    assert not await outbox.is_waiting(store, TOPIC)
    (claim,) = await next_ones(store)
    assert await outbox.is_waiting(store, DM)
    await deliveries.sent(store, claim)
    assert not await outbox.is_waiting(store, DM)


@pytest.mark.parametrize("state", [OutgoingState.FAILED, OutgoingState.UNCERTAIN])
async def test_an_undeliverable_message_is_kept_with_its_reason_and_blocks_no_other(
    store: Store, state: OutgoingState
):
    outgoing = await claimed(store)
    await outbox.enqueue(store, draft("2"))
    tell = partial(
        deliveries.failed if state is OutgoingState.FAILED else deliveries.uncertain, store
    )
    assert await tell(outgoing, "x" * 600)
    over = await stands(store)
    assert (over.state, over.error) == (state, "x" * (REASON_LIMIT - 1) + "…")
    assert [claim.key for claim in await next_ones(store)] == ["2"]


async def test_a_retry_waits_until_it_is_due_and_blocks_only_its_address(
    store: Store, clock: FakeClock
):
    outgoing = await claimed(store)
    await outbox.enqueue(store, draft("2", DM))
    await outbox.enqueue(store, draft("3", TOPIC))
    assert await deliveries.retry(store, outgoing, "slow down", seconds=30)
    assert [claim.key for claim in await next_ones(store)] == ["3"]
    clock.advance(29.999)
    assert await next_ones(store) == []
    clock.advance(0.001)
    (again,) = await next_ones(store)
    assert (again.key, again.attempt, again.error) == ("1", 2, "slow down")
    assert await deliveries.sent(store, again)
    assert [claim.key for claim in await next_ones(store)] == ["2"]


async def test_only_the_newest_claim_can_record_the_outcome(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    stale = await claimed(store)
    clock.advance(SEND_TIMEOUT)
    assert await deliveries.recover(other, ALL) == ()
    (newest,) = await next_ones(other)
    for gateway, claim in ((store, stale), (store, newest), (other, stale)):
        assert not await deliveries.sent(gateway, claim)
        assert not await deliveries.failed(gateway, claim, "no")
        assert not await deliveries.uncertain(gateway, claim, "no")
        assert not await deliveries.retry(gateway, claim, "no", seconds=0)
    assert await stands(store) == newest
    assert await deliveries.sent(other, newest)
    assert not await deliveries.failed(other, newest, "on second thoughts")
    assert (await stands(store)).state is OutgoingState.SENT


async def test_a_message_of_a_dead_gateway_is_sent_again_if_the_platform_takes_keys(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    dying = await open_store()
    await claimed(dying)
    await outbox.enqueue(store, draft("2"))
    clock.advance(SEND_TIMEOUT)
    assert await deliveries.recover(store, {TELEGRAM}) == ()
    (again,) = await next_ones(store)
    assert (again.key, again.attempt) == ("1", 2)


async def test_a_message_that_was_sent_before_its_key_was_forgotten_is_uncertain(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    ages = {TELEGRAM: timedelta(minutes=3)}
    dying = await open_store()
    await claimed(dying)
    clock.advance(180)
    assert await deliveries.recover(store, {TELEGRAM}, key_ages=ages) == ()
    (again,) = await next_ones(dying)
    assert again.attempt == 2
    clock.advance(181)
    (lost,) = await deliveries.recover(store, {TELEGRAM}, key_ages=ages)
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
    assert await deliveries.retry(dying, first, "no answer", seconds=60, arrived=True)
    clock.advance(120)
    (second,) = await next_ones(dying)
    assert second.unconfirmed == began
    assert await deliveries.retry(dying, second, "it is busy", seconds=60)
    clock.advance(60)
    (third,) = await deliveries.claim(store, [TELEGRAM], key_ages=ages)
    assert (third.state, third.error) == (OutgoingState.UNCERTAIN, FORGOTTEN)
    assert await next_ones(store) == []
    (trouble,) = await outbox.troubled(store)
    assert (trouble.key, trouble.state) == (first.key, OutgoingState.UNCERTAIN)


async def test_an_unconfirmed_message_is_sent_again_while_its_key_is_known(
    store: Store, clock: FakeClock
):
    ages = {TELEGRAM: timedelta(minutes=3)}
    first = await claimed(store)
    assert await deliveries.retry(store, first, "no answer", seconds=60, arrived=True)
    clock.advance(180)
    (second,) = await deliveries.claim(store, [TELEGRAM], key_ages=ages)
    assert second.state is OutgoingState.SENDING
    assert await deliveries.progress(store, second, "receipt")
    assert await deliveries.retry(store, second, "it is busy", seconds=60)
    clock.advance(180)
    (third,) = await deliveries.claim(store, [TELEGRAM], key_ages=ages)
    assert (third.state, third.unconfirmed) == (OutgoingState.SENDING, None), "it was confirmed"


async def test_a_message_of_a_dead_gateway_is_uncertain_and_reported_without_keys(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    dying = await open_store()
    await claimed(dying)
    await outbox.enqueue(store, draft("2"))
    clock.advance(SEND_TIMEOUT)
    (lost,) = await deliveries.recover(store, {Platform.MATRIX})
    assert (lost.key, lost.state, lost.error) == ("1", OutgoingState.UNCERTAIN, UNCERTAIN)
    assert lost.finished == clock.now()
    assert await deliveries.recover(store, {Platform.MATRIX}) == ()
    assert await outbox.troubled(store) == (lost,)
    assert [claim.key for claim in await next_ones(store)] == ["2"]


async def test_a_message_that_a_live_gateway_is_sending_is_not_recovered(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    outgoing = await claimed(store)
    clock.advance(SEND_TIMEOUT - 1)
    assert await deliveries.recover(await open_store(), set()) == ()
    assert await deliveries.sent(store, outgoing)


async def test_a_message_of_a_gateway_that_is_known_to_be_gone_is_recovered_at_once(
    store: Store, open_store: OpenStore
):
    dying, living = await open_store(), await open_store()
    await claimed(dying, "1")
    await claimed(living, "2", TOPIC)
    alive = {store.process, living.process}
    assert await deliveries.recover(store, ALL, alive=alive) == ()
    (again,) = await next_ones(store)
    assert (again.key, again.attempt) == ("1", 2)


async def test_messages_are_recovered_for_the_given_platforms_only(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    dying = await open_store()
    await claimed(dying, "1", DM)
    await claimed(dying, "2", CHANNEL)
    clock.advance(SEND_TIMEOUT)
    (lost,) = await deliveries.recover(store, set(), platforms={Platform.SLACK})
    assert lost.key == "2"
    assert (await stands(store, "1")).state is OutgoingState.SENDING
    (lost,) = await deliveries.recover(store, set())
    assert lost.key == "1"


async def test_an_edit_of_a_bubble_can_be_repeated_on_any_platform(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    dying = await open_store()
    await bubbles.put(dying, DM, "77")
    await bubbles.begin(dying, TOPIC, "key", "Half")
    await claimed(dying, "an edit", DM)
    await claimed(dying, "a message", TOPIC)
    clock.advance(SEND_TIMEOUT)
    (lost,) = await deliveries.recover(store, set())
    assert lost.key == "a message"
    (again,) = await next_ones(store)
    assert again.key == "an edit"


async def test_a_later_part_does_not_edit_the_bubble(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    dying = await open_store()
    await deliveries.progress(dying, await claimed(dying), "76")
    await bubbles.put(dying, DM, "77")
    clock.advance(SEND_TIMEOUT)
    (lost,) = await deliveries.recover(store, set())
    assert lost.receipts == ("76",)


async def test_a_message_of_a_gateway_whose_process_ended_is_recovered_at_once(
    store: Store, open_store: OpenStore
):
    dying = await open_store()
    await claimed(dying)
    await dying.close()
    (lost,) = await deliveries.recover(store, set())
    assert lost.key == "1"


async def test_a_message_that_the_caller_is_sending_is_not_recovered(
    store: Store, clock: FakeClock
):
    outgoing = await claimed(store)
    clock.advance(SEND_TIMEOUT)
    assert await deliveries.recover(store, set(), exclude=[outgoing.no]) == ()
    assert await deliveries.sent(store, outgoing, "77")


async def test_a_receipt_that_is_recorded_twice_counts_once(store: Store):
    outgoing = await claimed(store)
    for receipt in ("1", "1", "11", "11", "1"):
        assert await deliveries.progress(store, outgoing, receipt)
    assert (await stands(store)).receipts == ("1", "11", "1")


async def test_failed_messages_are_listed_newest_first(store: Store):
    for key in "12345":
        outgoing = await claimed(store, key)
        if key == "3":
            await deliveries.sent(store, outgoing)
        elif key == "4":
            await deliveries.uncertain(store, outgoing, "who knows")
        else:
            await deliveries.failed(store, outgoing, "no")
    assert [o.key for o in await outbox.troubled(store)] == ["5", "4", "2", "1"]
    assert [o.key for o in await outbox.troubled(store, limit=1)] == ["5"]


async def test_a_failed_message_is_reported_once(
    store: Store, open_store: OpenStore, session: Session
):
    failed, uncertain, sent = [
        await claimed(store, key, address, session.id)
        for key, address in (("1", DM), ("2", TOPIC), ("3", ROOM))
    ]
    assert not await outbox.report(store, failed.no)
    await deliveries.failed(store, failed, "no")
    await deliveries.uncertain(store, uncertain, "who knows")
    await deliveries.sent(store, sent)
    assert [o.key for o in await outbox.troubled(store, reported=False)] == ["2", "1"]
    openings = [store, await open_store()]
    assert sorted(await asyncio.gather(*(outbox.report(o, failed.no) for o in openings))) == [
        False,
        True,
    ]
    assert not await outbox.report(store, sent.no)
    assert [(o.key, o.reported) for o in await outbox.troubled(store)] == [
        ("2", False),
        ("1", True),
    ]
    assert [o.key for o in await outbox.troubled(store, reported=False)] == ["2"]
    assert [o.key for o in await outbox.troubled(store, reported=True)] == ["1"]


async def test_failed_messages_without_a_session_do_not_crowd_out_reports(
    store: Store, session: Session
):
    await deliveries.failed(store, await claimed(store, "1", DM, session.id), "no")
    for key in "23":
        await deliveries.failed(store, await claimed(store, key), "no")
    assert [o.key for o in await outbox.troubled(store, limit=2)] == ["3", "2"]
    assert [o.key for o in await outbox.troubled(store, reported=False, limit=2)] == ["1"]


async def test_the_next_gateway_finds_the_bubble_of_an_address(
    store: Store, open_store: OpenStore, session: Session
):
    await bubbles.put(store, DM, "77", session.id)
    await bubbles.put(store, TOPIC, "78")
    await bubbles.put(store, CHANNEL, "1.2")
    await bubbles.put(store, replace(ROOM, chat_id=ODD), ODD)
    other = await open_store()
    assert await bubbles.shown(other, {TELEGRAM}) == {DM: "77", TOPIC: "78"}
    assert await bubbles.shown(other, {Platform.SLACK}) == {CHANNEL: "1.2"}
    assert await bubbles.shown(other, {Platform.MATRIX}) == {
        replace(ROOM, chat_id=ODD): "a\ufffdb\ufffdc"
    }
    assert await bubbles.shown(other, set()) == {}


async def test_a_bubble_is_recorded_before_it_is_sent(store: Store, open_store: OpenStore):
    await bubbles.put(store, DM, "77")
    await bubbles.begin(store, DM, "key", "Half")
    other = await open_store()
    assert await bubbles.shown(other, ALL) == {}
    assert await bubbles.begun(other, ALL) == {DM: UnconfirmedBubble("key", "Half")}
    assert await bubbles.begun(other, {Platform.SLACK}) == {}
    await bubbles.put(store, DM, "78")
    assert await bubbles.shown(other, ALL) == {DM: "78"}
    assert await bubbles.begun(other, ALL) == {}


async def test_a_bubble_is_deleted_when_its_answer_is_sent(
    store: Store,
):
    for address in (DM, TOPIC, CHANNEL):
        await bubbles.put(store, address, "77")
    await deliveries.sent(store, await claimed(store, "1", DM), "77")
    await deliveries.progress(store, await claimed(store, "2", TOPIC), "77")
    await deliveries.sent(store, await claimed(store, "3", CHANNEL), "78")
    assert await bubbles.shown(store, ALL) == {CHANNEL: "77"}


async def test_an_address_has_at_most_one_bubble(store: Store):
    for receipt in ("77", "78"):
        await bubbles.put(store, DM, receipt)
    assert await bubbles.shown(store, ALL) == {DM: "78"}
    for _ in range(2):
        await bubbles.put(store, DM, None)
        assert await bubbles.shown(store, ALL) == {}


async def test_a_turn_shows_progress_only_in_its_chat_and_with_an_empty_queue(
    store: Store, session: Session
):
    no = await inbox.record(store, "bot", "1", DM, "hello")
    assert no is not None
    assert await bubbles.progress_after(store, DM, session.id, no) is None
    await bindings.rebind(store, session.id, DM, Origin.MESSAGE)
    assert await bubbles.progress_after(store, DM, session.id, no) == 0
    waiting = await claimed(store)
    assert await bubbles.progress_after(store, DM, session.id, no) is None
    await deliveries.sent(store, waiting, "77")
    assert await bubbles.progress_after(store, DM, session.id, no) == 0
    await bindings.rebind(store, session.id, TOPIC, Origin.RESUME)
    assert await bubbles.progress_after(store, DM, session.id, no) is None


async def test_a_finished_turn_shows_no_progress(store: Store, session: Session):
    no = await inbox.record(store, "bot", "1", DM, "hello")
    assert no is not None
    await bindings.rebind(store, session.id, DM, Origin.MESSAGE)
    await inbox.finish(store, [no])
    assert await bubbles.progress_after(store, DM, session.id, no) is None


async def test_pruning_deletes_only_messages_delivered_before_the_given_time(
    store: Store, clock: FakeClock
):
    await deliveries.sent(store, await claimed(store, "old"))
    await deliveries.failed(store, await claimed(store, "failed"), "no")
    await deliveries.uncertain(store, await claimed(store, "uncertain"), "hm")
    clock.advance(10)
    await deliveries.sent(store, await claimed(store, "new"))
    await outbox.enqueue(store, draft("queued"))
    assert await outbox.prune(store, clock.now()) == 1
    assert await outbox.get(store, "old") is None
    for key in ("failed", "uncertain", "new", "queued"):
        assert await outbox.get(store, key)
    assert await outbox.prune(store, clock.now() + timedelta(days=1)) == 1


async def test_unstorable_characters_in_a_message_are_replaced(store: Store):
    address = replace(DM, chat_id=ODD)
    assert await outbox.enqueue(store, draft("1", address, ODD))
    (outgoing,) = await next_ones(store)
    assert (outgoing.body, outgoing.address) == ("a\ufffdb\ufffdc", address)
    assert await deliveries.retry(store, outgoing, ODD, seconds=0)
    (outgoing,) = await next_ones(store)
    assert await deliveries.sent(store, outgoing, ODD)
    assert (await stands(store)).receipts == ("a\ufffdb\ufffdc",)


async def test_unconfirmed_messages_of_a_handoff_are_offered_again_once(store: Store):
    for key in ("handoff:1:recap", "handoff:1:reply", "handoff:1:stayed", "s/1"):
        await deliveries.uncertain(store, await claimed(store, key), "who knows")
    for update in ("1", "2"):
        await inbox.record(store, "bot", update, DM, "hello")
    offered = [outgoing.key for outgoing in await open_rows(store)]
    assert offered == ["again:handoff:1:recap", "again:handoff:1:reply"]


async def open_rows(store: Store) -> list[Outgoing]:
    """All queued texts, in the order in which they are sent."""
    found: list[Outgoing] = []
    while taken := await deliveries.claim(store, [DM.platform]):
        found += taken
        for outgoing in taken:
            await deliveries.sent(store, outgoing)
    return found


async def test_a_rate_limit_is_known_for_its_address(store: Store):
    outgoing = await claimed(store, "1")
    assert await deliveries.retry(store, outgoing, "500", seconds=60)
    assert await outbox.asked_to_wait(store, DM) == (0, "")
    outgoing = await claimed(store, "2", TOPIC)
    assert await deliveries.retry(store, outgoing, "429", seconds=60, asked=60)
    assert await outbox.asked_to_wait(store, TOPIC) == (60, "429")
    assert await outbox.paused(store) == (), "it is over soon"


async def test_a_long_pause_is_known_until_the_message_is_sent(store: Store, clock: FakeClock):
    outgoing = await claimed(store)
    assert await deliveries.retry(store, outgoing, "a captcha", seconds=60, asked=86_400)
    until = clock.now() + timedelta(days=1)
    assert await outbox.paused(store) == (
        PlatformPause(platform=TELEGRAM, until=until, reason="a captcha"),
    )
    assert await next_ones(store) == [], "it waits"
    clock.advance(60)
    (again,) = await next_ones(store)
    assert await deliveries.sent(store, again, "7")
    assert await outbox.paused(store) == ()


async def test_a_message_that_crashes_every_gateway_is_given_up_after_the_last_attempt(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(deliveries, "MAX_ATTEMPTS", 3)
    await outbox.enqueue(store, draft("1"))
    for attempt in range(1, 4):
        assert [o.attempt for o in await deliveries.claim(store, [DM.platform])] == [attempt]
        await deliveries.recover(store, [DM.platform], alive=[])
    assert (await stands(store)).state is OutgoingState.UNCERTAIN
