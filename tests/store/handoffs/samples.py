"""Helpers for the tests of stored handoffs."""

from __future__ import annotations

from segue.core.address import Platform
from segue.handoffs import queries as handoffs
from segue.handoffs.values import Handoff
from segue.store import Store

TELEGRAM = Platform.TELEGRAM
NOWHERE = "20260101_120000_00000000"


async def claimed(store: Store, session_id: str) -> Handoff:
    """A handoff of the session to Telegram, claimed by this process."""
    asked = await handoffs.request(store, session_id, TELEGRAM)
    claim = await handoffs.claim(store, asked.id)
    assert claim is not None
    return claim


async def state(store: Store, session_id: str) -> Handoff:
    latest = await handoffs.current(store, session_id)
    assert latest is not None
    return latest
