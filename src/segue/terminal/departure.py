"""How a session leaves the terminal, also in the middle of a turn.

It then leaves at the turn's next safe point. For a handoff there must be a gateway, which is
started if the user wants it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from segue import handoffs
from segue.config import Settings
from segue.core.address import Platform
from segue.core.errors import HandoffError, ModelError, NoGateway, UserError
from segue.gateway import background
from segue.handoffs import STAYS, Completed, HandoffRequest, Kept
from segue.store import Store, release_requests
from segue.store.release_requests import ReleaseRequest
from segue.terminal import web_page
from segue.terminal.display import Display
from segue.terminal.open_session import OpenSession
from segue.terminal.questions import Leaving
from segue.turns import HeldLease, Turns
from segue.web import endpoints

PATIENCE = 10.0
"""Seconds to wait for a safe point before the user is asked again what to do."""
_CONNECT_SECONDS = 10.0
"""Seconds that a new gateway has to connect to its platforms before the handoff continues."""


class Departure:
    """The plan to leave while a turn runs. It can be taken back until the session moves."""

    def __init__(self, store: Store, display: Display) -> None:
        self.pause = asyncio.Event()
        """Set while the turn has to stop at its next safe point."""
        self.interrupt = asyncio.Event()
        """Stops the turn at once."""
        self.lock = asyncio.Lock()
        """Held while a command that the user typed during the turn runs."""
        self._request: HandoffRequest | ReleaseRequest | None = None
        """Where the session is to move."""
        self._store = store
        self._display = display
        self._offering: asyncio.Task[None] | None = None

    async def take_request(self) -> HandoffRequest | ReleaseRequest | None:
        """Where to move, or None if the session stays. The plan ends here."""
        async with self.lock:
            request = self._request
            self.drop()
            return request

    @contextlib.asynccontextmanager
    async def plan(self, request: HandoffRequest | ReleaseRequest) -> AsyncGenerator[None]:
        """Pause the turn in order to move there, unless the block, which checks that the session
        can, raises an error or the user stays after all."""
        self.drop()
        self._request = request
        self._display.leaving_for = request.platform
        try:
            yield
        except BaseException:
            self.drop()
            raise
        if self._request is not request:
            return
        asked = "Asked from elsewhere. " if isinstance(request, ReleaseRequest) else ""
        await self._display.notice(
            f"{asked}Moving to {request.platform} as soon as the agent has finished this step."
            " Ctrl-C to stay."
        )
        self.pause.set()
        self._offering = asyncio.create_task(self._offer(request.platform))

    def stay(self) -> Coroutine[Any, Any, None] | None:
        """Stay after all. Return the work that is left to do, or None if the session was not to
        move."""
        request = self._request
        self.drop()
        return None if request is None else self._stay(request)

    async def heed(self, request: ReleaseRequest | None) -> None:
        """Another process asks that the session moves, or no longer does."""
        async with self.lock:
            if request is not None and request.now:  # it has stopped the turn
                await self._display.notice(
                    f"Asked from elsewhere to stop and move to {request.platform}."
                )
            elif request is not None:
                async with self.plan(request):
                    pass
            elif isinstance(self._request, ReleaseRequest):
                self.drop()
                await self._display.notice(STAYS)

    def drop(self) -> None:
        """Forget where to move."""
        self._request = None
        self._display.leaving_for = None
        self.pause.clear()
        if self._offering is not None and self._offering is not asyncio.current_task():
            self._offering.cancel()

    async def _stay(self, request: HandoffRequest | ReleaseRequest) -> None:
        if isinstance(request, ReleaseRequest):
            await release_requests.withdraw(self._store, request.session_id, request.key)
        await self._display.notice(STAYS)

    async def _offer(self, platform: Platform) -> None:
        """Offer other ways to leave for as long as there is no safe point."""
        while True:
            await asyncio.sleep(PATIENCE)
            match await self._display.ask_how_to_leave(platform):
                case Leaving.WAIT:
                    pass
                case Leaving.NOW:
                    self.interrupt.set()
                    return
                case Leaving.STAY:
                    if staying := self.stay():
                        await staying
                    return


class Departures:
    """Moves the open session away: now, at the next safe point of its turn, or because another
    process asks for it."""

    def __init__(
        self, opened: OpenSession, turns: Turns, settings: Settings, display: Display
    ) -> None:
        self.current: Departure | None = None
        """How to leave in the middle of the running turn. None if no turn runs."""
        self.farewell = ""
        """Where the session was handed off to, for the end of the program."""
        self.link: str | None = None
        """A link that opens the session there, if there is one."""
        self._opened = opened
        self._store = opened.store
        self._work = opened.work
        self._turns = turns
        self._settings = settings
        self._display = display
        opened.watchers.append(self._heed)

    async def hand_off(self, request: HandoffRequest, *, lan: bool) -> None:
        """Hand the session off, as the user asks. Start a gateway if there is none."""
        is_in_turn = self.current is not None
        if request.platform is Platform.WEB and (lan or not is_in_turn):  # a turn is not disturbed
            self._settings = await web_page.decide_on_phones(self._store, self._display, lan=lan)
        move = self._plan if is_in_turn else self._move
        try:
            await move(request)
        except NoGateway as missing:
            if await start_gateway(self._store, self._settings, self._display, missing):
                await move(request)

    async def _plan(self, request: HandoffRequest) -> None:
        """Move at the next safe point of the running turn. What prevents it is reported now."""
        departure = self.current
        session = await self._opened.reload()
        if departure is not None:
            async with departure.plan(request):
                await handoffs.destination(self._store, session.id, request)

    async def _move(
        self, request: HandoffRequest | ReleaseRequest, *, mid_turn: bool = False
    ) -> bool:
        """Hand the session off, and return whether it has moved. The program then ends, unless
        another process asked for it."""
        held = self._opened.in_hand()
        await self._record_model(held)
        moved = False
        with self._work.interruptible() as interrupt:
            steps = handoffs.hand_off(
                self._store, held, request, mid_turn=mid_turn, interrupt=interrupt
            )
            async for progress in steps:
                if isinstance(progress, Completed):
                    moved = True
                    self._opened.handed_off = held
                    await self._moved(request, progress)
                elif not isinstance(progress, Kept):
                    await self._display.progress(progress)
        return moved

    async def _record_model(self, held: HeldLease) -> None:
        """Record the session's model: the gateway may have another default."""
        session = await self._opened.reload()
        if session.model is None:
            with contextlib.suppress(ModelError):  # there is none to record
                await self._turns.use_model(held, await self._turns.model(session))

    async def _moved(self, request: HandoffRequest | ReleaseRequest, done: Completed) -> None:
        if isinstance(request, ReleaseRequest):
            await self._display.went(await handoffs.arrived(self._store, done))
            return
        self.farewell = await handoffs.handed_over(self._store, done)
        self._work.has_left = True
        self.link = await web_page.link_to(self._store, done)

    # During a turn

    async def move_turn(self, departure: Departure) -> bool:
        """Hand the session off with its paused turn. Return False if it has to go on here."""
        if (request := await departure.take_request()) is None:
            return False
        self.current = None
        try:
            if await self._move(request, mid_turn=True):
                return True
        except HandoffError as error:
            await self._display.trouble(error)
        if self._work.is_closing:
            return True
        await self._display.notice("The agent goes on here.")
        self.current = departure
        return False

    def stay(self) -> Coroutine[Any, Any, None] | None:
        """Stay after all, in the middle of a turn. Return the work that is left to do, or None if
        the session was not to move."""
        return self.current.stay() if self.current else None

    async def stayed(self) -> None:
        """Say that a /handoff was taken back before it began."""
        await self._display.notice(STAYS)

    # Requests of other processes

    async def _heed(self, held: HeldLease) -> None:
        """Move the session when another process asks for it: at once, or when the agent or a
        command has finished."""
        while True:
            await held.release_request_changed.wait()
            held.release_request_changed.clear()
            if self.current is not None:
                await self.current.heed(held.release_request)
            elif not self._work.lock.locked():
                async with self._work.lock:
                    await self.grant()

    async def grant(self) -> None:
        """Hand the session off if another process asks for it. No turn runs."""
        held = self._opened.held
        if held is None or held.moved or held.release_request is None:
            return
        if self._work.has_left or self._work.is_closing:
            return
        try:
            await self._move(held.release_request)
        except UserError as error:
            await self._display.trouble(error)


