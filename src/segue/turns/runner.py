"""Runs a turn of the terminal, a chat or the page: lease → window → brain → append → release."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from segue.approvals import queries as approvals
from segue.core import events, provenance
from segue.core.address import Address, ChatType, Platform
from segue.core.approval import Approve
from segue.core.context import Context
from segue.core.errors import ModelError, UserError
from segue.core.provenance import Provenance
from segue.core.session import Session, Usage
from segue.core.transcript import Message, Transcript, prompted, spoken
from segue.store import Store, retries, sessions, transcripts
from segue.turns import compaction, queries
from segue.turns.brain import Assignment, Brain, Brains, Unattended, deny_all
from segue.turns.hold import HeldLease, hold
from segue.turns.queries import SessionData, TurnStart
from segue.turns.titles import Titles

READ_AHEAD = 2
"""Read this many times the brain's room: more may fit once old tool output is left out."""
SYNTHETIC_STEPS = 4
"""The maximum number of model responses in a synthetic turn."""

logger = logging.getLogger(__name__)

_TERMINAL = Context(
    source=Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id="terminal")
)


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
            start = await self._store.write(
                queries.begin,
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
        data = await self._store.read(queries.read, session_id)
        assignment = self._assignment(data, replace(place, approve=deny_all))
        brain = await self._brains.open(replace(assignment, only=only, max_steps=SYNTHETIC_STEPS))
        window, now = await self._window(session_id, brain), self._now()
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
            data = await self._store.read(queries.read, session_id)
            brain = await self._brains.open(self._assignment(data, place, held))
            window = await self._window(session_id, brain)
            window = await compaction.compress(self._store, held.lease, brain, window, self._now())
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
        data = await self._store.read(queries.read, session.id)
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
        held, place, session = turn.held, turn.place, turn.start.data.session
        brain = await self._brains.open(self._assignment(turn.start.data, place, held))
        window = await self._window(session.id, brain)
        # A summary would separate open calls from their results.
        if not turn.start.not_begun and compaction.is_due(window, brain.room):
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
        lease, ids, deliver_to = turn.held.lease, turn.inbox_ids, turn.place.deliver_to

        async def write() -> None:
            await self._store.write(
                queries.add, lease, message, usage, inbox_ids=ids, deliver_to=deliver_to
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
            return await compaction.compress(self._store, held.lease, brain, window, self._now())
        except ModelError as error:
            logger.warning("not compressed session=%s: %s", held.lease.session_id, error)
            return None

    def _grant(self, held: HeldLease | None) -> Callable[[str], Awaitable[None]]:
        async def grant(fingerprint: str) -> None:
            if held is not None:
                await approvals.grant(self._store, held.lease, fingerprint)

        return grant
