"""A terminal without a screen, in a process that can be killed.

It holds a session, takes turns in it, hands it off and takes it back, with the program's own code.

`python -m tests.crash.terminals` is a fork server for these terminals, because starting Python for
each would take most of the time. For every Birth (a line of JSON) that it reads, it forks a
terminal, which connects to a socket, takes orders there and reports the results.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import msgspec

import segue.store
from segue import config
from segue.core.address import Address, ChatType, Platform
from segue.core.errors import HandoffError, UserError
from segue.core.events import Event, ToolStarted, TurnDone, TurnPaused
from segue.core.session import ME
from segue.handoffs import Failed, HandoffRequest, hand_off
from segue.store import Store, sessions
from segue.turns import HeldLease, Turns, hold
from segue.turns.agents import Agents
from tests.crash import trap


class Birth(msgspec.Struct, frozen=True):
    """A request for another terminal."""

    folder: str
    """The folder with its traps."""
    environment: Mapping[str, str]
    socket: str
    """The socket to connect to."""


class Open(msgspec.Struct, frozen=True, tag=True):
    """Start a session."""

    title: str


class Say(msgspec.Struct, frozen=True, tag=True):
    text: str


class HandOff(msgspec.Struct, frozen=True, tag=True):
    platform: str


class Leave(msgspec.Struct, frozen=True, tag=True):
    """Say something and hand the session off in the middle of the turn, before its tool call."""

    text: str
    platform: str
    late: bool = False
    """Ask for it while the tool runs, and so leave after it."""


class Resume(msgspec.Struct, frozen=True, tag=True):
    session_id: str
    now: bool = False
    """Take the session even if another process holds it."""


Order = Open | Say | HandOff | Leave | Resume


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of an order, or, while `over` is false, its progress."""

    text: str
    over: bool = True
    error: str = ""
    """The name of the error class, if the order failed."""


def here(session_id: str) -> Address:
    return Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session_id)


class Desk:
    def __init__(self, store: Store, turns: Turns) -> None:
        self._store = store
        self._turns = turns
        self._open = contextlib.AsyncExitStack()
        self._held: HeldLease | None = None

    async def do(self, order: Order) -> AsyncGenerator[Told]:
        match order:
            case Open(title):
                session = await sessions.create(self._store, ME, Platform.LOCAL, title=title)
                await self._take(session.id, now=False)
                yield Told(session.id)
            case Resume(session_id, now):
                await self._take(session_id, now=now)
                yield Told(session_id)
            case Say(text):
                held = self._in_hand()
                turn = self._turns.take_turn(held.lease.session_id, text, held=held)
                last = [event async for event in turn][-1]
                yield Told(type(last).__name__, error="" if last == TurnDone() else repr(last))
            case HandOff(platform):
                progress = None
                request = HandoffRequest(Platform(platform))
                async for progress in hand_off(self._store, self._in_hand(), request):
                    yield Told(progress.text(), over=False)
                yield Told(type(progress).__name__)
            case Leave(text, platform, late):
                progress = None
                held = self._in_hand()
                await self._pause(text, held, late=late)
                request = HandoffRequest(Platform(platform))
                try:
                    async for progress in hand_off(self._store, held, request, mid_turn=True):
                        yield Told(progress.text(), over=False)
                except HandoffError as error:
                    await self._continue(held)
                    raise error from None
                if isinstance(progress, Failed) and held.moved is None:
                    await self._continue(held)
                yield Told(type(progress).__name__)

    async def _pause(self, text: str, held: HeldLease, *, late: bool) -> None:
        """Begin a turn, and pause it before its tool call, or after it."""
        pause, events = asyncio.Event(), list[Event]()
        turn = self._turns.take_turn(held.lease.session_id, text, held=held, pause=pause)
        async for event in turn:
            events.append(event)
            if not late or isinstance(event, ToolStarted):
                pause.set()
        assert events[-1] == TurnPaused(), events

    async def _continue(self, held: HeldLease) -> None:
        turn = self._turns.take_turn(held.lease.session_id, None, held=held, paused=True)
        last = [event async for event in turn][-1]
        assert last == TurnDone(), last

    async def close(self) -> None:
        await self._open.aclose()

    async def _take(self, session_id: str, *, now: bool) -> None:
        await self._open.aclose()
        holder = f"a terminal (process {os.getpid()})"
        holding = hold(self._store, session_id, holder, take_over=now, address=here(session_id))
        self._held = await self._open.enter_async_context(holding)

    def _in_hand(self) -> HeldLease:
        assert self._held is not None
        return self._held


async def live(birth: Birth) -> None:
    """Take orders until the connection is closed."""
    trap.install(Path(birth.folder))
    settings = config.load(birth.environment)
    orders, answers = await asyncio.open_unix_connection(birth.socket)

    def tell(told: Told) -> None:
        answers.write(msgspec.json.encode(told) + b"\n")

    async with (
        await segue.store.open(settings.store) as store,
        Turns(store, Agents(store, settings), titles=False) as turns,
    ):
        desk = Desk(store, turns)
        tell(Told(str(os.getpid())))
        while line := await orders.readline():
            try:
                async for told in desk.do(msgspec.json.decode(line, type=Order)):
                    tell(told)
            except UserError as error:
                tell(Told(str(error), error=type(error).__name__))
        await desk.close()


def nursery() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # exited children are reaped automatically
    for line in sys.stdin.buffer:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asyncio.run(live(msgspec.json.decode(line, type=Birth)))
            return


if __name__ == "__main__":
    nursery()
