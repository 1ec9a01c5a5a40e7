"""Where the page is: the addresses and the port that it is served on, and the links that open it.

The server listens on the private addresses of this machine, on a port that stays the same across
restarts, so that open pages reconnect. A link pairs one browser, once, and may point to a
conversation.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from segue.core.address import Address, Platform
from segue.store import Store, gateways, pairings
from segue.store.gateways import GatewayRecord, LinkState
from segue.store.pairings import CODE_SECONDS
from segue.system import accounts

LOOPBACK = "127.0.0.1"
USUAL = range(8790, 8800)
"""Tried in this order if no port is set; then any free port."""

_GET_ADDRESS = {"linux": 0x8915, "darwin": 0xC0206921}
"""SIOCGIFADDR."""


class PortHeld(Exception):
    """The page's port is taken. If the page moved, open pages would connect to a stranger there."""

    def __init__(self, port: int, holder: int | None) -> None:
        """`holder` is the user id of the account that listens there; None if unknown."""
        self.is_ours = accounts.is_ours(holder)
        self.is_foreign = holder is not None and not self.is_ours
        if holder is None:
            who = "a process whose account is unknown"
        elif self.is_ours:
            who = "another program of yours"
        else:
            who = f"the account {accounts.name(holder)} (uid {holder})"
        self.port = port
        self.reason = f"port {port} is held by {who}"
        super().__init__(
            f"{self.reason}. Stop that program, or choose another port:"
            " `segue config set web.port NUMBER`; then open the page with a new link (`segue pair`)"
        )


class BoundPort(NamedTuple):
    """A port of this machine."""

    sockets: list[socket.socket]
    """One for each address."""
    held: PortHeld | None = None
    """Why it is not the port that was wanted first, or None if it is."""


def bound(addresses: Sequence[str], port: int | None, last: int | None = None) -> BoundPort:
    """Listen on one port of all addresses: on `port`, else on `last`, else on the first free one of
    USUAL. Raise PortHeld if `port` is taken, or `last` by another or an unknown account."""
    wanted = last if port is None else port
    held: PortHeld | None = None
    if wanted is not None:
        if found := _taken(addresses, wanted):
            return BoundPort(found)
        held = PortHeld(wanted, accounts.holder(wanted))
        if port is not None or not held.is_ours:
            raise held
    for number in (*USUAL, 0):
        if found := _taken(addresses, number):
            return BoundPort(found, held)
        held = held or PortHeld(number, accounts.holder(number))
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _taken(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """Sockets on that port of all addresses, or an empty list if it is in use on one of them."""
    found: list[socket.socket] = []
    try:
        for address in addresses:
            # asyncio sets TCP_NODELAY only on sockets of this protocol. Without it, the body of a
            # response waits until the client has confirmed the head.
            one = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            found.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((address, port))
            one.listen()  # until then, another program could bind the same port
            port = one.getsockname()[1]
    except OSError as error:
        for one in found:
            one.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return []
    return found


# Addresses


def private_addresses() -> tuple[str, ...]:
    """The machine's private addresses, with the default one last."""
    default = default_address()
    found = {address for address in _interface_addresses() if is_private(address)}
    return tuple(sorted(found, key=lambda address: (address == default, IPv4Address(address))))


def is_in_network() -> bool:
    """Whether other machines in a local network, such as phones, can reach this one."""
    return is_private(default_address())


def is_private(address: str) -> bool:
    """Whether machines in a local network can reach the address, and the internet cannot."""
    parsed = IPv4Address(address)
    return parsed.is_private and not parsed.is_loopback


def _interface_addresses() -> Iterable[str]:
    """The default address, and the IPv4 address of each network interface."""
    yield default_address()
    get_address = _GET_ADDRESS.get(sys.platform)
    if get_address is None:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", os.fsencode(name))
            try:
                answer = fcntl.ioctl(asking, get_address, request)
            except OSError:  # no address on this interface
                continue
            yield socket.inet_ntoa(answer[20:24])


def default_address() -> str:
    """The machine's default address in the local network. Sends nothing to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return LOOPBACK
        return probe.getsockname()[0]


# Links

_PAIRING = "/#t={code}"
"""The end of a pairing link. Browsers never send the part after the # to a server."""
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def is_local(url: str) -> bool:
    """Whether only this machine can open the URL."""
    return urlsplit(url).hostname in _LOOPBACK


def page_url(gateway: GatewayRecord | None) -> str | None:
    """The page's URL on that gateway, or None if it does not serve the page (yet)."""
    health = gateway.links.get(Platform.WEB) if gateway else None
    if health is None or health.state is LinkState.DOWN or health.link is None:
        return None
    if not health.link.endswith(_PAIRING):
        return None
    return health.link.removesuffix(_PAIRING)


def pairing_link(page: str, code: str) -> str:
    """The link that opens the page at that URL, and pairs the browser with `code`."""
    return page + _PAIRING.format(code=code)


async def is_link_used(store: Store, link: str) -> bool:
    """Whether a browser has used the link."""
    token = parse_qs(urlsplit(link).fragment)["t"][0]
    return await pairings.is_link_used(store, token)


async def page_link(
    store: Store, owner: str, at: Address | None = None, *, seconds: float = CODE_SECONDS
) -> str | None:
    """Create a link that shows the conversation at that address, and pairs the first browser that
    opens it unless it is paired already. None if no gateway serves the page."""
    gateway = await gateways.serving(store, Platform.WEB)
    page = page_url(gateway)
    if gateway is None or page is None:
        return None
    conversation = f"&c={at.thread_id}" if at and at.thread_id else ""
    token = await pairings.link(store, owner, process=gateway.process, seconds=seconds)
    return pairing_link(page, token) + conversation
