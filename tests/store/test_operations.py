"""Operations that the tests of gateways and pages use, each called once on the store alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from msgspec import structs

from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.audience import Audience
from segue.core.job import Condition, ConditionKind, Seen
from segue.core.session import ME, Origin, Session
from segue.store import Store, handoffs, inbox, outbox, pages
from segue.store.outbox import OutgoingState
from segue.testing.clock import FakeClock
from tests.store.job_samples import claimed, make
from tests.store.samples import DM, TOPIC, draft, hold, said

PAGE = Address(platform=Platform.WEB, chat_type=ChatType.DM, chat_id=ME)


async def test_an_entry_is_listed_until_it_is_finished(store: Store):
    no = await store.inbox.record("bot", "1", DM, "hello", "m1")
    other = await store.inbox.record("bot", "2", DM, "again", "m2")
    assert no is not None
    assert other is not None
    assert [it.starts for it in await store.inbox.take_over([DM.platform])] == [1, 1]
    await store.inbox.hand_back([DM.platform])
    assert await store.inbox.waiting_numbers([DM.platform]) == {no, other}
    assert await store.inbox.rewrite(no, "hello!")
    found = await store.inbox.unfinished(no)
    assert found is not None
    assert (found.body, found.starts) == ("hello!", 0)
    assert await store.inbox.not_taken(DM, "m1", besides=other) == found
    await store.inbox.finish([no])
    assert await store.inbox.unfinished(no) is None
    assert await store.inbox.waiting_numbers([DM.platform]) == {other}


async def test_a_turn_that_was_brought_is_found_at_its_address(store: Store, session: Session):
    assert await store.inbox.brought(DM) is None
    await store.write(inbox.bring, "key", DM, session.id)
    found = await store.inbox.brought(DM)
    assert found is not None
    assert found.session_id == session.id


async def test_a_chat_is_known_by_its_updates_and_by_the_doors_in_it(
    store: Store, session: Session
):
    chat = replace(TOPIC, thread_id=None)
    assert not await store.inbox.knows_chat("bot", chat)
    await store.inbox.record("bot", "1", TOPIC, "hello")
    assert await store.inbox.knows_chat("bot", chat)
    assert await store.inbox.knows_chat("bot", replace(TOPIC, thread_id="8"))
    assert not await store.inbox.knows_chat("other", chat)
    assert not await store.inbox.knows_chat("bot", DM)
    await store.bindings.rebind(session.id, DM, Origin.RESUME)
    assert await store.inbox.knows_chat("bot", DM)


async def test_messages_are_found_by_key_receipt_and_state(store: Store):
    asked = structs.replace(draft("ask:1"), buttons=(("Yes", "y"),))
    await store.outbox.enqueue(asked)
    await store.outbox.enqueue(structs.replace(asked, key="ask:1:more", address=TOPIC))
    await store.outbox.enqueue(structs.replace(asked, key="ask:12", address=TOPIC))
    assert [it.key for it in await store.outbox.asking("ask:1")] == ["ask:1", "ask:1:more"]
    assert await store.outbox.is_due([DM.platform])
    assert not await store.outbox.is_due([Platform.SLACK])
    first, *_ = await store.outbox.claim([DM.platform], limit=1)
    await store.outbox.sent(first, "77")
    sent = await store.outbox.sent_as(DM, "77")
    assert sent is not None
    assert sent.key == "ask:1"
    assert await store.outbox.sent_as(TOPIC, "77") is None
    assert await store.outbox.withdraw("ask:12")
    assert await store.outbox.get("ask:12") is None


async def test_held_messages_are_released(store: Store):
    await store.outbox.enqueue(draft("1"))
    (claimed,) = await store.outbox.claim([DM.platform])
    await store.outbox.hold(claimed, "no one is there", seconds=60)
    await store.outbox.release()
    assert await store.outbox.claim([DM.platform]) == ()
    await store.outbox.release(DM.platform)
    (again,) = await store.outbox.claim([DM.platform])
    assert again.state is OutgoingState.SENDING
    await store.write(outbox.decide, again.key)


async def test_the_audience_of_a_home_channel_is_recorded_once(store: Store):
    await store.owners.set_home("me", HomeChannel(address=DM))
    audience = Audience(readers=1)
    await store.owners.record_audience("me", DM, audience)
    (home,) = await store.owners.homes("me")
    assert home.audience == audience


async def test_a_page_shows_edits_and_hears_its_messages(store: Store, session: Session):
    page = await store.pages.begin("me", "roses", key=pages.home_key("me"))
    shown = await store.pages.show(page.id, "m1", "May I?", (("Yes", "y"),))
    assert await store.pages.home("me") is not None
    assert await store.pages.press(page.id, "k1", "browser", shown.no, "y")
    assert not await store.pages.press(page.id, "k2", "browser", shown.no, "y")
    assert not await store.pages.is_said(page.id, "k3")
    written = await store.pages.say(page.id, "k3", "browser", "hello")
    assert await store.pages.is_said(page.id, "k3")
    no = await store.inbox.record("page", "1", PAGE, "hello", str(written.no))
    notice = await store.pages.show(page.id, f"notice:{no}:x", "It waits.")
    assert [it.no for it in await store.pages.messages(page.id)] == [
        shown.no,
        written.no,
        notice.no,
    ]
    for update in await store.pages.unheard():
        await store.pages.heard(update.no)
    assert await store.pages.unheard() == ()
    token = await store.pages.link("me")
    assert not await store.pages.is_link_used(token)


async def test_recent_handoffs_and_paused_turns_are_found(store: Store, session: Session):
    lease = await hold(store, session.id, said("hello"))
    asked = await store.request_handoff(session.id, DM.platform, lease=lease, mid_turn=True)
    assert await store.recent_handoffs() == (asked,)
    assert await store.write(handoffs.end_pause, lease)
    assert not await store.write(handoffs.end_pause, lease)
    assert await store.sessions.count() == 1


async def test_a_condition_that_saw_no_change_leaves_no_run(store: Store, clock: FakeClock):
    job = await make(store, only_if=Condition(ConditionKind.FILE, "/home/me/x"))
    claim = await claimed(store)
    assert await store.runs.tokens_left(claim) > 0
    assert await store.runs.check(claim, Seen(digest="1", excerpt="")) is None
    assert await store.runs.history(job.id) == ()
    assert await store.runs.prune(clock.now() - timedelta(days=30)) == 0
