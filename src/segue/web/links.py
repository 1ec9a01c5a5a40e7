"""Links that open the page. Each pairs one browser, once, and may point to a conversation."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from segue.core.address import Address, Platform
from segue.store import Store
from segue.store.gateways import GatewayRecord, LinkState
from segue.store.pairings import CODE_SECONDS

_FORM = "/#t={code}"
"""The end of a pairing link. Browsers never send the part after the # to a server."""
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def is_local(url: str) -> bool:
    """Whether only this machine can open the URL."""
    return urlsplit(url).hostname in _LOOPBACK


def url(gateway: GatewayRecord | None) -> str | None:
    """The page's URL on that gateway, or None if it does not serve the page (yet)."""
    health = gateway.links.get(Platform.WEB) if gateway else None
    if health is None or health.state is LinkState.DOWN or health.link is None:
        return None
    if not health.link.endswith(_FORM):
        return None
    return health.link.removesuffix(_FORM)


async def is_used(store: Store, link: str) -> bool:
    """Whether a browser has used the link."""
    token = parse_qs(urlsplit(link).fragment)["t"][0]
    return await store.pages.is_link_used(token)


async def opening(
    store: Store, owner: str, at: Address | None = None, *, seconds: float = CODE_SECONDS
) -> str | None:
    """Create a link that shows the conversation at that address, and pairs the first browser that
    opens it unless it is paired already. None if no gateway serves the page."""
    gateway = await store.gateways.serving(Platform.WEB)
    page = url(gateway)
    if gateway is None or page is None:
        return None
    conversation = f"&c={at.thread_id}" if at and at.thread_id else ""
    token = await store.pages.link(owner, process=gateway.process, seconds=seconds)
    return page + _FORM.format(code=token) + conversation
