"""A conversation in the terminal: runs the user's messages and commands one after another."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import tzinfo
from pathlib import Path
from typing import Any

from segue import commands, handoffs
from segue.approvals import queries as approvals
from segue.approvals.queries import ApprovalState
from segue.commands.base import Command, Where
from segue.config import Settings
from segue.core.address import Platform
from segue.core.approval import Answer, Description
from segue.core.context import Context
from segue.core.errors import (
    HandoffError,
    ModelError,
    NoGateway,
    NothingSaid,
    SessionHeld,
    SessionNotFound,
    StoreError,
    UserError,
)
from segue.core.events import TurnFailed, TurnInterrupted, TurnPaused
from segue.core.session import ME, Session
from segue.core.text import one_line
from segue.core.transcript import Message, ToolCall
from segue.handoffs import HandoffRequest
from segue.store import Store, Topic, leases, owners, sessions, transcripts
from segue.store.leases import Pause
from segue.store.release_requests import ReleaseRequest
from segue.terminal import departure, web_page
from segue.terminal.departure import Departure
from segue.terminal.display import Display
from segue.terminal.location import address, holder
from segue.turns import HeldLease, Place, Turns, hold, queries
from segue.turns.queries import AsideReport

_FOLLOW = 0.5
_STOPPED = "The agent was working on it here, and was stopped."
_CUT_OFF = (
    "The agent was interrupted before it had answered your last message. Type /retry to send it"
    " again, or go on."
)
_REPORTS = 5.0
"""Seconds between two looks for reports of jobs, if no wake-up comes."""
_REPORT_LENGTH = 200
_SHOWN_TURNS = 3
"""How many exchanges a resumed session shows."""
_SHOWN_MESSAGES = 40
"""How many messages to search for them."""


class Conversation:
    """The context in which commands run, and the holder of the session."""

    where = Where.TERMINAL

    def __init__(
        self, store: Store, settings: Settings, turns: Turns, display: Display, cwd: Path
    ) -> None:
        self.store = store
        self._settings = settings
        self.turns = turns
        self.owner = ME
        self.session: Session | None = None
        self.interrupt: asyncio.Event | None = None
        """Set it to stop the current turn or wait. None if nothing is running."""
        self._display = display
        self._cwd = cwd
        self.title: str | None = None
        """The title of the session that the first message starts."""
        self._held: HeldLease | None = None
        self._hold = AsyncExitStack()
        self._handed_off: HeldLease | None = None
        """The hold of the session that was handed off from here, which is not news when lost."""
        self._watching: list[asyncio.Task[None]] = []
        self.link: str | None = None
        """A link that opens the session where it was handed off to, if there is one."""
        self._left = False
        self._farewell = ""
        self.closing = False
        """Set it when the program ends: a paused turn is not continued then."""
        self.is_following = False
        """Whether it shows a session that is elsewhere. Any input ends that."""
        self.has_failed = False
        """Whether a turn or a command has failed."""
        self.departure: Departure | None = None
        """How to leave in the middle of the running turn. None if no turn runs."""
        self._beginning = asyncio.Lock()
        self._doing = asyncio.Lock()
        """Held while a message or a command is at work, or the session moves."""

    # Start and end

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Release the session on exit."""
        try:
            yield
        finally:
            await self._let_go()

    async def do(self, text: str) -> bool:
        """Send `text` to the agent, or run it as a command. Return False if the user has left."""
        async with self._doing:
            await self._do(text)
            await self._grant()
        return not self._left

    async def _do(self, text: str) -> None:
        try:
            if commands.is_command(text):
                await commands.run(self, text)
            else:
                await self.say(text)
        except UserError as error:
            self.has_failed = True
            await self._display.trouble(error)

    async def hand_off_meanwhile(self, departure: Departure, command: str) -> bool:
        """Run a /handoff that the user typed during the turn of this departure. Return False if the
        turn ended first, so that the command has to be run like any other."""
        async with departure.lock:
            if self.departure is departure:
                await self._do(command)
                return True
        if self.interrupt is None:
            return False
        await self._display.turn_running()  # another handoff is under way
        return True

    def stay(self) -> Coroutine[Any, Any, None] | None:
        """Stay after all, in the middle of a turn. Return the work that is left to do,
        or None if there is nothing to take back."""
        return self.departure.stay() if self.departure else None

    async def stayed(self) -> None:
        """Say that a /handoff was taken back before it began."""
        await self.notice(handoffs.STAYS)

    # The context of commands

    @property
    def zone(self) -> tzinfo:
        return self._settings.zone

    @property
    def place(self) -> Place:
        source = address(self.session.id) if self.session else address()
        context = Context(source=source, cwd=str(self._cwd))
        return Place(context=context, holder=holder(), approve=self._approve)

    async def begun(self) -> Session:
        async with self._beginning:
            if self.session is None:
                await owners.ensure(self.store, ME)
                title = self.title
                cwd = str(self._cwd)
                await self._take(
                    await sessions.create(self.store, ME, Platform.LOCAL, title=title, cwd=cwd)
                )
        return await self._seen()

    @contextlib.asynccontextmanager
    async def in_hand(self) -> AsyncGenerator[HeldLease]:
        yield await self._in_hand()

    async def notice(self, text: str) -> None:
        await self._display.notice(text)

    async def list_commands(self, listed: Sequence[Command]) -> None:
        await self._display.commands(listed)

    async def say(self, message: str | Message | None) -> None:
        departure = Departure(self.store, self._display)
        paused = False
        try:
            self.departure = departure
            while await self._run(message, departure, paused=paused) and not self.closing:
                message = None
                paused = True
                if await self._move_turn(departure):
                    return
            request = await departure.take_request()
        finally:
            self.departure = None
            departure.drop()
        if isinstance(request, HandoffRequest) and not self.closing:
            # The turn was over before its next safe point.
            await self.hand_off(request)

    async def _run(
        self, message: str | Message | None, departure: Departure, *, paused: bool
    ) -> bool:
        """Run the turn, or go on with it if it was paused. Return whether it is paused now."""
        self.interrupt = departure.interrupt = asyncio.Event()
        event = None
        try:
            await self.begun()
            held = await self._in_hand()
            events = self.turns.take_turn(
                held.lease.session_id,
                message,
                self.place,
                held=held,
                interrupt=self.interrupt,
                pause=departure.pause,
                paused=paused,
            )
            async with contextlib.aclosing(events):
                async for event in events:
                    await self._display.event(event)
            if isinstance(event, TurnFailed):
                self.has_failed = True
            if isinstance(event, TurnFailed) and held.moved is not None:
                await self.notice(_STOPPED)
            elif isinstance(event, TurnFailed | TurnInterrupted):
                await leases.pause(self.store, held.lease, Pause.STOPPED)
            await self._seen()
            await self.look_up_model()
        finally:
            self.interrupt = None
            await self._display.rest()
        return isinstance(event, TurnPaused)

    async def _approve(self, call: ToolCall, what: Description, fingerprint: str) -> Answer:
        """Ask the user, and let other places see that the session waits for the answer."""
        lease = (await self._in_hand()).lease
        await leases.pause(self.store, lease, Pause.ASKING)
        answer = await self._display.approve(call, what, fingerprint)
        await leases.pause(self.store, lease, None)
        return answer

    async def _move_turn(self, departure: Departure) -> bool:
        """Hand the session off with its paused turn. Return False if it has to go on here."""
        if (request := await departure.take_request()) is None:
            return False
        self.departure = None
        try:
            if await self._hand_off(request, mid_turn=True):
                return True
        except HandoffError as error:
            await self._display.trouble(error)
        if self.closing:
            return True
        await self.notice("The agent goes on here.")
        self.departure = departure
        return False

    async def fresh(self, title: str | None) -> None:
        former = self.session
        await self._let_go()
        self.title = title
        if title:
            await self.begun()
        if former is not None:
            await self.notice(f"Started a new session. To go back, type /resume {former.name}")

    async def resume(self, session: Session, *, here: bool = False, now: bool = False) -> None:
        if self.session is not None and session.id == self.session.id and self._is_ours():
            await self.notice("This session is already here. /sessions lists the others.")
            return
        try:
            await self._take(session)
        except SessionHeld as held:
            if not await self._take_from(held, session, now=now):
                await self.notice(f"{session.label} stays where it is.")
                return
        await self._welcome(session, here=here)

    async def hand_off(self, request: HandoffRequest, *, lan: bool = False) -> None:
        await self.begun()
        move = self._hand_off if self.departure is None else self._hand_off_soon
        # A turn is not disturbed.
        if request.platform is Platform.WEB and (lan or self.departure is None):
            self._settings = await web_page.decide_on_phones(self.store, self._display, lan=lan)
        try:
            await move(request)
        except NoGateway as missing:
            if await departure.start_gateway(self.store, self._settings, self._display, missing):
                await move(request)

    async def _hand_off_soon(self, request: HandoffRequest) -> None:
        """Move at the next safe point of the running turn. What prevents it is reported now."""
        departure = self.departure
        session = await self._seen()
        if departure is not None:
            async with departure.plan(request):
                await handoffs.destination(self.store, session.id, request)

    async def _hand_off(
        self, request: HandoffRequest | ReleaseRequest, *, mid_turn: bool = False
    ) -> bool:
        """Hand the session off, and return whether it has moved. The program then ends, unless
        another process asked for it."""
        held = await self._in_hand()
        await self._keep_model(held)
        self.interrupt = asyncio.Event()
        steps = handoffs.hand_off(
            self.store, held, request, mid_turn=mid_turn, interrupt=self.interrupt
        )
        moved = False
        try:
            async for progress in steps:
                if isinstance(progress, handoffs.Completed):
                    moved = True
                    self._handed_off = held
                    await self._moved(progress, leaves=isinstance(request, HandoffRequest))
                elif not isinstance(progress, handoffs.Kept):
                    await self._display.progress(progress)
        finally:
            self.interrupt = None
        return moved

    async def _moved(self, done: handoffs.Completed, *, leaves: bool) -> None:
        if not leaves:
            await self._display.went(await handoffs.arrived(self.store, done))
            return
        self._farewell = await handoffs.handed_over(self.store, done)
        self._left = True
        self.link = await web_page.link_to(self.store, done)

    async def _grant(self) -> None:
        """Hand the session off if another process asks for it. No turn runs."""
        held = self._held
        if held is None or held.moved or self._left or self.closing:
            return
        if held.release_request is None:
            return
        try:
            await self._hand_off(held.release_request)
        except UserError as error:
            await self._display.trouble(error)

    async def _keep_model(self, held: HeldLease) -> None:
        """Record the session's model: the gateway may have another default."""
        session = await self._seen()
        if session.model is None:
            with contextlib.suppress(ModelError):  # there is none to keep
                await self.turns.use_model(held, await self.turns.model(session))

    async def follow(self) -> None:
        session = await self._seen()
        if self._is_ours():
            await self.notice("This session is here. /follow shows one that is somewhere else.")
            return
        seen = session.messages
        self.interrupt = asyncio.Event()
        self.is_following = True
        await self.notice("Showing new messages of the session. Type anything, or Ctrl-C to stop.")
        try:
            while not self.interrupt.is_set():
                last = await transcripts.last(self.store, session.id, 50)
                for message in last:
                    if message.seq > seen:
                        await self._display.message(message)
                        seen = message.seq
                await self._seen()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_FOLLOW):
                        await self.interrupt.wait()
        finally:
            self.interrupt = None
            self.is_following = False

    async def leave(self) -> None:
        self._left = True

    async def farewell(self) -> str:
        """Return the last message of the program: how to come back."""
        if self._farewell or self.session is None:
            return self._farewell
        session = await self._seen()
        back = await handoffs.way_back(self.store, session)
        return f"To come back: {back}" if session.messages else ""

    # Holding a session

    async def _take(self, session: Session, *, take_over: bool = False) -> None:
        """Hold `session` here and release the previous one."""
        taking = AsyncExitStack()
        held = await taking.enter_async_context(
            hold(self.store, session.id, holder(), take_over=take_over, address=address(session.id))
        )
        await self._let_go()
        self.session = session
        self._held = held
        self._hold = taking
        self._watching = [
            asyncio.create_task(watch)
            for watch in (self._watch(held), self._heed(held), self._announce(held))
        ]
        await self._seen()

    async def _take_from(self, held: SessionHeld, session: Session, *, now: bool) -> bool:
        """Take a session held elsewhere, and return whether it is here now.

        Waits for the end of the turn that runs there, unless the user wants it at once.
        """
        other = held.fields["holder"]
        if now:
            await self._take(session, take_over=True)
            await self.notice(f"Took over the session from {other}. Work there was interrupted.")
            return True
        if not await departure.is_turn_running(self.store, session.id):
            await self._display.trouble(held)
        elif await self._take_after_turn(session):
            return True
        if not await self._display.ask_whether("Take it over?"):
            return False
        return await self._take_from(held, session, now=True)

    async def _take_after_turn(self, session: Session) -> bool:
        self.interrupt = stop_waiting = asyncio.Event()
        where = f"on {session.address}" if session.address else "elsewhere"
        await self.notice(
            f"The agent is answering {where}. Waiting for it… Ctrl-C to stop waiting."
        )
        asked = await approvals.waiting(self.store, session.id)
        if asked is not None and asked.state is ApprovalState.WAITING:
            what = one_line(asked.what, _REPORT_LENGTH)
            await self.notice(
                f"It waits for your answer to question {asked.id} on {asked.address}: {what}"
            )
        try:
            while await departure.wait_for_turn(self.store, session.id, stop_waiting):
                with contextlib.suppress(SessionHeld):
                    await self._take(session)
                    await self.notice("The answer is complete.")
                    return True
            return False
        finally:
            self.interrupt = None

    async def _let_go(self) -> None:
        for watching in self._watching:
            watching.cancel()
            await asyncio.wait({watching})
        self._watching = []
        self.session = None
        self._display.session = None
        self._held = None
        self._display.moved = False
        await self._hold.aclose()

    async def _watch(self, held: HeldLease) -> None:
        """Notify the user when another process takes the session."""
        await held.lost.wait()
        self._display.moved = True
        with contextlib.suppress(SessionNotFound):
            await self._seen()
        is_news = self.interrupt is None and self._handed_off is not held
        if held.moved is not None and is_news:
            await self._display.lost(held.moved)

    async def _heed(self, held: HeldLease) -> None:
        """Move the session when another process asks for it: at once, or when the agent or a
        command has finished."""
        while True:
            await held.release_request_changed.wait()
            held.release_request_changed.clear()
            if self.departure is not None:
                await self.departure.heed(held.release_request)
            elif not self._doing.locked():
                async with self._doing:
                    await self._grant()

    async def _announce(self, held: HeldLease) -> None:
        """Notify the user of reports of jobs that were sent to a thread of the session, while it is
        open here."""
        session_id = held.lease.session_id
        known: set[int] | None = None
        while True:
            with contextlib.suppress(StoreError):  # the next message reports it
                async with self.store.listen(Topic.JOBS) as wake:
                    while True:
                        reports = await self.store.read(queries.reports_aside, session_id)
                        if known is None:
                            known = {report.no for report in reports if report.is_placed}
                        await self._show_reports([r for r in reports if r.no not in known])
                        known |= {report.no for report in reports}
                        await wake.wait(_REPORTS)
            await asyncio.sleep(_REPORTS)

    async def _show_reports(self, reports: Sequence[AsideReport]) -> None:
        for report in reports:
            said = one_line(report.body, _REPORT_LENGTH)
            await self.notice(f'Job "{report.job}" reported on {report.address}: {said}')

    async def _in_hand(self) -> HeldLease:
        if self._held is None:
            raise NothingSaid
        if self._held.moved is not None:
            raise self._held.moved
        return self._held

    def _is_ours(self) -> bool:
        return self._held is not None and self._held.moved is None

    async def _seen(self) -> Session:
        """Reload and return the session, or raise NothingSaid if there is none."""
        if self.session is None:
            raise NothingSaid
        if (found := await sessions.get(self.store, self.session.id)) is None:
            raise SessionNotFound(name=self.session.name)
        self.session = found
        self._display.session = found
        return found

    async def refresh(self) -> None:
        """Update the status line after a command. It may have changed the title or the model."""
        try:
            with contextlib.suppress(NothingSaid, SessionNotFound):
                await self._seen()
            await self.look_up_model()
        except UserError as error:
            await self._display.trouble(error)

    async def look_up_model(self) -> None:
        """Update the model shown in the status line."""
        try:
            self._display.model = await self.turns.model(self.session)
        except ModelError:
            self._display.model = "no model yet"

    async def model_needed(self) -> str:
        """Return which model answers, or what is needed to have one."""
        try:
            return f"The model is {await self.turns.model(self.session)}."
        except ModelError as error:
            return str(error)

    async def _welcome(self, session: Session, *, here: bool) -> None:
        """Change to the session's directory and show the last exchanges."""
        if session.cwd and not here:
            try:
                os.chdir(session.cwd)
                self._cwd = Path(session.cwd)
            except OSError as error:
                gone = f"The session's directory {session.cwd} cannot be used ({error.strerror})"
                await self.notice(f"{gone}. Staying in {self._cwd}.")
        if self._held is not None and str(self._cwd) != session.cwd:
            await sessions.describe(self.store, self._held.lease, cwd=str(self._cwd))
        await self.look_up_model()
        await self.notice(f"{session.name}, in {self._cwd}")
        last = await transcripts.last(self.store, session.id, _SHOWN_MESSAGES)
        for turn in last.turns(_SHOWN_TURNS):
            await self._display.turn(turn)
        if self._held is not None and await self.store.read(transcripts.is_cut_off, session.id):
            # Until the next message the agent is idle here: no other place shows it as working.
            await leases.pause(self.store, self._held.lease, Pause.STOPPED)
            await self.notice(_CUT_OFF)
