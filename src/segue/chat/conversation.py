"""A conversation in the terminal: runs the user's messages and commands one after another."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from segue import commands, handoff
from segue.chat import moves, page_links
from segue.chat.display import Display
from segue.chat.location import address, holder
from segue.commands.base import Command, Where
from segue.config import Settings
from segue.core.address import Platform
from segue.core.context import Context
from segue.core.errors import (
    ModelError,
    NoGateway,
    NothingSaid,
    SessionHeld,
    SessionNotFound,
    UserError,
)
from segue.core.session import ME, Session
from segue.core.transcript import Message
from segue.store import Store
from segue.turns import HeldLease, Place, Turns, hold

_FOLLOW = 0.5


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
        self._watching: asyncio.Task[None] | None = None
        self.link: str | None = None
        """A link that opens the session where it was handed off to, if there is one."""
        self._left = False
        self._farewell = ""

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
        try:
            if commands.is_command(text):
                await commands.run(self, text)
            else:
                await self.say(text)
        except UserError as error:
            await self._display.trouble(error)
        return not self._left

    # The context of commands

    @property
    def place(self) -> Place:
        source = address(self.session.id) if self.session else address()
        context = Context(source=source, cwd=str(self._cwd))
        return Place(context=context, holder=holder(), approve=self._display.approve)

    async def begun(self) -> Session:
        if self.session is None:
            await self.store.owners.ensure(ME)
            title, cwd = self.title, str(self._cwd)
            await self._take(
                await self.store.sessions.create(ME, Platform.LOCAL, title=title, cwd=cwd)
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
        self.interrupt = asyncio.Event()
        try:
            await self.begun()
            held = await self._in_hand()
            events = self.turns.take_turn(
                held.lease.session_id, message, self.place, held=held, interrupt=self.interrupt
            )
            async with contextlib.aclosing(events):
                async for event in events:
                    await self._display.event(event)
            await self._seen()
            await self.look_up_model()
        finally:
            self.interrupt = None
            await self._display.rest()

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
            await self.notice("This session is already here.")
            return
        try:
            await self._take(session)
        except SessionHeld as held:
            if not await self._take_from(held, session, now=now):
                await self.notice(f"{session.name} stays where it is.")
                return
        await self._welcome(session, here=here)

    async def hand_off(self, platform: str) -> None:
        try:
            await self._hand_off(platform)
        except NoGateway as missing:
            if await moves.start_gateway(self.store, self._settings, self._display, missing):
                await self._hand_off(platform)

    async def _hand_off(self, platform: str) -> None:
        held = await self._in_hand()
        self.interrupt = asyncio.Event()
        try:
            steps = handoff.hand_off(self.store, held, platform, interrupt=self.interrupt)
            async for progress in steps:
                if isinstance(progress, handoff.Completed):
                    self._left = True
                    self._farewell = await handoff.handed_over(self.store, progress)
                    self.link = await page_links.link_to(self.store, progress)
                else:
                    await self._display.progress(progress)
        finally:
            self.interrupt = None

    async def follow(self) -> None:
        session = await self._seen()
        seen = session.messages
        self.interrupt = asyncio.Event()
        await self.notice("Showing new messages of the session. Ctrl-C to stop.")
        try:
            while not self.interrupt.is_set():
                last = await self.store.transcripts.last(session.id, 50)
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

    async def leave(self) -> None:
        self._left = True

    async def farewell(self) -> str:
        """Return the last message of the program: how to come back."""
        if self._farewell or self.session is None:
            return self._farewell
        session = await self._seen()
        back = await handoff.way_back(self.store, session)
        return f"To come back: {back}" if session.messages else ""

    # Holding a session

    async def _take(self, session: Session, *, take_over: bool = False) -> None:
        """Hold `session` here and release the previous one."""
        taking = AsyncExitStack()
        held = await taking.enter_async_context(
            hold(self.store, session.id, holder(), take_over=take_over, address=address(session.id))
        )
        await self._let_go()
        self.session, self._held, self._hold = session, held, taking
        self._watching = asyncio.create_task(self._watch(held))
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
        if not await moves.is_turn_running(self.store, session.id):
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
        try:
            while await moves.wait_for_turn(self.store, session.id, stop_waiting):
                with contextlib.suppress(SessionHeld):
                    await self._take(session)
                    await self.notice("The answer is complete.")
                    return True
            return False
        finally:
            self.interrupt = None

    async def _let_go(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        self.session = self._display.session = self._held = self._watching = None
        self._display.moved = False
        await self._hold.aclose()

    async def _watch(self, held: HeldLease) -> None:
        """Notify the user when another process takes the session."""
        await held.lost.wait()
        self._display.moved = True
        if held.moved is not None and self.interrupt is None:
            await self._display.lost(held.moved)

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
        if (found := await self.store.sessions.get(self.session.id)) is None:
            raise SessionNotFound(name=self.session.name)
        self.session = self._display.session = found
        return found

    async def look_up_model(self) -> None:
        """Update the model shown in the status line."""
        try:
            self._display.model = await self.turns.model(self.session)
        except ModelError:
            self._display.model = "no model yet"

    async def _welcome(self, session: Session, *, here: bool) -> None:
        """Change to the session's directory and show a recap."""
        if session.cwd and not here:
            try:
                os.chdir(session.cwd)
                self._cwd = Path(session.cwd)
            except OSError as error:
                gone = f"The session's directory {session.cwd} cannot be used ({error.strerror})"
                await self.notice(f"{gone}. Staying in {self._cwd}.")
        if self._held is not None and str(self._cwd) != session.cwd:
            await self.store.sessions.describe(self._held.lease, cwd=str(self._cwd))
        recap = (await self.store.transcripts.last(session.id, 40)).recap()
        await self.notice("\n".join(filter(None, (f"{session.name}, in {self._cwd}", recap))))