async def start_gateway(
    store: Store, settings: Settings, display: Display, missing: NoGateway
) -> bool:
    """Report that a gateway is missing, and start one. Return whether there is one now.

    The user is asked first, except for the built-in page, which needs no setup.
    """
    platform = Platform(str(missing.fields["platform"]))
    if platform is Platform.WEB and web_page.is_built_in(settings):
        reach = web_page.reach(lan=settings.web.lan and endpoints.is_in_network())
        await display.notice(
            f"No gateway is running. Starting one. It serves the web page, {reach}."
        )
        gateway = await background.start(store, settings.gateway_log)
    else:
        if steps := _set_up_steps(settings, platform):
            await display.trouble(
                HandoffError(
                    f"No gateway is running, and {platform} is not set up yet. In another terminal,"
                    f" type {steps}. Then type /handoff {platform} here again."
                )
            )
            return False
        await display.trouble(missing)
        if not await display.ask_whether("Start one now?"):
            return False
        await display.notice("Starting a gateway…")
        gateway = await background.start(store, settings.gateway_log)
        await display.notice(f"Started {gateway.name}.")
    await background.until_connected(store, gateway, _CONNECT_SECONDS)
    return True


def _set_up_steps(settings: Settings, platform: Platform) -> str:
    """Return what to type to set the platform up and start a gateway, or "" if it is set up."""
    given = settings.platforms.get(platform)
    if given is not None and given.enabled:
        return ""
    if platform is Platform.WEB:
        return "`segue config set web.enabled true`, then `segue gateway start`"
    if given is not None:  # but disabled
        return f"`segue config set platforms.{platform}.enabled true`, then `segue gateway start`"
    return f"`segue setup {platform}`, which also starts a gateway"
