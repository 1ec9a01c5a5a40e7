"""The links that open the page: each lets one browser in, once, and may lead to a conversation."""

from __future__ import annotations

from segue.core.address import Address, Platform
from segue.store import Store
from segue.store.gateways import Gateway, Link
from segue.store.pairings import SECONDS

_FORM = "/#t={code}"
"""How the page's pairing link ends. What stands behind the # is never sent to any server."""


def url(gateway: Gateway | None) -> str | None:
    """Where that gateway serves the built-in page; None when it does not, or not yet."""
    health = gateway.links.get(Platform.WEB) if gateway else None
    if health is None or health.state is Link.DOWN or health.link is None:
        return None
    if not health.link.endswith(_FORM):
        return None
    return health.link.removesuffix(_FORM)


async def opening(
    store: Store, owner: str, at: Address | None = None, *, seconds: float = SECONDS
) -> str | None:
    """A link that makes the first browser to open it that owner's, and shows the conversation at
    that address; a browser that is the owner's already needs nothing but the second. None when no
    gateway serves the page."""
    gateway = await store.gateways.serving(Platform.WEB)
    page = url(gateway)
    if gateway is None or page is None:
        return None
    conversation = f"&c={at.thread_id}" if at and at.thread_id else ""
    token = await store.pages.link(owner, process=gateway.process, seconds=seconds)
    return page + _FORM.format(code=token) + conversation
