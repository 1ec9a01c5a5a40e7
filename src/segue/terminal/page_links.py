"""The built-in page in the terminal's output: who can reach it, and a link that opens it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from segue.config import Settings
from segue.core.address import Platform
from segue.core.session import ME
from segue.core.text import one_line
from segue.handoffs import Completed
from segue.store import Store, pages
from segue.store.gateways import GatewayRecord
from segue.store.pairings import CODE_SECONDS
from segue.store.processes import whose
from segue.terminal.output import folded, screen
from segue.terminal.render import qr
from segue.web import endpoints

LAN = (
    "Everyone in the local network can reach the web page. Only browsers paired with your link get"
    " in, but conversations cross the network unencrypted."
)
_HERE_ONLY = (
    "The link works on this machine only. To open the page on a phone in the same network, type"
    " `segue pair --lan`."
)


def is_built_in(settings: Settings) -> bool:
    """Return whether a gateway with these settings serves the page."""
    given = settings.platforms.get(Platform.WEB)
    return settings.web.enabled and (given is None or not given.enabled)


def url(gateways: Iterable[GatewayRecord]) -> str | None:
    """Return the URL at which one of the gateways serves the page, or None."""
    return next(filter(None, map(endpoints.page_url, gateways)), None)


def reach(*, lan: bool) -> str:
    return "for the whole local network" if lan else "for this machine only"


async def addresses(store: Store, gateways: Iterable[GatewayRecord]) -> tuple[str, ...]:
    """Return the local network addresses at which one of the gateways serves the page."""
    for gateway in gateways:
        if endpoints.page_url(gateway) and (
            place := await pages.place(store, whose(gateway.process)[0])
        ):
            return tuple(filter(endpoints.is_private, place.addresses))
    return ()


def reach_at(addresses: Sequence[str]) -> str:
    """Describe who can reach a page served at these local network addresses."""
    at = f", at {' and '.join(addresses)}" if addresses else ""
    return reach(lan=bool(addresses)) + at


async def link_to(store: Store, done: Completed) -> str | None:
    """Return a link to the conversation on the page, or None if it went to another platform."""
    if done.handoff.platform is not Platform.WEB:
        return None
    return await endpoints.page_link(store, ME, done.handoff.thread)


def shown(link: str) -> list[str]:
    """Return the lines that show the link, with a QR code if a phone can open it.

    The link has its own line, however long, so that a terminal recognises it as a whole.
    """
    how = f"Open this link within {CODE_SECONDS / 60:.0f} minutes. It works once:"
    return [
        *qr.on_screen(link),
        how,
        one_line(link),
        *([here_only()] if endpoints.is_local(link) else []),
    ]


def here_only() -> str:
    """Return the hint for a link that a phone cannot open."""
    return folded(_HERE_ONLY, screen())
