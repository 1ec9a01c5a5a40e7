"""A conversation in the terminal: runs the user's messages and commands one after another."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Sequence
from datetime import tzinfo
from pathlib import Path

from segue import commands, handoffs
from segue.commands.base import Command, Where
from segue.config import Settings
from segue.core.address import Platform
from segue.core.approval import Answer, Description
from segue.core.context import Context
from segue.core.errors import (
    ModelError,
    NothingSaid,
    SessionHeld,
    SessionNotFound,
    UserError,
)
from segue.core.events import TurnFailed, TurnInterrupted, TurnPaused
from segue.core.session import ME, Session
from segue.core.transcript import Message, ToolCall
from segue.handoffs import HandoffRequest
from segue.store import Store, leases, owners, sessions, transcripts
from segue.store.leases import Pause
from segue.terminal.departure import Departure, Departures
from segue.terminal.display import Display
from segue.terminal.open_session import CurrentWork, OpenSession, address, holder
from segue.turns import HeldLease, Place, Turns

_FOLLOW = 0.5
_STOPPED = "The agent was working on it here, and was stopped."
_CUT_OFF = (
    "The agent was interrupted before it had answered your last message. Type /retry to send it"
    " again, or go on."
)
_SHOWN_TURNS = 3
"""How many exchanges a resumed session shows."""
_SHOWN_MESSAGES = 40
"""How many messages to search for them."""


class Conversation:
    """The context in which commands run. It runs the turns of the session that is open here."""

    where = Where.TERMINAL

    def __init__(
        self, store: Store, settings: Settings, turns: Turns, display: Display, cwd: Path
    ) -> None:
        self.store = store
        self.turns = turns
        self.owner = ME
        self.title: str | None = None
        """The title of the session that the first message starts."""
        self.has_failed = False
        """Whether a turn or a command has failed."""
        self.is_following = False
        """Whether it shows a session that is elsewhere. Any input ends that."""
        self.work = CurrentWork()
        self._opened = OpenSession(store, display, self.work)
        self.departures = Departures(self._opened, turns, settings, display)
        self._settings = settings
        self._display = display
        self._cwd = cwd
        self._beginning = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Release the session on exit."""
        try:
            yield
        finally:
            await self._opened.release()

    async def do(self, text: str) -> bool:
        """Send `text` to the agent, or run it as a command. Return False if the user has left."""
        async with self.work.lock:
            await self._do(text)
            await self.departures.grant()
        return not self.work.has_left

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
            if self.departures.current is departure:
                await self._do(command)
                return True
        if self.work.interrupt is None:
            return False
        await self._display.turn_running()  # another handoff is under way
        return True

    async def farewell(self) -> str:
        """Return the last message of the program: how to come back."""
        if self.departures.farewell or self.session is None:
            return self.departures.farewell
        session = await self._opened.reload()
        back = await handoffs.way_back(self.store, session)
        return f"To come back: {back}" if session.messages else ""

    # The context of commands

    @property
    def zone(self) -> tzinfo:
        return self._settings.zone

    @property
    def session(self) -> Session | None:
        return self._opened.session

    @property
    def place(self) -> Place:
        source = address(self.session.id) if self.session else address()
        context = Context(source=source, cwd=str(self._cwd))
        return Place(context=context, holder=holder(), approve=self._approve)

    async def begun(self) -> Session:
        async with self._beginning:
            if self.session is None:
                await owners.ensure(self.store, ME)
                cwd = str(self._cwd)
                session = await sessions.create(
                    self.store, ME, Platform.LOCAL, title=self.title, cwd=cwd
                )
                await self._opened.take(session)
        return await self._opened.reload()

    @contextlib.asynccontextmanager
    async def in_hand(self) -> AsyncGenerator[HeldLease]:
        yield self._opened.in_hand()

    async def notice(self, text: str) -> None:
        await self._display.notice(text)

    async def list_commands(self, listed: Sequence[Command]) -> None:
        await self._display.commands(listed)

    async def fresh(self, title: str | None) -> None:
        former = self.session
        await self._opened.release()
        self.title = title
        if title:
            await self.begun()
        if former is not None:
            await self.notice(f"Started a new session. To go back, type /resume {former.name}")

    async def hand_off(self, request: HandoffRequest, *, lan: bool = False) -> None:
        await self.begun()
        await self.departures.hand_off(request, lan=lan)

    async def leave(self) -> None:
        self.work.has_left = True

    # Turns

    async def say(self, message: str | Message | None) -> None:
        departure = Departure(self.store, self._display)
        try:
            self.departures.current = departure
            is_paused = await self._run(message, departure, paused=False)
            while is_paused and not self.work.is_closing:
                if await self.departures.move_turn(departure):
                    return
                is_paused = await self._run(None, departure, paused=True)
            request = await departure.take_request()
        finally:
            self.departures.current = None
            departure.drop()
        if isinstance(request, HandoffRequest) and not self.work.is_closing:
            # The turn was over before its next safe point.
            await self.hand_off(request)

    async def _run(
        self, message: str | Message | None, departure: Departure, *, paused: bool
    ) -> bool:
        """Run the turn, or go on with it if it was paused. Return whether it is paused now."""
        event = None
        with self.work.interruptible() as interrupt:
            departure.interrupt = interrupt
            try:
                await self.begun()
                held = self._opened.in_hand()
                events = self.turns.take_turn(
                    held.lease.session_id,
                    message,
                    self.place,
                    held=held,
                    interrupt=interrupt,
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
                await self._opened.reload()
                await self.look_up_model()
            finally:
                self.work.interrupt = None
                await self._display.rest()
        return isinstance(event, TurnPaused)

    async def _approve(self, call: ToolCall, what: Description, fingerprint: str) -> Answer:
        """Ask the user, and let other places see that the session waits for the answer."""
        lease = self._opened.in_hand().lease
        await leases.pause(self.store, lease, Pause.ASKING)
        answer = await self._display.approve(call, what, fingerprint)
        await leases.pause(self.store, lease, None)
        return answer

    # Other sessions

    async def resume(self, session: Session, *, here: bool = False, now: bool = False) -> None:
        """Move that session here. With `here`, stay in this directory. With `now`, do not wait for
        the end of a turn that runs elsewhere."""
        is_open = self.session is not None and session.id == self.session.id
        if is_open and self._opened.is_ours:
            await self.notice("This session is already here. /sessions lists the others.")
            return
        try:
            await self._opened.take(session)
        except SessionHeld as refusal:
            with self._display.awaiting(session):
                is_here = await self._opened.take_from_holder(session, refusal, now=now)
            if not is_here:
                begun = " This is a new session." if self.session is None else ""
                await self.notice(f"{session.label} stays where it is.{begun}")
                return
        await self._welcome(session, here=here)

    async def _welcome(self, session: Session, *, here: bool) -> None:
        """Change to the session's directory and show the last exchanges."""
        if session.cwd and not here:
            try:
                os.chdir(session.cwd)
                self._cwd = Path(session.cwd)
            except OSError as error:
                gone = f"The session's directory {session.cwd} cannot be used ({error.strerror})"
                await self.notice(f"{gone}. Staying in {self._cwd}.")
        held = self._opened.held
        if held is not None and str(self._cwd) != session.cwd:
            await sessions.describe(self.store, held.lease, cwd=str(self._cwd))
        await self.look_up_model()
        await self.notice(f"{session.name}, in {self._cwd}")
        last = await transcripts.last(self.store, session.id, _SHOWN_MESSAGES)
        for turn in last.turns(_SHOWN_TURNS):
            await self._display.turn(turn)
        if held is not None and await self.store.read(transcripts.is_cut_off, session.id):
            # Until the next message the agent is idle here: no other place shows it as working.
            await leases.pause(self.store, held.lease, Pause.STOPPED)
            await self.notice(_CUT_OFF)

    async def follow(self) -> None:
        session = await self._opened.reload()
        if self._opened.is_ours:
            await self.notice("This session is here. /follow shows one that is somewhere else.")
            return
        seen = session.messages
        with self.work.interruptible() as interrupt:
            self.is_following = True
            try:
                await self.notice(
                    "Showing new messages of the session. Type anything, or Ctrl-C to stop."
                )
                while not interrupt.is_set():
                    last = await transcripts.last(self.store, session.id, 50)
                    for message in last:
                        if message.seq > seen:
                            await self._display.message(message)
                            seen = message.seq
                    await self._opened.reload()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_FOLLOW):
                            await interrupt.wait()
            finally:
                self.is_following = False

    # The status line

    async def refresh(self) -> None:
        """Update the status line after a command. It may have changed the title or the model."""
        try:
            with contextlib.suppress(NothingSaid, SessionNotFound):
                await self._opened.reload()
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
