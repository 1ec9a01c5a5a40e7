"""Runs a turn of the terminal, a chat or the page: lease → window → brain → append → release."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from msgspec import Struct

from segue.approvals import queries as approvals
from segue.core import events, provenance
from segue.core.address import Address, ChatType, Platform
from segue.core.approval import Approve
from segue.core.context import Context
from segue.core.errors import ModelError, SessionError, SessionHeld, StoreError, UserError
from segue.core.provenance import Provenance
from segue.core.session import Lease, Origin, Session, Usage
from segue.core.text import tokens_in
from segue.core.transcript import Kind, Message, Role, Transcript, prompted, spoken
from segue.store import (
    Store,
    Tx,
    bindings,
    leases,
    release_requests,
    retries,
    sessions,
    transcripts,
)
from segue.store.lease_keeper import HeldLease as HeldLease
from segue.store.leases import LEASE_SECONDS
from segue.store.release_requests import ReleaseRequest
from segue.turns import queries
from segue.turns.brain import Assignment, Brain, Brains, Unattended, deny_all
from segue.turns.queries import SessionData, TurnStart
from segue.turns.titles import Titles

RETRY_SECONDS = 0.25
"""Seconds between two attempts to hold a session that another process has."""
READ_AHEAD = 2
"""Read this many times the brain's room: more may fit once old tool output is left out."""
SYNTHETIC_STEPS = 4
"""The maximum number of model responses in a synthetic turn."""

COMPACT_AT = 0.8
"""Compact before a turn if the window takes more than this share of the brain's room."""
KEPT_SHARE = 0.25
"""The share of the room that the newest turns, which stay word for word, may take."""
MAX_KEPT_TURNS = 2
_MIN_MESSAGES = 2
"""The fewest messages that are worth a summary."""

logger = logging.getLogger(__name__)

_TERMINAL = Context(
    source=Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id="terminal")
)


# The lease


@contextlib.asynccontextmanager
async def hold(
    store: Store,
    session_id: str,
    holder: str,
    *,
    take_over: bool = False,
    address: Address | None = None,
    seconds: float = LEASE_SECONDS,
    wait_seconds: float = 0.0,
    give_up: asyncio.Event | None = None,
) -> AsyncGenerator[HeldLease]:
    """Hold the session while this context is open, so that no other process can append to it. Raise
    SessionHeld if another still has it after `wait_seconds`, or once `give_up` is set, unless
    `take_over` is set. With `address`, bind it there."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_seconds
    take = store.write if address is not None else store.mark
    while True:
        try:
            lease, request = await take(_take, session_id, holder, take_over, address, seconds)
            break
        except SessionHeld:
            if loop.time() >= deadline or (give_up is not None and give_up.is_set()):
                raise
        await asyncio.sleep(RETRY_SECONDS)
    held = store.keeper.add(lease, seconds, request)
    try:
        yield held
    except BaseException:
        try:
            await _release(store, held)
        except StoreError as error:  # must not replace the error, which may be a cancellation
            logger.warning("lease not released session=%s: %s", session_id, error)
        raise
    await _release(store, held)


async def _release(store: Store, held: HeldLease) -> None:
    store.keeper.remove(held)
    if not held.lost.is_set():
        await leases.release(store, held.lease)


def _take(
    tx: Tx, session_id: str, holder: str, take_over: bool, address: Address | None, seconds: float
) -> tuple[Lease, ReleaseRequest | None]:
    lease = leases.acquire(tx, session_id, holder, seconds=seconds, take_over=take_over)
    if address is not None:
        bindings.rebind(tx, session_id, address, Origin.RESUME)
    return lease, release_requests.get(tx, session_id)


# Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a turn runs, and how to ask for approval there."""

    context: Context = _TERMINAL
    holder: str = "the terminal"
    """The name of the lease holder, as others see it."""
    approve: Approve = deny_all
    deliver_to: Address | None = None
    """Where the agent's messages are sent. None if the user sees them directly, or for a run."""
    unattended: Unattended | None = None
    """What the agent may do if no user reads along, as in the run of a job."""


HERE = Place()


