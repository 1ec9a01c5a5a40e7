"""The page's guard: which requests are read, and which open pages belong to an owner.

Requests under another host name (DNS rebinding) or from another site are refused before anything
reads them. An open page is authenticated: the server proves itself to the page first, then the page
to the server. The page may try several keys: that of the browser, and that of a link. A browser
that is paired uses up a link without being paired again.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus

import msgspec
from starlette.datastructures import Headers

from segue.core.address import Platform, Sender
from segue.core.errors import PairingRefused
from segue.store import Store, owners, pairings
from segue.store.pairings import Credential, ProofExchange
from segue.system import accounts
from segue.web import frames
from segue.web.http import Refused
from segue.web.live import LiveSocket

_PROXIED = frozenset({"via", "forwarded", "cdn-loop"})
"""Headers that reverse proxies and tunnels add, and no browser."""
_PROXIED_PREFIXES = ("x-", "cf-", "cloudfront-", "tailscale-", "incap-")
"""The same: a browser sends no X- header by itself."""
_PROXIED_WORDS = ("proxy", "forwarded", "client-ip")
"""The same, anywhere in the name."""
_OWN_FETCHES = frozenset({"same-origin", "none"})
"""Sec-Fetch-Site of requests from the page itself, and of a URL that the user typed."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """An authenticated browser of an owner."""

    browser: str
    owner: str


@dataclass(frozen=True, slots=True)
class ServerNames:
    """The names of a server."""

    hosts: frozenset[str] = frozenset()
    alias: str = ""
    """A name that users may type. localhost can also mean other addresses, where another program
    could listen, so this name only redirects to the page's address."""
    url: str = ""


def check_names(headers: Headers, names: Collection[str], *, origin: bool) -> str:
    """Return the entry of `names` that the request is for. Raise Refused if it is for another host,
    or comes from another site or through a proxy. With `origin`, the Origin header is required."""
    hosts = headers.getlist("Host")
    if len(hosts) != 1 or hosts[0] not in names:
        raise Refused(HTTPStatus.MISDIRECTED_REQUEST)
    # A proxy for webhooks may rewrite the Host. The page is not for those whom it lets in.
    if any(_is_of_proxy(name.lower().replace("_", "-")) for name in headers):
        raise Refused(HTTPStatus.MISDIRECTED_REQUEST)
    origins = headers.getlist("Origin")
    if len(origins) > 1 or (origin and not origins):
        raise Refused(HTTPStatus.FORBIDDEN)
    # The exact name that the page was opened under; another name of this server does not count.
    if origins and origins[0] != f"http://{hosts[0]}":
        raise Refused(HTTPStatus.FORBIDDEN)
    if not _OWN_FETCHES.issuperset(headers.getlist("Sec-Fetch-Site")):
        raise Refused(HTTPStatus.FORBIDDEN)
    return hosts[0]


def _is_of_proxy(header: str) -> bool:
    return (
        header in _PROXIED
        or header.startswith(_PROXIED_PREFIXES)
        or any(word in header for word in _PROXIED_WORDS)
    )


async def is_revoked(store: Store, visitor: Visitor) -> bool:
    """Whether the browser no longer belongs to its owner."""
    owner = await owners.who(store, Platform.WEB, visitor.browser)
    return owner is None or owner.id != visitor.owner


_KEYS = 4
"""Keys that a page may try on one connection."""

_said = msgspec.json.Decoder(frames.Greet | frames.Prove)
_encoder = msgspec.json.Encoder()

logger = logging.getLogger(__name__)


class NotProven(Exception):
    """The page did not prove that it belongs to an owner."""


async def admit(store: Store, socket: LiveSocket, origin: str, browser_name: str) -> Visitor:
    """Return the authenticated browser, or raise NotProven. A link pairs the browser."""
    for _ in range(_KEYS):
        greeting = await _received(socket)
        if not isinstance(greeting, frames.Greet):
            raise NotProven
        if credential := await pairings.credential(store, greeting.key, origin):
            _check_account(socket)
            exchange = ProofExchange(
                origin=origin, browser_nonce=greeting.nonce, server_nonce=secrets.token_hex(32)
            )
            proven = await _prove_each_other(socket, exchange, credential)
            if not credential.is_link:
                if proven.link is not None:
                    await _use_up(store, exchange, proven.link, credential.owner)
                return Visitor(greeting.key, credential.owner)
            if visitor := await _paired(store, greeting.key, exchange, credential, browser_name):
                return visitor
        await _send(socket, frames.Unknown())
    raise NotProven


def _check_account(socket: LiveSocket) -> None:
    """Refuse a process of another account: it could relay between the owner's browser and us."""
    if accounts.is_foreign(socket.peer, socket.here):
        logger.warning("page connection refused: made by another account of this machine")
        raise NotProven


async def _paired(
    store: Store, key: str, exchange: ProofExchange, link: Credential, name: str
) -> Visitor | None:
    """Pair the browser. Return None if another browser used the link first."""
    browser, secret = exchange.new_browser(link.secret)
    sender = Sender(platform=Platform.WEB, user_id=browser, name=name)
    try:
        await pairings.admit(store, key, sender, secret, exchange.origin)
    except PairingRefused:
        return None
    return Visitor(browser, link.owner)


async def _use_up(
    store: Store, exchange: ProofExchange, link: frames.LinkProof, owner: str
) -> None:
    """Use up a link of the browser's owner. One of another owner stays valid: a browser never
    changes its owner."""
    credential = await pairings.credential(store, link.key, exchange.origin)
    if credential is None or not credential.is_link or credential.owner != owner:
        return
    _check_proof(link.proof, exchange, credential)
    await pairings.use_link(store, link.key)


async def _prove_each_other(
    socket: LiveSocket, exchange: ProofExchange, credential: Credential
) -> frames.Prove:
    ours = exchange.server_proof(credential.secret)
    await _send(socket, frames.Proof(nonce=exchange.server_nonce, proof=ours))
    answer = await _received(socket)
    if not isinstance(answer, frames.Prove):
        raise NotProven
    _check_proof(answer.proof, exchange, credential)
    return answer


def _check_proof(proof: str, exchange: ProofExchange, credential: Credential) -> None:
    if not hmac.compare_digest(proof, exchange.browser_proof(credential.secret)):
        raise NotProven


async def _received(socket: LiveSocket) -> frames.Greet | frames.Prove:
    frame = await socket.receive()
    if isinstance(frame, bytes):
        raise NotProven
    try:
        return _said.decode(frame)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise NotProven from error


async def _send(socket: LiveSocket, told: frames.Tell) -> None:
    await socket.send(_encoder.encode(told).decode())
