"""What a handoff promises."""

from __future__ import annotations

from segue.core.address import Platform
from segue.core.session import Session
from segue.store import Store


async def test_a_request_is_pending_until_somebody_claims_it(store: Store, session: Session):
    asked = await store.request_handoff(session.id, Platform.TELEGRAM)
    assert await store.list_pending_handoffs() == (asked,)
