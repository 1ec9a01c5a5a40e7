"""Turns in chats: a message is answered in the session of its chat.

A session may be elsewhere when a message arrives at one of its doors. The chat then asks the owner
what to do, and the message waits in the inbox until the session is there or the owner has chosen
another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Generator,
)
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from segue import config
from segue.approvals.questions import Questions
from segue.core.address import Address
from segue.core.errors import (
    PlatformLost,
    SessionElsewhere,
    SessionError,
    SessionMoved,
    StoreError,
    UserError,
)
from segue.core.events import (
    NO_ANSWER,
    ApprovalNeeded,
    Event,
    MessageAdded,
    TurnDone,
    TurnFailed,
    TurnInterrupted,
    TurnPaused,
    speaks,
)
from segue.core.images import with_images
from segue.core.session import Session
from segue.core.transcript import Message, Outcome, spoken
from segue.gateway import content, messages, texts
from segue.gateway.containment import cancel
from segue.gateway.context import GatewayContext
from segue.gateway.expiry import Expiry
from segue.gateway.messages import PendingMessage
from segue.gateway.outbound import Outbound
from segue.gateway.streaming import LiveAnswer
from segue.handoffs import (
    Completed,
    Failed,
    HandoffRequest,
    Held,
    IfHeld,
    arrivals,
    hand_off,
    hand_off_session,
)
from segue.store import (
    Store,
    Topic,
    Tx,
    bindings,
    inbox,
    outbox,
    owners,
    page_sessions,
    retries,
    sessions,
)
from segue.store.bindings import RESUME
from segue.store.outbox import Draft
from segue.store.page_sessions import SessionActivity
from segue.store.wake import Waiter
from segue.turns import HeldLease, hold

HOLD_TIMEOUT = 60.0
"""Seconds to wait for a session that another process holds."""
DOOR_POLL_SECONDS = 1.0
"""Seconds between two checks of the session: its holder releases it without a wake-up."""
NEW_SESSION = "n:new"
"""The data of the button that starts a new conversation."""
Choose = Callable[[], Awaitable[bool]]
"""Run the owner's choice, if they have typed one. Return False if they have not."""
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class RunningTurn:
    session_id: str
    inbox_id: int
    asks: bool = False
    """Whether it waits for the user's answer."""
    interrupt: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class ChatTurns:
    """Runs the turns of all chats."""

    def __init__(self, context: GatewayContext, outbound: Outbound, expiry: Expiry) -> None:
        self.context = context
        self._store = context.store
        self._outbound = outbound
        self._expiry = expiry
        self.doors = DoorQuestions(context.store, outbound)
        self.taken_up = messages.TakenUp()
        self.under_way: set[int] = set()
        """The inbox entries of commands that go on in the background, also while their platform is
        served again."""
        self.edited: dict[int, PendingMessage] = {}
        """Messages that were edited while they wait for their session, by inbox number."""
        self._answered: dict[int, PendingMessage] = {}
        """The messages that are being answered now, by inbox number."""
        self._withdrawn: set[int] = set()
        """Those of them that their authors have deleted."""
        self._running: dict[Address, RunningTurn] = {}
        self._behind: set[asyncio.Task[None]] = set()

    # Messages

    async def answer(self, pending: PendingMessage) -> None:
        """Run the turn for a user's message. Raise SessionElsewhere, before anything happens, if
        the chat's session is elsewhere and in use."""
        with self._answering(pending):
            while True:
                session = await self.session(pending)
                said = await self._message(pending, session)
                if await self.take_turn(pending, session, said):
                    return

    async def resume(self, pending: PendingMessage, session_id: str) -> None:
        """Resume an interrupted turn, if its session is still at this address. Otherwise
        notify the chat that no answer follows."""
        with self._answering(pending):
            await arrivals.wait_for_departure(self._store, session_id)
            session = await sessions.get(self._store, session_id)
            is_here = session is not None and session.address == pending.address
            if session is None or not is_here or not await self.take_turn(pending, session, None):
                await self.conclude(pending, texts.ANSWER_LOST if session else "")

    @contextlib.contextmanager
    def _answering(self, pending: PendingMessage) -> Generator[None]:
        """Let `withdraw` find the message."""
        self._answered[pending.inbox_id] = pending
        try:
            yield
        finally:
            del self._answered[pending.inbox_id]
            self._withdrawn.discard(pending.inbox_id)

    async def session(self, pending: PendingMessage) -> Session:
        """The chat's session. Start a new one if there is none, or if the last one has ended. Raise
        SessionElsewhere if it is in use elsewhere."""
        address = pending.address
        settings = self.context.settings
        bound = await bindings.resolve(
            self._store,
            address,
            pending.owner,
            policy=settings.resets.for_address(address),
            zone=settings.zone,
            cwd=str(Path.home()),
        )
        if bound.created and not await owners.introduced(self._store, pending.owner):
            await self.notice(pending, texts.INTRODUCTION, "introduction")
        if bound.ended_now is not None:
            self.note(bound.ended_now, address)
        return bound.session

    def note(self, former: Session, address: Address) -> None:
        """Let the agent save notes about a session that has just ended, in the background."""
        self.in_background(self._expiry.note(former, address))

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)

    async def close(self) -> None:
        """Cancel background tasks."""
        await cancel(*self._behind)

    async def _message(self, pending: PendingMessage, session: Session) -> Message:
        folder = config.attachments(self.context.settings, session.id)
        adapter = self.context.adapters[pending.address.platform]
        inbound = await content.with_quote(self._store, adapter.account, pending.inbound, session)
        is_first = session.messages == 0
        text, pictures = await content.read(adapter, inbound, folder, is_first=is_first)
        said = spoken(text, datetime.now(UTC), content.authors(inbound))
        return with_images(said, pictures)

    # The turn

    async def take_turn(
        self, pending: PendingMessage, session: Session, said: Message | None
    ) -> bool:
        """Answer `said`, or continue from the last message. Finishes the inbox entry. Return False,
        and do nothing, if the session has left the chat meanwhile."""
        address = pending.address
        running = self._running[address] = RunningTurn(session.id, pending.inbox_id)
        if pending.inbox_id in self._withdrawn:
            running.interrupt.set()
        try:
            async with hold(
                self._store,
                session.id,
                self.context.name,
                wait_seconds=HOLD_TIMEOUT,
                give_up=running.interrupt,
            ) as held:
                edited = self.edited.pop(pending.inbox_id, None)
                if edited is not None and said is not None:
                    said = await self._message(edited, session)
                ended = await self._run(pending, said, held, running)
        except SessionMoved:
            return False
        except SessionError as error:
            ended = texts.WITHDRAWN if pending.inbox_id in self._withdrawn else str(error)
        finally:
            for where in [at for at, other in self._running.items() if other is running]:
                del self._running[where]
            running.over.set()
            self._outbound.writer.release(address)
        if ended is not None:
            # After a move, the open questions are those of the new place.
            await self.conclude(pending, ended, void=session.id if ended else None)
        return True

    async def _run(
        self, pending: PendingMessage, said: Message | None, held: HeldLease, running: RunningTurn
    ) -> str | None:
        """Run the turn, or let it move if another process asks for it. Return the notice with which
        to finish the inbox entry ("" for none), or None if the turn has already finished it."""
        address = pending.address
        questions = Questions(self._store, held, address, self._outbound.show_outcome)
        place = self.context.place(address, inbound=pending.inbound, approve=questions.approve)
        paused = False
        while True:
            events = self.context.turns.take_turn(
                running.session_id,
                said,
                place,
                held=held,
                interrupt=running.interrupt,
                pause=held.release_requested,
                paused=paused,
                inbox_ids=[pending.inbox_id],
            )
            ended = await self._show(pending, events, running)
            if not isinstance(ended, TurnPaused):
                break
            if await self._move(held, running.interrupt):
                questions.handed_off()
                ended = ""  # the place it left gets a notice anyway
                break
            said = None
            paused = True
        questions.over()
        return ended

    async def _move(self, held: HeldLease, interrupt: asyncio.Event) -> bool:
        """Hand the session off with its paused turn. Return False if the turn goes on here."""
        if (request := held.release_request) is None:
            return False
        steps = hand_off(self._store, held, request, mid_turn=True, interrupt=interrupt)
        try:
            return any([isinstance(step, Completed) async for step in steps])
        except SessionMoved:
            return True

    async def _show(
        self, pending: PendingMessage, turn: AsyncGenerator[Event], running: RunningTurn
    ) -> str | TurnPaused | None:
        """Show the turn in the chat until it ends or pauses. Return how it ended, as for `_run`."""
        writer = self._outbound.writer
        live = LiveAnswer(
            self.context, writer, pending.address, running.session_id, pending.inbox_id
        )
        ended: str | TurnPaused | None = None
        spoke = False
        cut_off: list[str] = []
        async with live.shown(), contextlib.aclosing(turn) as stream:
            async for event in stream:
                live.handle(event)
                running.asks = isinstance(event, ApprovalNeeded)
                spoke = spoke or speaks(event)
                match event:
                    case MessageAdded(message) if message.outcome is Outcome.INTERRUPTED:
                        cut_off.append(message.tool_name or "a tool")
                    case TurnFailed(PlatformLost() | StoreError() as error):
                        raise error  # no answer to the user: the turn is continued later
                    case TurnFailed(SessionMoved()):
                        ended = ""  # the place it left gets a notice anyway
                    case TurnFailed(error):
                        ended = str(error)
                    case TurnInterrupted():
                        is_withdrawn = pending.inbox_id in self._withdrawn
                        ended = texts.WITHDRAWN if is_withdrawn else texts.STOPPED
                    case TurnPaused():
                        ended = event
                    case TurnDone() if not spoke:
                        ended = NO_ANSWER
                    case _:
                        if cut_off:
                            await self.notice(pending, texts.cut_off(cut_off), "unknown")
                            cut_off.clear()
        return ended

    async def hand_off(
        self, pending: PendingMessage, session_id: str, request: HandoffRequest
    ) -> None:
        """Hand the session of a chat off, as soon as its turn reaches a safe point."""
        request = replace(request, if_held=IfHeld.WAIT)
        steps = hand_off_session(self._store, session_id, self.context.name, request)
        try:
            async for step in steps:
                if isinstance(step, Held):
                    await self.notice(pending, texts.moving(request.platform), "moving")
                elif isinstance(step, Failed):
                    await self.notice(pending, step.text(), "not moved")
        except UserError as error:
            await self.notice(pending, str(error), "not moved")
        finally:
            self.under_way.discard(pending.inbox_id)
        await self.conclude(pending)

    # Stopping

    def stop(self, address: Address) -> bool:
        """Interrupt the chat's turn, or give up the message that waits for its session. Return
        False if there is neither."""
        if (running := self._running.get(address)) is None:
            return self.doors.stop(address)
        running.interrupt.set()
        return True

    def withdraw(self, is_deleted: Callable[[PendingMessage], bool]) -> None:
        """Stop the turns of messages that their authors have deleted."""
        deleted = {no for no, pending in self._answered.items() if is_deleted(pending)}
        self._withdrawn |= deleted
        for running in self._running.values():
            if running.inbox_id in deleted:
                logger.info("turn of a deleted message stopped inbox_id=%d", running.inbox_id)
                running.interrupt.set()

    def move(self, old: Address, new: Address) -> None:
        """Follow a chat that moved: its turn can be stopped there."""
        if old in self._running and new not in self._running:
            self._running[new] = self._running[old]

    def waiting_for_answer(self) -> list[Address]:
        """The addresses whose turns or messages wait for the user's answer."""
        asking = [address for address, running in self._running.items() if running.asks]
        return [*asking, *self.doors.addresses()]

    async def stop_session(self, session: Session) -> bool:
        """Interrupt a turn of that session and wait until it has ended. Return whether a turn of it
        was running here, in another gateway or in a terminal, which is stopped when its session is
        taken."""
        there = await page_sessions.find(self._store, session.owner, session.id)
        for running in list(self._running.values()):
            if running.session_id == session.id:
                running.interrupt.set()
                await running.over.wait()
        return there is not None and there.held and there.activity is not SessionActivity.IDLE

    # Notices

    async def notice(self, pending: PendingMessage, text: str, about: str) -> None:
        """Send the user a notice in the chat. Repeated calls send it once."""
        draft = messages.notice(pending.inbox_id, pending.address, text, about)
        await outbox.enqueue(self._store, draft)

    async def conclude(
        self, pending: PendingMessage, text: str = "", *, void: str | None = None
    ) -> None:
        """Finish the inbox entry and queue `text` in one transaction. Open questions of the session
        `void` become unanswerable."""
        drafts = [messages.notice(pending.inbox_id, pending.address, text)] if text else []
        # The turn has happened: a store outage here must not make it run again.
        await retries.until_stored(
            f"end of message {pending.inbox_id}",
            lambda: self._store.write(_conclude, pending.inbox_id, drafts, void),
        )


