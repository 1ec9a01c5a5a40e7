"""The built-in page, as the terminal tells of it: who can reach it, and a link that opens it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from segue.chat.output import folded, screen
from segue.chat.render import qr
from segue.config import Settings
from segue.core.address import Platform
from segue.core.session import ME
from segue.core.text import one_line
from segue.handoff import Completed
from segue.store import Store
from segue.store.gateways import Gateway
from segue.store.pairings import SECONDS
from segue.store.processes import whose
from segue.web import links

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
MINUTES = f"{SECONDS / 60:.0f} minutes"
LAN = (
    "Everybody in the local network can reach the page. Only browsers that open a link of yours get"
    " in, but conversations cross the network unencrypted."
)
_HERE_ONLY = (
    "It opens on this machine only. For a phone in the same network, type `segue gateway stop`,"
    " then `segue gateway start --lan`."
)


def is_built_in(settings: Settings) -> bool:
    """Whether a gateway of these settings serves it."""
    given = settings.platforms.get(Platform.WEB)
    return settings.web.enabled and (given is None or not given.enabled)


def url(gateways: Iterable[Gateway]) -> str | None:
    """Where one of them serves it."""
    return next(filter(None, map(links.url, gateways)), None)


def in_lan(url: str) -> bool:
    """Whether other machines can reach it there."""
    return urlsplit(url).hostname not in _LOOPBACK


def reach(*, lan: bool) -> str:
    return "for the whole local network" if lan else "for this machine only"


async def addresses(store: Store, gateways: Iterable[Gateway]) -> tuple[str, ...]:
    """Those in local networks at which one of them serves it."""
    for gateway in gateways:
        if links.url(gateway) and (place := await store.pages.place(whose(gateway.process)[0])):
            return tuple(address for address in place.addresses if address not in _LOOPBACK)
    return ()


def reach_at(addresses: Sequence[str]) -> str:
    """Who can reach a page that is served at these addresses in local networks."""
    at = f", at {' and '.join(addresses)}" if addresses else ""
    return reach(lan=bool(addresses)) + at


async def link_to(store: Store, done: Completed) -> str | None:
    """A link to the conversation that a handoff has opened on the page; None when it went to
    another platform."""
    if done.handoff.platform is not Platform.WEB:
        return None
    return await links.opening(store, ME, done.handoff.thread)


def shown(link: str) -> list[str]:
    """The link as a person is told it, with a drawing of it where there can be one. It stands on a
    line of its own, however long, so that a terminal knows it as a whole."""
    lines = [*qr.on_screen(link), f"Open it within {MINUTES}; the link can be used once:"]
    return [*lines, one_line(link), *([] if in_lan(link) else [here_only()])]


def here_only() -> str:
    """What to say of a link that no phone can open."""
    return folded(_HERE_ONLY, screen())
