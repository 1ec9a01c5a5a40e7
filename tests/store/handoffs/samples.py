"""Helpers for the tests of stored handoffs."""

from __future__ import annotations

from segue.core.address import Platform
from segue.core.handoff import (
    Handoff,
)
from segue.store import Store

TELEGRAM = Platform.TELEGRAM
NOWHERE = "20260101_120000_00000000"


async def claimed(store: Store, session_id: str) -> Handoff:
    """A handoff of the session to Telegram, claimed by this process."""
    asked = await store.request_handoff(session_id, TELEGRAM)
    claim = await store.claim_handoff(asked.id)
    assert claim is not None
    return claim


async def state(store: Store, session_id: str) -> Handoff:
    latest = await store.get_handoff_state(session_id)
    assert latest is not None
    return latest
