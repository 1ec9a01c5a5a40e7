"""Moves that meet a turn: out of the middle of one, and back while one still runs elsewhere.

A session leaves at the turn's next safe point. For a handoff there must be a gateway, which is
started if the user wants it. A session that a gateway still answers in comes back once the answer
is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from segue.config import Settings
from segue.core.address import Platform
from segue.core.errors import NoGateway
from segue.gateway import background
from segue.handoffs import STAYS, HandoffRequest
from segue.store import Store, gateways, leases, release_requests
from segue.store.release_requests import ReleaseRequest
from segue.terminal import web_page
from segue.terminal.display import Display
from segue.terminal.questions import Leaving
from segue.web import endpoints

PATIENCE = 10.0
"""Seconds to wait for a safe point before the user is asked again what to do."""
_POLL_SECONDS = 0.1
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
        await display.trouble(missing)
        if not await _is_wanted(settings, display, platform):
            return False
        await display.notice("Starting a gateway…")
        gateway = await background.start(store, settings.gateway_log)
        await display.notice(f"Started {gateway.name}.")
    await background.settled(store, gateway, _CONNECT_SECONDS)
    return True


async def _is_wanted(settings: Settings, display: Display, platform: Platform) -> bool:
    """Return whether the platform is set up and the user wants a gateway for it."""
    given = settings.platforms.get(platform)
    if given is None or not given.enabled:
        way = _way(platform, known=given is not None)
        await display.notice(f"{platform} is not set up yet either. Type `segue {way}`.")
        return False
    return await display.ask_whether("Start one now?")


def _way(platform: Platform, *, known: bool) -> str:
    """Return the command that sets up the platform."""
    if platform is Platform.WEB:
        return "config set web.enabled true"
    if known:  # but disabled
        return f"config set platforms.{platform}.enabled true"
    return f"setup {platform}"
