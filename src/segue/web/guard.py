"""Request checks: the server reads only requests from pages that it served itself. Requests under
another host name (DNS rebinding) or from another site are refused before anything reads them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus

from websockets.datastructures import Headers

from segue.core.address import Platform
from segue.store import Store

_PROXIED = frozenset({"via", "forwarded", "cdn-loop"})
"""Headers that reverse proxies and tunnels add, and no browser."""
_PROXIED_PREFIXES = ("x-", "cf-", "cloudfront-", "tailscale-", "incap-")
"""The same: a browser sends no X- header by itself."""
_PROXIED_WORDS = ("proxy", "forwarded", "client-ip")
"""The same, anywhere in the name."""
_OWN_FETCHES = frozenset({"same-origin", "none"})
"""Sec-Fetch-Site of requests from the page itself, and of a URL that the user typed."""


class Refused(Exception):
    """The request is answered with only this status."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


@dataclass(frozen=True, slots=True)
class Visitor:
    """An authenticated browser of an owner."""

    browser: str
    owner: str


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a server."""

    hosts: frozenset[str] = frozenset()
    alias: str = ""
    """A name that users may type. localhost can also mean other addresses, where another program
    could listen, so this name only redirects to the page's address."""
    url: str = ""


def check_names(headers: Headers, names: Collection[str], *, origin: bool) -> str:
    """Return the entry of `names` that the request is for. Raise Refused if it is for another host,
    or comes from another site or through a proxy. With `origin`, the Origin header is required."""
    hosts = headers.get_all("Host")
    if len(hosts) != 1 or hosts[0] not in names:
        raise Refused(HTTPStatus.MISDIRECTED_REQUEST)
    # A proxy for webhooks may rewrite the Host. The page is not for those whom it lets in.
    if _is_proxied(headers):
        raise Refused(HTTPStatus.MISDIRECTED_REQUEST)
    origins = headers.get_all("Origin")
    if len(origins) > 1 or (origin and not origins):
        raise Refused(HTTPStatus.FORBIDDEN)
    # The exact name that the page was opened under; another name of this server does not count.
    if origins and origins[0] != f"http://{hosts[0]}":
        raise Refused(HTTPStatus.FORBIDDEN)
    if not _OWN_FETCHES.issuperset(headers.get_all("Sec-Fetch-Site")):
        raise Refused(HTTPStatus.FORBIDDEN)
    return hosts[0]


def _is_proxied(headers: Headers) -> bool:
    return any(_is_of_proxy(name.lower().replace("_", "-")) for name in headers)


def _is_of_proxy(header: str) -> bool:
    return (
        header in _PROXIED
        or header.startswith(_PROXIED_PREFIXES)
        or any(word in header for word in _PROXIED_WORDS)
    )


async def is_revoked(store: Store, visitor: Visitor) -> bool:
    """Whether the browser no longer belongs to its owner."""
    owner = await store.owners.who(Platform.WEB, visitor.browser)
    return owner is None or owner.id != visitor.owner
