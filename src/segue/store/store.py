"""An open store, on which the functions of `sessions`, `inbox` and so on are called."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Concatenate, ParamSpec, TypeVar

from segue.core.handoff import Handoff
from segue.store import handoffs
from segue.store.base import Engine, Topic, Tx
from segue.store.lease_keeper import LeaseKeeper
from segue.store.wake import Waiter

P = ParamSpec("P")
T = TypeVar("T")


class Store:
    """All persistent state, and the only thing that the terminal and the gateway share.

    `await sessions.create(store, …)` runs a function in a transaction of its own, and `write` runs
    several in one. The handoff methods are on the store itself, under the names used in this field.
    """

    # For the terminal
    request_handoff = handoffs.request
    grant_handoff = handoffs.grant
    look_at_wish = handoffs.look
    list_handoffs = handoffs.history
    recent_handoffs = handoffs.recent
    in_flight = handoffs.in_flight
    cancel_handoff = handoffs.cancel
    # For the gateway; a claim is the Handoff that a claim method returned
    list_pending_handoffs = handoffs.pending
    claim_handoff = handoffs.claim
    claim_next_handoff = handoffs.claim_next
    heartbeat_handoff = handoffs.heartbeat
    record_handoff_step = handoffs.record_step
    complete_handoff = handoffs.complete
    fail_handoff = handoffs.fail
    expire_handoffs = handoffs.expire

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._closed = False
        self.keeper = LeaseKeeper(engine)

    @property
    def process(self) -> str:
        """The unique name of this opening of the store."""
        return self._engine.process

    def listen(self, *topics: Topic) -> AbstractAsyncContextManager[Waiter]:
        """Use as `async with store.listen(Topic.HANDOFFS) as wake: await wake.wait()`."""
        return self._engine.notifier.listen(*topics)

    def write(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Run several operations in one transaction.

        `work(tx, …)` may call the functions of `segue.store.sessions`, `.transcripts`, `.inbox` and
        so on, and must do nothing else.
        """
        return self._engine.write(work, *args, **kwargs)

    def mark(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Like `write`, for marks (which process works on what), which a power cut may undo."""
        return self._engine.mark(work, *args, **kwargs)

    def read(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Like `write`, for several reads of one consistent snapshot."""
        return self._engine.read(work, *args, **kwargs)

    async def close(self) -> None:
        """Finish pending work and close the store. Idempotent."""
        if not self._closed:
            self._closed = True
            await self._engine.close()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get_handoff_state(self, session_id: str) -> Handoff | None:
        """The session's latest handoff, or None if it has none or does not exist. A void handoff is
        failed first."""
        latest, due = await handoffs.due(self, session_id)
        if due:
            await handoffs.expire(self)
            latest, _ = await handoffs.due(self, session_id)
        return latest
