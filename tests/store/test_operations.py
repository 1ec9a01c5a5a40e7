"""Operations that the tests of gateways and pages use, each called once on the store alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from msgspec import structs

from segue.core.address import Address, Audience, ChatType, HomeChannel, Platform
from segue.core.session import ME, Origin, Session
from segue.handoffs import queries as handoffs
from segue.jobs.queries import runs
from segue.jobs.values import Condition, ConditionKind, Seen
from segue.store import (
    Store,
    bindings,
    deliveries,
    inbox,
    outbox,
    owners,
    pages,
    pairings,
    sessions,
)
from segue.store.outbox import OutgoingState
from segue.testing.clock import FakeClock
from segue.turns import queries
from tests.store.job_samples import claimed, make
from tests.store.samples import DM, TOPIC, draft, hold, said

PAGE = Address(platform=Platform.WEB, chat_type=ChatType.DM, chat_id=ME)


async def test_an_entry_is_listed_until_it_is_finished(store: Store):
    no = await inbox.record(store, "bot", "1", DM, "hello", "m1")
    other = await inbox.record(store, "bot", "2", DM, "again", "m2")
    assert no is not None
    assert other is not None
    assert [it.starts for it in await inbox.start_all(store, [DM.platform])] == [1, 1]
    await inbox.reset_starts(store, [DM.platform])
    assert await inbox.waiting_numbers(store, [DM.platform]) == {no, other}
    assert await inbox.rewrite(store, no, "hello!")
    found = await inbox.unfinished(store, no)
    assert found is not None
    assert (found.body, found.starts) == ("hello!", 0)
    assert await inbox.not_taken(store, DM, "m1", exclude=other) == found
    await inbox.finish(store, [no])
    assert await inbox.unfinished(store, no) is None
    assert await inbox.waiting_numbers(store, [DM.platform]) == {other}


async def test_a_turn_that_was_brought_is_found_at_its_address(store: Store, session: Session):
    assert await inbox.moved_turn(store, DM) is None
    await store.write(inbox.enter_turn, "key", DM, session.id)
    found = await inbox.moved_turn(store, DM)
    assert found is not None
    assert found.session_id == session.id


async def test_a_chat_is_known_by_its_updates_and_by_the_doors_in_it(
    store: Store, session: Session
):
    chat = replace(TOPIC, thread_id=None)
    assert not await inbox.knows_chat(store, "bot", chat)
    await inbox.record(store, "bot", "1", TOPIC, "hello")
    assert await inbox.knows_chat(store, "bot", chat)
    assert await inbox.knows_chat(store, "bot", replace(TOPIC, thread_id="8"))
    assert not await inbox.knows_chat(store, "other", chat)
    assert not await inbox.knows_chat(store, "bot", DM)
    await bindings.rebind(store, session.id, DM, Origin.RESUME)
    assert await inbox.knows_chat(store, "bot", DM)


async def test_messages_are_found_by_key_receipt_and_state(store: Store):
    asked = structs.replace(draft("ask:1"), buttons=(("Yes", "y"),))
    await outbox.enqueue(store, asked)
    await outbox.enqueue(store, structs.replace(asked, key="ask:1:more", address=TOPIC))
    await outbox.enqueue(store, structs.replace(asked, key="ask:12", address=TOPIC))
    assert [it.key for it in await outbox.asking(store, "ask:1")] == ["ask:1", "ask:1:more"]
    assert await outbox.is_due(store, [DM.platform])
    assert not await outbox.is_due(store, [Platform.SLACK])
    first, *_ = await deliveries.claim(store, [DM.platform], limit=1)
    await deliveries.sent(store, first, "77")
    sent = await outbox.sent_as(store, DM, "77")
    assert sent is not None
    assert sent.key == "ask:1"
    assert await outbox.sent_as(store, TOPIC, "77") is None
    assert await outbox.withdraw(store, "ask:12")
    assert await outbox.get(store, "ask:12") is None


async def test_held_messages_are_released(store: Store):
    await outbox.enqueue(store, draft("1"))
    (claimed,) = await deliveries.claim(store, [DM.platform])
    await deliveries.hold(store, claimed, "no one is there", seconds=60)
    await deliveries.release(store)
    assert await deliveries.claim(store, [DM.platform]) == ()
    await deliveries.release(store, DM.platform)
    (again,) = await deliveries.claim(store, [DM.platform])
    assert again.state is OutgoingState.SENDING
    await store.write(outbox.decide, again.key)


async def test_the_audience_of_a_home_channel_is_recorded_once(store: Store):
    await owners.set_home(store, "me", HomeChannel(address=DM))
    audience = Audience(readers=1)
    await owners.record_audience(store, "me", DM, audience)
    (home,) = await owners.homes(store, "me")
    assert home.audience == audience


async def test_a_page_shows_edits_and_hears_its_messages(store: Store, session: Session):
    page = await pages.begin(store, "me", "roses", key=pages.home_key("me"))
    shown = await pages.show(store, page.id, "m1", "May I?", (("Yes", "y"),))
    assert await pages.home(store, "me") is not None
    assert await pages.press(store, page.id, "k1", "browser", shown.no, "y")
    assert not await pages.press(store, page.id, "k2", "browser", shown.no, "y")
    assert not await pages.is_said(store, page.id, "k3")
    written = await pages.say(store, page.id, "k3", "browser", "hello")
    assert await pages.is_said(store, page.id, "k3")
    no = await inbox.record(store, "page", "1", PAGE, "hello", str(written.no))
    notice = await pages.show(store, page.id, f"notice:{no}:x", "It waits.")
    assert [it.no for it in await pages.messages(store, page.id)] == [
        shown.no,
        written.no,
        notice.no,
    ]
    for update in await pages.unconfirmed_updates(store):
        await pages.confirm_update(store, update.no)
    assert await pages.unconfirmed_updates(store) == ()
    token = await pairings.link(store, "me")
    assert not await pairings.is_link_used(store, token)


async def test_recent_handoffs_and_paused_turns_are_found(store: Store, session: Session):
    lease = await hold(store, session.id, said("hello"))
    asked = await handoffs.request(store, session.id, DM.platform, lease=lease, mid_turn=True)
    assert await handoffs.recent(store) == (asked,)
    assert await store.write(queries.end_pause, lease)
    assert not await store.write(queries.end_pause, lease)
    assert await sessions.count(store) == 1


async def test_a_condition_that_saw_no_change_leaves_no_run(store: Store, clock: FakeClock):
    job = await make(store, only_if=Condition(ConditionKind.FILE, "/home/me/x"))
    claim = await claimed(store)
    assert await runs.tokens_left(store, claim) > 0
    assert await runs.check(store, claim, Seen(digest="1", excerpt="")) is None
    assert await runs.history(store, job.id) == ()
    assert await runs.prune(store, clock.now() - timedelta(days=30)) == 0
