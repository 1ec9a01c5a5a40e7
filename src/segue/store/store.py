"""The store's API for the rest of the program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from segue.core.handoff import Handoff
from segue.store import handoffs, health
from segue.store.approvals import Approvals
from segue.store.base import Engine, Topic, Tx
from segue.store.bindings import Bindings
from segue.store.doors import Doors
from segue.store.gateways import Gateways
from segue.store.inbox import Inbox
from segue.store.lease_keeper import LeaseKeeper
from segue.store.leases import Leases
from segue.store.notes import Notes
from segue.store.outbox import Outbox
from segue.store.owners import Owners
from segue.store.page_sessions import PageSessions
from segue.store.pages import Pages
from segue.store.pairings import Pairings
from segue.store.sessions import Sessions
from segue.store.transcripts import Transcripts
from segue.store.wake import Waiter
from segue.store.wishes import Wishes

if TYPE_CHECKING:
    from segue.store.jobs import Jobs
    from segue.store.reports import Reports
    from segue.store.runs import Runs

P = ParamSpec("P")
T = TypeVar("T")


class Store:
    """All persistent state, and the only thing that the terminal and the gateway share.

    The handoff methods are on the store itself, under the names used in this field. The others are
    grouped by subject.
    """

    health = health.look
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
        self.owners = Owners(engine)
        self.notes = Notes(engine)
        self.sessions = Sessions(engine)
        self.transcripts = Transcripts(engine)
        self.bindings = Bindings(engine)
        self.doors = Doors(engine)
        self.wishes = Wishes(engine)
        self.leases = Leases(engine)
        self.keeper = LeaseKeeper(engine)
        self.inbox = Inbox(engine)
        self.outbox = Outbox(engine)
        self.approvals = Approvals(engine)
        self.pairings = Pairings(engine)
        self.pages = Pages(engine)
        self.page_sessions = PageSessions(engine)
        self.gateways = Gateways(engine)

    # Schedules are imported when they are used: most commands have none.

    @functools.cached_property
    def jobs(self) -> Jobs:
        from segue.store.jobs import Jobs  # noqa: PLC0415

        return Jobs(self._engine)

    @functools.cached_property
    def runs(self) -> Runs:
        from segue.store.runs import Runs  # noqa: PLC0415

        return Runs(self._engine)

    @functools.cached_property
    def reports(self) -> Reports:
        from segue.store.reports import Reports  # noqa: PLC0415

        return Reports(self._engine)

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
