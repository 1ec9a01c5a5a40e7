"""Waits for a turn that runs elsewhere, and starts a gateway for a handoff if there is none."""

from __future__ import annotations

import asyncio
import contextlib

from segue.config import Settings
from segue.core.address import Platform
from segue.core.errors import NoGateway
from segue.gateway import background
from segue.store import Store, gateways, leases
from segue.terminal import page_links
from segue.terminal.display import Display
from segue.web import endpoints

_POLL_SECONDS = 0.1
_CONNECTED = 10.0
"""Seconds that a new gateway has to connect to its platforms before the handoff continues."""


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
    if platform is Platform.WEB and page_links.is_built_in(settings):
        reach = page_links.reach(lan=settings.web.lan and endpoints.is_in_network())
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
    await background.settled(store, gateway, _CONNECTED)
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
