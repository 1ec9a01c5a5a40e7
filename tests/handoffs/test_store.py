"""The operations on handoffs, as methods of the store that programs open."""

from __future__ import annotations

from pathlib import Path

from segue.core.address import Address, ChatType, Platform
from segue.core.session import ME
from segue.handoffs.store import open_store
from segue.handoffs.values import State, Step
from segue.store import owners, sessions

CHAT = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="42")


async def test_a_session_is_handed_off_with_the_methods_of_the_store(tmp_path: Path):
    async with await open_store(f"sqlite://{tmp_path}/segue.db") as store:
        await owners.ensure(store, ME)
        session = await sessions.create(store, ME, Platform.LOCAL)
        asked = await store.request_handoff(session.id, CHAT.platform, home=CHAT)
        assert await store.list_pending_handoffs() == (asked,)
        claim = await store.claim_handoff(asked.id)
        assert claim is not None
        assert await store.heartbeat_handoff(claim)
        assert await store.record_handoff_step(claim, Step.OPENING, thread=CHAT)
        assert await store.complete_handoff(claim, address=CHAT) is not None
        done = await store.get_handoff_state(session.id)
        assert done is not None
        assert done.state is State.COMPLETED


async def test_a_handoff_that_was_cancelled_cannot_be_claimed(tmp_path: Path):
    async with await open_store(f"sqlite://{tmp_path}/segue.db") as store:
        await owners.ensure(store, ME)
        session = await sessions.create(store, ME, Platform.LOCAL)
        asked = await store.request_handoff(session.id, CHAT.platform, home=CHAT)
        assert await store.cancel_handoff(asked.id)
        assert await store.claim_handoff(asked.id) is None
        assert [h.state for h in await store.list_handoffs(session.id)] == [State.FAILED]
