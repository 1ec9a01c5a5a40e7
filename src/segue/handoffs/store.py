"""The store that programs open, with the operations on handoffs under the names of this field."""

from __future__ import annotations

from segue import store
from segue.handoffs import queries
from segue.handoffs.values import Handoff
from segue.store import Clock, Store


class HandoffStore(Store):
    """A store, and the operations on handoffs as its methods. The program itself calls them as it
    calls all others, `queries.claim(store, …)`."""

    # For who lets a session go
    request_handoff = queries.request
    grant_handoff = queries.grant
    list_handoffs = queries.history
    cancel_handoff = queries.cancel
    # For the gateway; a claim is the Handoff that a claim method returned
    list_pending_handoffs = queries.pending
    claim_handoff = queries.claim
    claim_next_handoff = queries.claim_next
    heartbeat_handoff = queries.heartbeat
    record_handoff_step = queries.record_step
    complete_handoff = queries.complete
    fail_handoff = queries.fail
    expire_handoffs = queries.expire

    async def get_handoff_state(self, session_id: str) -> Handoff | None:
        """The session's latest handoff, or None. A void handoff is failed first."""
        return await queries.current(self, session_id)


async def open_store(url: str, *, clock: Clock | None = None) -> HandoffStore:
    """Like `segue.store.open`."""
    return HandoffStore(await store.open_engine(url, clock=clock))
