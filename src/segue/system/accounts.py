"""The accounts that own sockets on this machine. Linux only; unknown elsewhere."""

from __future__ import annotations

import errno
import functools
import os
import pwd
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))

_LOOPBACK = "127.0.0.1"
_LISTENS = "0A"
_CLOSED = "0"
"""The inode of a socket that its process has closed."""
# From linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_ANY_STATE = 0xFFFFFFFF
_ANY_COOKIE = b"\xff" * 8
_ERROR = 2
_TYPE_AT = 4
_ERROR_AT = 16
_STATE_AT = 17
_LISTENING = 10
_ENDS_AT = 20
_OWNER_AT = 80
"""Of the user id and, behind it, the inode."""


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
    or none if unknown or if the process has closed it."""
    found = _connected(peer, here)
    if found is not None:
        return found
    ends = (_as_in_table(peer), _as_in_table(here))
    return frozenset(one.uid for one in _sockets(peer[1]) if (one.local, one.remote) == ends)


def _connected(local: tuple[str, int], remote: tuple[str, int]) -> frozenset[int] | None:
    """Return the user id of the IPv4 socket with these ends, none if it is closed, or None: then
    look in the table.

    The kernel finds the socket at once, while its table grows with all connections of the machine.
    A stranger who connects and resets at once must not make us read the table each time.
    """
    answer = _ask_kernel(local, remote)
    if answer is None:
        return None
    if _is_missing(answer):
        # A kernel that cannot look up any socket gives the same error.
        try:
            return frozenset() if _kernel_answers() else None
        except OSError:  # no more sockets can be opened
            return None
    if answer[_STATE_AT] == _LISTENING:  # found instead of the connection
        return frozenset()
    ends = _ends(local, remote)
    if answer[_ENDS_AT : _ENDS_AT + len(ends)] != ends:  # written as an IPv6 address
        return None
    uid, inode = struct.unpack_from("=II", answer, _OWNER_AT)
    # The kernel says that root owns a socket that its process has closed.
    return frozenset({uid}) if inode else frozenset()


def _ask_kernel(local: tuple[str, int], remote: tuple[str, int]) -> bytes | None:
    """Return what the kernel says of the IPv4 socket with these ends, or None if it says
    nothing."""
    if sys.platform != "linux":
        return None
    asked = struct.pack("=BBxxI", socket.AF_INET, socket.IPPROTO_TCP, _ANY_STATE)
    asked += _ends(local, remote) + struct.pack("=4x8s", _ANY_COOKIE)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.setblocking(False)  # the kernel answers before `send` returns
            kernel.send(struct.pack("=IHHII", 16 + len(asked), _BY_FAMILY, _REQUEST, 0, 0) + asked)
            return kernel.recv(4096)
    except OSError:
        return None


def _ends(local: tuple[str, int], remote: tuple[str, int]) -> bytes:
    addresses = (socket.inet_aton(end[0]) for end in (local, remote))
    return struct.pack("!HH16s16s", local[1], remote[1], *addresses)


def _is_missing(answer: bytes) -> bool:
    """Whether the kernel says that there is no such socket."""
    (kind,) = struct.unpack_from("=H", answer, _TYPE_AT)
    return kind == _ERROR and struct.unpack_from("=i", answer, _ERROR_AT)[0] == -errno.ENOENT


@functools.cache
def _kernel_answers() -> bool:
    """Whether the kernel finds a connection that is there."""
    with socket.create_server((_LOOPBACK, 0)) as server:
        here = server.getsockname()
        with socket.create_connection(here) as made:
            answer = _ask_kernel(made.getsockname(), here)
    return answer is not None and not _is_missing(answer)


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
        for _, local, remote, state, _, _, _, uid, _, inode, *_ in map(str.split, lines):
            if inode == _CLOSED:
                continue
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
