"""The store's API for the rest of the program."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

from segue.core.address import Address, Platform
from segue.core.handoff import Handoff, Step
from segue.core.lease import Lease
from segue.core.session import Usage
from segue.core.transcript import Message
from segue.store import handoffs, health
from segue.store.approvals import Approvals
from segue.store.base import Engine, Topic, Tx
from segue.store.bindings import Bindings
from segue.store.gateways import Gateways
from segue.store.inbox import Inbox
from segue.store.lease_keeper import LeaseKeeper
from segue.store.leases import Leases
from segue.store.notes import Notes
from segue.store.outbox import Draft, Outbox
from segue.store.owners import Owners
from segue.store.pages import Pages
from segue.store.pairings import Pairings
from segue.store.sessions import Sessions
from segue.store.transcripts import Transcripts
from segue.store.wake import Waiter

P = ParamSpec("P")
T = TypeVar("T")


class Store:
    """All persistent state, and the only thing that the terminal and the gateway share.

    The handoff methods are on the store itself, under the names used in this field. The others are
    grouped by subject.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._closed = False
        self.owners = Owners(engine)
        self.notes = Notes(engine)
        self.sessions = Sessions(engine)
        self.transcripts = Transcripts(engine)
        self.bindings = Bindings(engine)
        self.leases = Leases(engine)
        self.keeper = LeaseKeeper(engine)
        self.inbox = Inbox(engine)
        self.outbox = Outbox(engine)
        self.approvals = Approvals(engine)
        self.pairings = Pairings(engine)
        self.pages = Pages(engine)
        self.gateways = Gateways(engine)

    @property
    def process(self) -> str:
        """The unique name of this opening of the store."""
        return self._engine.process

    def listen(self, *topics: Topic) -> AbstractAsyncContextManager[Waiter]:
        """Use as `async with store.listen(Topic.HANDOFFS) as wake: await wake.wait()`."""
        return self._engine.notifier.listen(*topics)

    def write(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        """Run several operations in one transaction.

        `work(tx, …)` may call the functions of `segue.store.sessions`, `.transcripts`, `.inbox` and
        so on, and must do nothing else.
        """
        return self._engine.write(work, *args, **kwargs)

    def mark(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        """Like `write`, for marks (which process works on what), which a power cut may undo."""
        return self._engine.mark(work, *args, **kwargs)

    def read(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        """Like `write`, for several reads of one consistent snapshot."""
        return self._engine.read(work, *args, **kwargs)

    async def health(self) -> health.StoreHealth:
        """The size of the store and, where that is quick to check, its integrity."""
        return await self._engine.read(health.look)

    async def close(self) -> None:
        """Finish pending work and close the store. Idempotent."""
        if not self._closed:
            self._closed = True
            await self._engine.close()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # Handoffs, for the terminal

    async def request_handoff(
        self,
        session_id: str,
        platform: Platform,
        *,
        lease: Lease | None = None,
        home: Address | None = None,
        message: str | None = None,
        key: str | None = None,
        claim_seconds: float = handoffs.CLAIM_SECONDS,
    ) -> Handoff:
        """Request that the session moves. `lease` is the caller's lease, if it has one.

        Raise SessionNotFound, SessionMoved, SessionHeld (another process has it open) or
        HandoffInFlight. Calling it again with the same `key` returns the first request.
        """
        return await self._engine.mark(
            handoffs.request,
            session_id,
            platform,
            key=key or secrets.token_hex(16),
            lease=lease,
            home=home,
            message=message,
            claim_seconds=claim_seconds,
        )

    async def get_handoff_state(self, session_id: str) -> Handoff | None:
        """The session's latest handoff, or None if it has none or does not exist. A void handoff is
        failed first."""
        latest, due = await self._engine.read(handoffs.due, session_id)
        if due:
            await self.expire_handoffs()
            latest, _ = await self._engine.read(handoffs.due, session_id)
        return latest

    async def list_handoffs(self, session_id: str, *, limit: int = 20) -> tuple[Handoff, ...]:
        """The session's handoffs, newest first."""
        return await self._engine.read(handoffs.history, session_id, limit)

    async def recent_handoffs(self, limit: int = 20) -> tuple[Handoff, ...]:
        """The handoffs of all sessions, newest first."""
        return await self._engine.read(handoffs.recent, limit)

    async def in_flight(self) -> tuple[Handoff, ...]:
        """The pending and running handoffs of all sessions, oldest first."""
        return await self._engine.read(handoffs.in_flight)

    async def cancel_handoff(self, handoff_id: int, reason: str | None = None) -> bool:
        """Cancel a handoff, even if a gateway is working on it. Return False if it is already over.

        If a thread was opened for it, a message there says that the session stayed. `fail_handoff`
        and `expire_handoffs` do the same.
        """
        return await self._engine.write(handoffs.cancel, handoff_id, reason)

    # Handoffs, for the gateway. A claim is the Handoff that a claim method returned.

    async def list_pending_handoffs(self) -> tuple[Handoff, ...]:
        """Handoffs that wait for a gateway and are not void, oldest first."""
        return await self._engine.read(handoffs.pending)

    async def claim_handoff(
        self, handoff_id: int, *, seconds: float = handoffs.LEASE_SECONDS
    ) -> Handoff | None:
        """Claim a handoff, even from a gateway that is gone. Return None if another gateway has it,
        or if it is over or void."""
        return await self._engine.mark(handoffs.claim, handoff_id, seconds)

    async def claim_next_handoff(
        self,
        platforms: Collection[Platform],
        *,
        seconds: float = handoffs.LEASE_SECONDS,
        besides: Collection[int] = (),
    ) -> Handoff | None:
        """Claim the oldest handoff to one of `platforms` that is pending, or else one whose gateway
        is gone and that is not in `besides`."""
        return await self._engine.mark(handoffs.claim_next, platforms, seconds, besides)

    async def heartbeat_handoff(
        self, claim: Handoff, *, seconds: float = handoffs.LEASE_SECONDS
    ) -> bool:
        """Extend the claim. Here and below, False means that it is no longer the newest claim:
        stop."""
        return await self._engine.mark(handoffs.heartbeat, claim, seconds)

    async def record_handoff_step(
        self,
        claim: Handoff,
        step: Step,
        *,
        thread: Address | None = None,
        reply: bytes | None = None,
        detail: str | None = None,
    ) -> bool:
        """Record the step, the thread that was opened, and the agent's reply there, in UTF-8. None
        keeps the recorded thread and reply, but clears `detail`."""
        return await self._engine.write(handoffs.record_step, claim, step, thread, reply, detail)

    async def complete_handoff(
        self,
        claim: Handoff,
        *,
        address: Address,
        messages: Sequence[Message] = (),
        usage: Usage | None = None,
        drafts: Sequence[Draft] = (),
    ) -> handoffs.Completion | None:
        """Complete the handoff in one transaction.

        The session moves to `address`, its epoch rises, the messages of the confirming turn are
        appended and the drafts are queued. Return None if the claim is no longer the newest or the
        handoff was cancelled. Raise SessionChanged if the session continued elsewhere meanwhile. In
        both cases nothing changes.
        """
        return await self._engine.write(
            handoffs.complete,
            claim,
            address=address,
            messages=messages,
            usage=usage,
            drafts=drafts,
        )

    async def fail_handoff(self, claim: Handoff, reason: str) -> bool:
        """Fail the handoff. The session stays where it is, and the thread is notified."""
        return await self._engine.write(handoffs.fail, claim, reason)

    async def expire_handoffs(self) -> int:
        """Fail the handoffs that no gateway claimed in time, and return how many there were."""
        return await self._engine.write(handoffs.expire)