class SyntheticTurn(Struct, frozen=True, kw_only=True):
    """The result of a turn that the program started, such as to confirm a handoff."""

    messages: tuple[Message, ...]
    """The prompt and everything after it, ready to be appended."""
    usage: Usage
    error: UserError | None = None
    """Why the turn failed, or None."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """One turn in progress."""

    held: HeldLease
    place: Place
    stop: asyncio.Event
    pause: asyncio.Event | None
    inbox_ids: Sequence[int]
    start: TurnStart


def _now() -> datetime:
    return datetime.now(UTC)


class Turns:
    """Runs turns in the sessions of one store, in any number of sessions at once."""

    def __init__(
        self,
        store: Store,
        brains: Brains,
        *,
        titles: bool = True,
        now: Callable[[], datetime] = _now,
    ) -> None:
        """`titles`: whether sessions get a title after their first exchange."""
        self._store = store
        self._brains = brains
        self._titles = Titles(store) if titles else None
        self._now = now

    async def __aenter__(self) -> Turns:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._titles is not None:
            await self._titles.close()
        await self._brains.close()

    async def take_turn(
        self,
        session_id: str,
        said: str | Message | None,
        place: Place = HERE,
        *,
        held: HeldLease | None = None,
        interrupt: asyncio.Event | None = None,
        pause: asyncio.Event | None = None,
        paused: bool = False,
        inbox_ids: Sequence[int] = (),
    ) -> AsyncGenerator[events.Event]:
        """Answer `said`, or continue from the end of the transcript, until `interrupt` is set, or
        `pause` and a safe point is reached. `paused`: the turn to continue ended with TurnPaused.

        `said` is stored before the first event, and each Message before its event. The last event
        is TurnDone, TurnFailed, TurnInterrupted or TurnPaused. An error is raised only if nothing
        was stored, such as SessionHeld if another process holds the session, or SessionMoved if the
        session is not in the chat to deliver to.

        `held` is for a caller that holds the session for longer than one turn. `inbox_ids` are the
        inbox entries that `said` comes from. The agent's last message finishes them. If the turn
        ends in any other way, the caller must do so.
        """
        now = self._now()
        said = spoken(said, now) if isinstance(said, str) else said
        async with self._in_hand(session_id, place, held) as held:
            start = await queries.begin(
                self._store,
                held.lease,
                said,
                inbox_ids,
                now,
                at=place.deliver_to,
                paused=paused,
            )
            for message in start.repairs:
                yield events.MessageAdded(message)
            stop = interrupt or asyncio.Event()
            with held.stopping(stop):
                turn = _Turn(held, place, stop, pause, inbox_ids, start)
                try:
                    async with contextlib.aclosing(self._go_on(turn)) as stream:
                        async for event in stream:
                            yield event
                except UserError as error:
                    yield events.TurnFailed(held.moved or error)

    async def take_synthetic_turn(
        self,
        session_id: str,
        place: Place,
        prompt: str,
        *,
        by: Provenance = provenance.PROGRAM,
        only: Collection[str] | None = None,
    ) -> SyntheticTurn:
        """Return the agent's answer to a prompt from the program, based on the session so far. `by`
        are the authors of the prompt.

        Nothing is stored, and the user is not asked: a tool that needs approval is refused. With
        `only`, the agent has just these tools, and they need no approval. No message from a
        platform can reach this path.
        """
        data = await queries.read(self._store, session_id)
        assignment = self._assignment(data, replace(place, approve=deny_all))
        brain = await self._brains.open(replace(assignment, only=only, max_steps=SYNTHETIC_STEPS))
        window = await self._window(session_id, brain)
        now = self._now()
        asked = prompted(prompt, now, by)
        repairs = await approvals.unfinished(self._store, session_id, window, now)
        messages = [*repairs, asked]
        usage = Usage()
        error = None
        transcript = window.extended(messages)
        async with contextlib.aclosing(brain.turn(transcript, asyncio.Event())) as stream:
            async for event in stream:
                match event:
                    case events.MessageAdded(message):
                        messages.append(message)
                    case events.UsageAdded(more):
                        usage += more
                    case events.TurnFailed(reason):
                        error = reason
                    case _:
                        pass
        return SyntheticTurn(messages=tuple(messages), usage=usage, error=error)

    async def compress(
        self, session_id: str, place: Place, *, held: HeldLease | None = None
    ) -> Message:
        """Compact the session and return the summary. Raise SessionError for a short one."""
        async with self._in_hand(session_id, place, held) as held:
            data = await queries.read(self._store, session_id)
            brain = await self._brains.open(self._assignment(data, place, held))
            window = await self._window(session_id, brain)
            window = await summarise(self._store, held.lease, brain, window, self._now())
            return window.messages[0]

    async def model(self, session: Session | None) -> str:
        """The name of the session's model, or of the default model if it has none."""
        return await self._brains.model(session.model if session else None)

    async def use_model(self, held: HeldLease, name: str) -> str:
        """Switch the session to that model and return its full name, or raise a ModelError."""
        model = await self._brains.model(name)
        await sessions.describe(self._store, held.lease, model=model)
        return model

    async def brain(self, session: Session, place: Place) -> Brain:
        """The brain that runs the session's turns. Raise NoModel if there is no model for it."""
        data = await queries.read(self._store, session.id)
        return await self._brains.open(self._assignment(data, place))

    # One turn

    def _assignment(
        self, data: SessionData, place: Place, held: HeldLease | None = None
    ) -> Assignment:
        """What the owner allows for the session is stored only if it is `held`."""
        cwd = data.session.cwd or str(Path.home())
        return Assignment(
            session=data.session,
            context=replace(place.context, cwd=cwd, homes=data.homes),
            notes=data.notes,
            approve=place.approve,
            granted=data.granted if place.unattended is None else frozenset(),
            grant=self._grant(held if place.unattended is None else None),
            now=self._now,
            unattended=place.unattended,
        )

    def _in_hand(
        self, session_id: str, place: Place, held: HeldLease | None
    ) -> contextlib.AbstractAsyncContextManager[HeldLease]:
        if held is not None:
            return contextlib.nullcontext(held)
        return hold(self._store, session_id, place.holder)

    async def _go_on(self, turn: _Turn) -> AsyncGenerator[events.Event]:
        held = turn.held
        session = turn.start.data.session
        brain = await self._brains.open(self._assignment(turn.start.data, turn.place, held))
        window = await self._window(session.id, brain)
        # A summary would separate open calls from their results.
        if not turn.start.not_begun and needs_summary(window, brain.room):
            yield events.Compressing()
            if compressed := await self._compressed(held, brain, window):
                yield events.MessageAdded(compressed.messages[0])
                window = compressed
        added: list[Message] = []
        spent = Usage()
        async with contextlib.aclosing(
            brain.turn(window, turn.stop, turn.start.not_begun, turn.pause)
        ) as stream:
            async for event in stream:
                match event:
                    case events.UsageAdded(usage):
                        spent += usage
                    case events.MessageAdded(message):
                        await self._record(turn, message, spent)
                        spent = Usage()
                        added.append(message)
                    case events.TurnDone() | events.TurnPaused():
                        if self._titles is not None:
                            transcript = window.extended(added)
                            await self._titles.give(session, brain, transcript)
                    case events.TurnInterrupted() if held.moved:
                        event = events.TurnFailed(held.moved)
                    case _:
                        pass
                yield event

    async def _record(self, turn: _Turn, message: Message, usage: Usage) -> None:
        """Store the message, and queue it for the chat, in one transaction."""
        lease = turn.held.lease
        deliver_to = turn.place.deliver_to
        write = partial(
            queries.add,
            self._store,
            lease,
            message,
            usage,
            inbox_ids=turn.inbox_ids,
            deliver_to=deliver_to,
        )
        if deliver_to is None:  # the user sees that it was not stored
            await write()
        else:
            await retries.until_stored(f"turn of {lease.session_id}", write, repeatable=False)

    async def _window(self, session_id: str, brain: Brain) -> Transcript:
        return await transcripts.window(self._store, session_id, READ_AHEAD * brain.room)

    async def _compressed(
        self, held: HeldLease, brain: Brain, window: Transcript
    ) -> Transcript | None:
        """The compacted window. None if the brain fails: the turn then uses the part that fits."""
        try:
            return await summarise(self._store, held.lease, brain, window, self._now())
        except ModelError as error:
            logger.warning("not compressed session=%s: %s", held.lease.session_id, error)
            return None

    def _grant(self, held: HeldLease | None) -> Callable[[str], Awaitable[None]]:
        async def grant(fingerprint: str) -> None:
            if held is not None:
                await approvals.grant(self._store, held.lease, fingerprint)

        return grant


