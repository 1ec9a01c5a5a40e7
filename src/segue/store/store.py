"""The store as the rest of the program sees it."""

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
from segue.store.lease_keeper import Keeper
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
    """Everything that must survive: the only thing that terminal and gateway share.

    Handoffs are on the store itself, under the names that this field knows; the rest is sorted
    by what it is about.
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
        self.keeper = Keeper(engine)
        self.inbox = Inbox(engine)
        self.outbox = Outbox(engine)
        self.approvals = Approvals(engine)
        self.pairings = Pairings(engine)
        self.pages = Pages(engine)
        self.gateways = Gateways(engine)

    @property
    def process(self) -> str:
        """The name of this opening of the store."""
        return self._engine.process

    def listen(self, *topics: Topic) -> AbstractAsyncContextManager[Waiter]:
        """`async with store.listen(Topic.HANDOFFS) as wake: await wake.wait()`."""
        return self._engine.bell.listen(*topics)

    def write(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        """Several operations in one transaction: `work(tx, …)` calls the functions of
        `segue.store.sessions`, `.transcripts`, `.inbox` and so on, and nothing else."""
        return self._engine.write(work, *args, **kwargs)

    def mark(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        """The same, for what a power cut may take back: who is at work on what."""
        return self._engine.mark(work, *args, **kwargs)

    def read(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        """The same, for several that change nothing: they see the store at one moment."""
        return self._engine.read(work, *args, **kwargs)

    async def health(self) -> health.Health:
        """How large it is, and, where that is quickly done, whether it is whole."""
        return await self._engine.read(health.look)

    async def close(self) -> None:
        """Finish what was begun. Closing twice does no harm."""
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
        """Ask for the session to be moved. `lease` is the asker's, if it holds one.

        Refused with SessionNotFound, SessionMoved, SessionHeld (somebody else has it open) or
        HandoffInFlight. Asking again with the same `key` returns the first request.
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
        """The session's latest handoff; None when there is none, or no such session."""
        latest, due = await self._engine.read(handoffs.due, session_id)
        if due:
            await self.expire_handoffs()
            latest, _ = await self._engine.read(handoffs.due, session_id)
        return latest

    async def list_handoffs(self, session_id: str, *, limit: int = 20) -> tuple[Handoff, ...]:
        """The session's handoffs, the newest first."""
        return await self._engine.read(handoffs.history, session_id, limit)

    async def recent_handoffs(self, limit: int = 20) -> tuple[Handoff, ...]:
        """The handoffs of all sessions, the newest first."""
        return await self._engine.read(handoffs.recent, limit)

    async def in_flight(self) -> tuple[Handoff, ...]:
        """The handoffs of all sessions that are not over, the oldest first."""
        return await self._engine.read(handoffs.in_flight)

    async def cancel_handoff(self, handoff_id: int, reason: str | None = None) -> bool:
        """Call it off, whether or not a gateway works on it; False when it is already over. A
        thread that was opened for it is told that the session stayed, as it is below."""
        return await self._engine.write(handoffs.cancel, handoff_id, reason)

    # Handoffs, for the gateway. A claim is the Handoff that claiming returned.

    async def list_pending_handoffs(self) -> tuple[Handoff, ...]:
        """Those that wait for a gateway and are not void, the oldest first."""
        return await self._engine.read(handoffs.pending)

    async def claim_handoff(
        self, handoff_id: int, *, seconds: float = handoffs.LEASE_SECONDS
    ) -> Handoff | None:
        """Take it up, also from a gateway that is gone; None when somebody else has it, it is
        over, or its time is."""
        return await self._engine.mark(handoffs.claim, handoff_id, seconds)

    async def claim_next_handoff(
        self,
        platforms: Collection[Platform],
        *,
        seconds: float = handoffs.LEASE_SECONDS,
        besides: Collection[int] = (),
    ) -> Handoff | None:
        """Take up the oldest that waits for one of `platforms`, or one whose gateway is gone; none
        of `besides`."""
        return await self._engine.mark(handoffs.claim_next, platforms, seconds, besides)

    async def heartbeat_handoff(
        self, claim: Handoff, *, seconds: float = handoffs.LEASE_SECONDS
    ) -> bool:
        """Still at it. False, here and below, when the claim is no longer the newest: stop."""
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
        """How far it has come, the thread that was opened for it, and what the agent answered
        there, in UTF-8. What is not given stays as it is, but for the `detail` of the step."""
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
        """Make it real, in one transaction: the session moves to `address`, its epoch rises, the
        confirming turn's messages are kept and the drafts queued. None when the claim is no
        longer the newest or the handoff was cancelled; SessionChanged when the session went on
        elsewhere meanwhile. In both cases nothing has changed."""
        return await self._engine.write(
            handoffs.complete,
            claim,
            address=address,
            messages=messages,
            usage=usage,
            drafts=drafts,
        )

    async def fail_handoff(self, claim: Handoff, reason: str) -> bool:
        """It cannot be done. The session stays where it is, and the thread is told so."""
        return await self._engine.write(handoffs.fail, claim, reason)

    async def expire_handoffs(self) -> int:
        """Fail those that nobody took up in time, and say how many they were."""
        return await self._engine.write(handoffs.expire)
