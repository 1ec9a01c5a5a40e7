"""The session that is open in the terminal: its lease, and how it is taken from another place."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Coroutine, Generator
from contextlib import AsyncExitStack
from typing import Any

from segue.approvals import queries as approvals
from segue.approvals.queries import ApprovalState
from segue.core.address import Address, ChatType, Platform
from segue.core.errors import NothingSaid, SessionHeld, SessionNotFound, StoreError
from segue.core.session import Session
from segue.core.text import one_line
from segue.store import Store, Topic, gateways, leases, sessions
from segue.terminal.display import Display
from segue.turns import HeldLease, hold, queries

_POLL_SECONDS = 0.1
_REPORTS = 5.0
"""Seconds between two looks for reports of jobs, if no wake-up comes."""
_REPORT_LENGTH = 200


def address(session_id: str = "terminal") -> Address:
    """Return the terminal's address. Each session has one, so many can be open at once."""
    return Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session_id)


def holder(program: str = "a terminal") -> str:
    """Return the name under which this process holds a lease."""
    return f"{program} on {socket.gethostname()} (process {os.getpid()})"


class CurrentWork:
    """What the terminal is doing, so that the user can stop it."""

    def __init__(self) -> None:
        self.interrupt: asyncio.Event | None = None
        """Set it to stop the current turn or wait. None if nothing is running."""
        self.lock = asyncio.Lock()
        """Held while a message or a command is at work, or the session moves."""
        self.is_closing = False
        """Set when the program ends: a paused turn is not continued then."""
        self.has_left = False
        """Whether the user has left, by a command or a handoff."""

    @contextlib.contextmanager
    def interruptible(self) -> Generator[asyncio.Event]:
        """The context of one turn or wait."""
        self.interrupt = asyncio.Event()
        try:
            yield self.interrupt
        finally:
            self.interrupt = None


class OpenSession:
    """The session that is open in this terminal, and its lease."""

    def __init__(self, store: Store, display: Display, work: CurrentWork) -> None:
        self.store = store
        self.work = work
        self.session: Session | None = None
        """The session, as last seen. None before the first message."""
        self.held: HeldLease | None = None
        self.handed_off: HeldLease | None = None
        """The hold of the session that was handed off from here, which is not news when lost."""
        self.watchers: list[Callable[[HeldLease], Coroutine[Any, Any, None]]] = [
            self._watch_lease,
            self._watch_reports,
        ]
        """What runs while a session is held."""
        self._display = display
        self._hold = AsyncExitStack()
        self._watching: list[asyncio.Task[None]] = []

    @property
    def is_ours(self) -> bool:
        return self.held is not None and self.held.moved is None

    def in_hand(self) -> HeldLease:
        """The lease. Raise NothingSaid if there is no session, or the error that says where it
        is."""
        if self.held is None:
            raise NothingSaid
        if self.held.moved is not None:
            raise self.held.moved
        return self.held

    async def reload(self) -> Session:
        """Reload and return the session. Raise NothingSaid if there is none."""
        if self.session is None:
            raise NothingSaid
        if (found := await sessions.get(self.store, self.session.id)) is None:
            raise SessionNotFound(name=self.session.name)
        self.session = found
        self._display.session = found
        return found

    # Take and release

    async def take(self, session: Session, *, take_over: bool = False) -> None:
        """Hold `session` here and release the previous one. Raise SessionHeld if another process
        holds it, unless `take_over` is set."""
        taking = AsyncExitStack()
        held = await taking.enter_async_context(
            hold(self.store, session.id, holder(), take_over=take_over, address=address(session.id))
        )
        await self.release()
        self.session = session
        self.held = held
        self._hold = taking
        self._watching = [asyncio.create_task(watch(held)) for watch in self.watchers]
        await self.reload()

    async def release(self) -> None:
        for watching in self._watching:
            watching.cancel()
            await asyncio.wait({watching})
        self._watching = []
        self.session = None
        self._display.session = None
        self.held = None
        self._display.moved = False
        await self._hold.aclose()

    async def take_from_holder(self, session: Session, refusal: SessionHeld, *, now: bool) -> bool:
        """Take a session that another process holds, and return whether it is here now. Wait for
        the end of the turn that runs there, unless the user wants it at once."""
        if not now:
            if not await is_turn_running(self.store, session.id):
                await self._display.trouble(refusal)
            elif await self._take_after_turn(session):
                return True
            if not await self._display.ask_whether("Take it over?"):
                return False
        await self.take(session, take_over=True)
        other = refusal.fields["holder"]
        await self._display.notice(
            f"Took over the session from {other}. Work there was interrupted."
        )
        return True

    async def _take_after_turn(self, session: Session) -> bool:
        with self.work.interruptible() as stop_waiting:
            where = f"on {session.address}" if session.address else "elsewhere"
            await self._display.notice(
                f"The agent is answering {where}. Waiting for it… Ctrl-C to stop waiting."
            )
            asked = await approvals.waiting(self.store, session.id)
            if asked is not None and asked.state is ApprovalState.WAITING:
                what = one_line(asked.what, _REPORT_LENGTH)
                await self._display.notice(
                    f"It waits for your answer to question {asked.id} on {asked.address}: {what}"
                )
            while await wait_for_turn(self.store, session.id, stop_waiting):
                with contextlib.suppress(SessionHeld):
                    await self.take(session)
                    await self._display.notice("The answer is complete.")
                    return True
            return False

    # While it is held

    async def _watch_lease(self, held: HeldLease) -> None:
        """Notify the user when another process takes the session."""
        await held.lost.wait()
        self._display.moved = True
        with contextlib.suppress(SessionNotFound):
            await self.reload()
        is_news = self.work.interrupt is None and self.handed_off is not held
        if held.moved is not None and is_news:
            await self._display.lost(held.moved)

    async def _watch_reports(self, held: HeldLease) -> None:
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
                            known = {report.no for report in reports if report.is_appended}
                        for report in reports:
                            if report.no not in known:
                                said = one_line(report.body, _REPORT_LENGTH)
                                await self._display.notice(
                                    f'Job "{report.job}" reported on {report.address}: {said}'
                                )
                        known |= {report.no for report in reports}
                        await wake.wait(_REPORTS)
            await asyncio.sleep(_REPORTS)


async def is_turn_running(store: Store, session_id: str) -> bool:
    """Return whether a gateway holds the session, which it does only during a turn."""
    lease = await leases.get(store, session_id)
    alive = await gateways.alive(store) if lease else ()
    return lease is not None and any(gateway.process == lease.process for gateway in alive)


async def wait_for_turn(store: Store, session_id: str, stop_waiting: asyncio.Event) -> bool:
    """Wait until the session is free. Return False if `stop_waiting` is set first."""
    while not stop_waiting.is_set():
        if await leases.get(store, session_id) is None:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_SECONDS):
                await stop_waiting.wait()
    return False