def _conclude(tx: Tx, number: int, drafts: list[Draft], void: str | None) -> None:
    inbox.finish(tx, [number])
    if void is not None:
        sessions.void_approvals(tx, void)
    for draft in drafts:
        outbox.enqueue(tx, draft)


class DoorQuestions:
    """The messages that wait, at most one per chat. Those behind it wait in its queue."""

    def __init__(self, store: Store, outbound: Outbound) -> None:
        self._store = store
        self._outbound = outbound
        self._waiting: dict[Address, _Waiting] = {}

    async def wait(
        self, pending: PendingMessage, elsewhere: SessionElsewhere, choose: Choose
    ) -> PendingMessage | None:
        """Ask once, and wait until a session is there. Return the message, which may have been
        edited meanwhile, or None if the owner stopped it."""
        address = pending.address
        asking = door_question(pending, elsewhere)
        topics = (Topic.INBOX, Topic.LEASES, Topic.HANDOFFS)
        async with self._store.listen(*topics) as wake:
            waiting = self._waiting[address] = _Waiting(pending, wake)
            try:
                await outbox.enqueue(self._store, asking)
                while not waiting.stopped:
                    if await bindings.enter(self._store, address, pending.owner) is None:
                        break
                    if not await choose():
                        await wake.wait(DOOR_POLL_SECONDS)
            finally:
                del self._waiting[address]
        outcome = await self._outcome(waiting, elsewhere)
        self._outbound.show_outcome(address, asking.key, outcome)
        return None if waiting.stopped else waiting.pending

    async def _outcome(self, waiting: _Waiting, elsewhere: SessionElsewhere) -> str:
        if waiting.stopped:
            return "✗ Stopped"
        there = await bindings.get(self._store, waiting.pending.address)
        is_here = there is not None and there.session_id == elsewhere.fields["session"]
        return "✓ It is here" if is_here else "✓ A new conversation"

    def addresses(self) -> Collection[Address]:
        return self._waiting.keys()

    def stop(self, address: Address) -> bool:
        """Give up the message that waits there. Return False if none does."""
        if (waiting := self._waiting.get(address)) is None:
            return False
        waiting.stopped = True
        waiting.wake.wake()
        return True

    def find(
        self, address: Address, wanted: Callable[[PendingMessage], bool]
    ) -> PendingMessage | None:
        """The message that waits there, if it matches."""
        waiting = self._waiting.get(address)
        return waiting.pending if waiting and wanted(waiting.pending) else None

    def replace(self, address: Address, item: PendingMessage, other: PendingMessage) -> bool:
        """Replace a message. Return False if it no longer waits."""
        waiting = self._waiting.get(address)
        if waiting is None or waiting.pending != item:
            return False
        waiting.pending = other
        return True


@dataclass(slots=True)
class _Waiting:
    pending: PendingMessage
    wake: Waiter
    stopped: bool = False


def door_question(pending: PendingMessage, elsewhere: SessionElsewhere) -> Draft:
    """The message that asks. A restarted gateway asks with the same key, so it is sent once."""
    body = f"{elsewhere} Your message waits until then."
    draft = messages.notice(pending.inbox_id, pending.address, body, "elsewhere")
    bring = f"{RESUME}:{elsewhere.fields['session']}"
    buttons = (("Bring it here", bring), ("Start a new conversation", NEW_SESSION))
    return replace(draft, buttons=buttons)
