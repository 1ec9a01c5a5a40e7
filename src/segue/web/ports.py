"""Where the page is served: on the same port after each start, so that open pages find it again,
and only on addresses of this machine or of private networks."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import socket
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

USUAL = range(8790, 8800)
"""Tried in this order where none is set; any other if all of them are taken."""
LOOPBACK = "127.0.0.1"

_LISTENS = "0A"
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Where Linux says to whom sockets belong."""
_GET_ADDRESS = {"linux": 0x8915, "darwin": 0xC0206921}
"""SIOCGIFADDR."""


class PortHeld(Exception):
    """The page cannot be served on its port, and must not move: open pages would meet a stranger
    there."""

    def __init__(self, port: int, holder: int | None) -> None:
        """`holder`: the user id of the account whose process listens there; None if unknown."""
        if holder is None:
            who = "a process whose account is unknown"
        elif _is_ours(holder):
            who = "another program of yours"
        else:
            who = f"the account {_named(holder)}"
        super().__init__(
            f"port {port} is held by {who}. Stop that program, or choose another port:"
            " `segue config set web.port NUMBER`; then open the page with a new link (`segue pair`)"
        )
        self.port = port
        self.is_foreign = holder is not None and not _is_ours(holder)


def bound(
    addresses: Sequence[str], port: int | None, last: int | None = None
) -> list[socket.socket]:
    """Sockets that listen on one port of all these addresses: on `port`, or else on `last`, or else
    on the first of the usual ones that is free. Raise PortHeld when `port` is taken, or `last` is
    by another account or by one that cannot be determined."""
    wanted = last if port is None else port
    if wanted is not None:
        if found := _taken(addresses, wanted):
            return found
        held_by = holder(wanted)
        if port is not None or not _is_ours(held_by):
            raise PortHeld(wanted, held_by)
    for number in (*USUAL, 0):
        if found := _taken(addresses, number):
            return found
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _taken(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """Sockets on that port of all addresses; none when one of them is in use."""
    found: list[socket.socket] = []
    try:
        for address in addresses:
            one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            found.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((address, port))
            one.listen()  # before that, another program could have the same port
            port = one.getsockname()[1]
    except OSError as error:
        for one in found:
            one.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return []
    return found


def holder(port: int) -> int | None:
    """The user id of the account whose process listens on that port: another one than ours, if
    there are several. None where the system does not say."""
    found = {one.uid for one in _sockets() if one.listens and one.local.endswith(f":{port:04X}")}
    return next((uid for uid in found if not _is_ours(uid)), os.getuid() if found else None)


def is_foreign(peer: tuple[str, int], here: tuple[str, int]) -> bool:
    """Whether the connection from `peer` to `here` was made by a process of another account of this
    machine. False where the system does not say; root can do everything anyway."""
    ends = (_as_in_table(peer), _as_in_table(here))
    uids = {one.uid for one in _sockets() if (one.local, one.remote) == ends}
    return not uids <= {os.getuid(), 0}


class _Socket(NamedTuple):
    """A row of the kernel's table. Addresses are hexadecimal, as the kernel writes them; one of
    IPv4 is written alike, even if an IPv6 socket has it."""

    local: str
    remote: str
    listens: bool
    uid: int


def _sockets() -> Iterator[_Socket]:
    for table in TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for _, local, remote, state, _, _, _, uid, *_ in map(str.split, lines):
            yield _Socket(
                local=local.removeprefix(_MAPPED),
                remote=remote.removeprefix(_MAPPED),
                listens=state == _LISTENS,
                uid=int(uid),
            )


def _as_in_table(end: tuple[str, int]) -> str:
    return f"{_words(socket.inet_aton(end[0]))}:{end[1]:04X}"


def _words(address: bytes) -> str:
    """In the order of bytes of this machine."""
    return "".join(f"{word:08X}" for (word,) in struct.iter_unpack("=I", address))


_MAPPED = _words(socket.inet_pton(socket.AF_INET6, "::ffff:0:0")[:12])
"""What precedes an IPv4 address that an IPv6 socket has."""


def _is_ours(uid: int | None) -> bool:
    return uid == os.getuid()


def _named(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"with uid {uid}"


def private_addresses() -> tuple[str, ...]:
    """This machine's own in private networks; the one that it uses by default comes last."""
    default = _default_address()
    found = {address for address in _interface_addresses() if is_private(address)}
    return tuple(sorted(found, key=lambda address: (address == default, IPv4Address(address))))


def is_private(address: str) -> bool:
    """Whether other machines of a local network can reach it, and the internet cannot."""
    parsed = IPv4Address(address)
    return parsed.is_private and not parsed.is_loopback


def _interface_addresses() -> Iterable[str]:
    """The IPv4 address of each network interface, and the default one."""
    yield _default_address()
    get_address = _GET_ADDRESS.get(sys.platform)
    if get_address is None:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", os.fsencode(name))
            try:
                answer = fcntl.ioctl(asking, get_address, request)
            except OSError:  # it has none
                continue
            yield socket.inet_ntoa(answer[20:24])


def _default_address() -> str:
    """This machine's own in the local network; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return LOOPBACK
        return probe.getsockname()[0]
