"""Lets phones in the local network open the page, if the user agrees. The answer is a setting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from segue import config
from segue.config import Settings
from segue.core.address import Platform
from segue.core.errors import NoNetwork, NoPage
from segue.gateway import background
from segue.store import Store, gateways
from segue.store.gateways import GatewayRecord
from segue.terminal import output, page_links
from segue.terminal.display import Display
from segue.web import endpoints

_SETTING = "web.lan"
_CONNECTED = 10.0
"""Seconds that a restarted gateway has to connect to its platforms."""
_WHAT_IT_MEANS = (
    "Phones in the local network can open the web page, too, if you allow it. Only browsers that"
    " open your link get in, but conversations cross the network unencrypted."
)


async def _print(text: str) -> None:
    output.notice(text)


async def decide(store: Store, display: Display, *, lan: bool) -> Settings:
    """Have the page served to phones if the user wants it, and return the settings.

    With `lan`, the user wants it. Otherwise the user is asked, once.
    """
    settings = config.load()
    if lan:
        await let_in(store, display.notice)
    elif await _is_possible(store, settings):
        if config.is_default(_SETTING) and output.is_interactive():
            await display.notice(_WHAT_IT_MEANS)
            wanted = await display.ask_whether("May phones open the page?")
            config.change(_SETTING, [str(wanted).lower()])
        else:
            wanted = settings.web.lan
        if wanted:
            await let_in(store, display.notice)
    return config.load()


async def let_in(store: Store, notice: Callable[[str], Awaitable[None]] = _print) -> None:
    """Remember that phones may open the page, and have the running gateway serve it to them.

    Raise NoPage or NoNetwork if that is impossible.
    """
    settings = config.load()
    if not page_links.is_built_in(settings):
        raise NoPage
    if not endpoints.is_in_network():
        raise NoNetwork
    if not settings.web.lan:
        config.change(_SETTING, ["true"])
    serving = await gateways.serving(store, Platform.WEB)
    if serving is None or _is_reachable(serving):
        return
    await notice("Restarting the gateway, so that phones can open the page…")
    await background.stop(store)
    started = await background.start(store, settings.gateway_log)
    await background.settled(store, started, _CONNECTED)


async def _is_possible(store: Store, settings: Settings) -> bool:
    """Return whether this machine could serve the page to phones, and does not do so yet."""
    if not (page_links.is_built_in(settings) and endpoints.is_in_network()):
        return False
    serving = await gateways.serving(store, Platform.WEB)
    return serving is None or (bool(background.here([serving])) and not _is_reachable(serving))


def _is_reachable(gateway: GatewayRecord) -> bool:
    """Return whether the gateway serves the page at this machine's address in the network."""
    url = endpoints.page_url(gateway)
    return url is not None and urlsplit(url).hostname == endpoints.default_address()