# The window


def needs_summary(window: Transcript, room: int) -> bool:
    """Whether `window` leaves too little of `room`, even without its oldest tool output, and has
    enough messages to summarise."""
    limit = int(room * COMPACT_AT)
    if window.trimmed(limit).tokens <= limit:
        return False
    return len(window) - _number_kept(window.messages, room) >= _MIN_MESSAGES


async def summarise(
    store: Store, lease: Lease, brain: Brain, window: Transcript, now: datetime
) -> Transcript:
    """Summarise all but the newest turns of `window`, and append the summary to the transcript.
    Return the new window, which starts with the summary. Raise SessionError if there is too
    little to summarise, or ModelError if the brain fails."""
    keeps = _number_kept(window.messages, brain.room)
    split = len(window) - keeps
    if split < _MIN_MESSAGES:
        raise SessionError(
            "There is nothing to compress: the part of the conversation that is not summarised yet"
            " is too short."
        )
    condensed = Transcript(window.messages[:split], window.omitted)
    written = await brain.summarise(condensed)
    summary = Message(
        Role.SYSTEM,
        written.text,
        now,
        tokens=tokens_in(written.text),
        kind=Kind.SUMMARY,
        keeps=keeps,
        provenance=condensed.provenance | provenance.AGENT,
    )
    await transcripts.append(store, lease, [summary], usage=written.usage)
    return Transcript((summary, *window.messages[split:]))


def _number_kept(messages: Sequence[Message], room: int) -> int:
    """How many of the newest messages stay: whole turns, and always an unanswered user message."""
    left = room * KEPT_SHARE
    kept = 0
    turns = 0
    for count, message in enumerate(reversed(messages), 1):
        left -= message.tokens
        if message.kind is Kind.SUMMARY or turns == MAX_KEPT_TURNS or (left < 0 and count > 1):
            break
        if message.role is Role.USER:
            kept = count
            turns += 1
    return kept
