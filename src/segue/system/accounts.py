"""The accounts that own sockets on this machine. Linux only; unknown elsewhere."""

from __future__ import annotations

import os
import pwd
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))

_LISTENS = "0A"
# From linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_ANY_STATE = 0xFFFFFFFF
_ANY_COOKIE = b"\xff" * 8
_ENDS_AT = 20
_UID_AT = 80


def is_ours(uid: int | None) -> bool:
    return uid == os.getuid()


def name(uid: int) -> str:
    """Return the name of the account, or its number if it has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def listeners(port: int) -> frozenset[int]:
    """Return the user ids whose processes listen on `port` at any address; empty if unknown."""
    end = f":{port:04X}"
    return frozenset(one.uid for one in _sockets(port) if one.listens and one.local.endswith(end))


def holder(port: int) -> int | None:
    """Return the user id whose process listens on `port`, or None if unknown.

    If several accounts listen, it is one other than ours.
    """
    found = listeners(port)
    return next((uid for uid in found if not is_ours(uid)), os.getuid() if found else None)


def is_foreign(peer: tuple[str, int], here: tuple[str, int]) -> bool:
    """Return whether a process of another account made the connection from `peer` to `here`.

    False if unknown. Root is never foreign, because root can do everything anyway.
    """
    return not connected(peer, here) <= {os.getuid(), 0}


def connected(peer: tuple[str, int], here: tuple[str, int]) -> frozenset[int]:
    """Return the user ids whose processes made the connection from `peer` to `here`, which is one,
    or none if unknown."""
    uid = _connected(peer, here)
    if uid is not None:
        return frozenset({uid})
    ends = (_as_in_table(peer), _as_in_table(here))
    return frozenset(one.uid for one in _sockets(peer[1]) if (one.local, one.remote) == ends)


def _connected(local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """Return the user id of the IPv4 socket with these ends, or None: then look in the table.

    The kernel finds the socket at once, while its table grows with all connections of the machine.
    """
    if sys.platform != "linux":
        return None
    addresses = (socket.inet_aton(end[0]) for end in (local, remote))
    ends = struct.pack("!HH16s16s", local[1], remote[1], *addresses)
    asked = struct.pack("=BBxxI", socket.AF_INET, socket.IPPROTO_TCP, _ANY_STATE)
    asked += ends + struct.pack("=4x8s", _ANY_COOKIE)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.setblocking(False)  # the kernel answers before `send` returns
            kernel.send(struct.pack("=IHHII", 16 + len(asked), _BY_FAMILY, _REQUEST, 0, 0) + asked)
            answer = kernel.recv(4096)
    except OSError:
        return None
    # If there is no such socket, the kernel answers with an error or with a listening socket.
    found = answer[_ENDS_AT : _ENDS_AT + len(ends)] == ends
    return struct.unpack_from("=I", answer, _UID_AT)[0] if found else None


class _Socket(NamedTuple):
    """A row of the kernel's table.

    Addresses are hexadecimal, as the kernel writes them. IPv4 addresses look the same for IPv4 and
    IPv6 sockets.
    """

    local: str
    remote: str
    listens: bool
    uid: int


def _sockets(port: int) -> Iterator[_Socket]:
    """Yield the sockets with this port at one end. The table may contain thousands of others."""
    for table in TABLES:
        try:
            rows = table.read_text().splitlines()
        except OSError:
            continue
        lines = [row for row in rows if f":{port:04X} " in row]
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
    """Return the address as hexadecimal words in this machine's byte order."""
    return "".join(f"{word:08X}" for (word,) in struct.iter_unpack("=I", address))


_MAPPED = _words(socket.inet_pton(socket.AF_INET6, "::ffff:0:0")[:12])
"""The prefix of an IPv4 address on an IPv6 socket."""
