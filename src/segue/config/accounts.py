"""To which account of this machine sockets belong, as Linux says. On other systems, nothing is
known."""

from __future__ import annotations

import os
import pwd
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))

_LISTENS = "0A"


def is_ours(uid: int | None) -> bool:
    return uid == os.getuid()


def name(uid: int) -> str:
    """The name of the account; its number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def listeners(port: int) -> frozenset[int]:
    """The user ids of the accounts whose processes listen on that port, at any address. Empty where
    the system does not say."""
    ending = f":{port:04X}"
    return frozenset(
        one.uid for one in _sockets(port) if one.listens and one.local.endswith(ending)
    )


def holder(port: int) -> int | None:
    """The user id of the account whose process listens on that port: another one than ours, if
    there are several. None where the system does not say."""
    found = listeners(port)
    return next((uid for uid in found if not is_ours(uid)), os.getuid() if found else None)


def is_foreign(peer: tuple[str, int], here: tuple[str, int]) -> bool:
    """Whether the connection from `peer` to `here` was made by a process of another account of this
    machine. False where the system does not say; root can do everything anyway."""
    ends = (_as_in_table(peer), _as_in_table(here))
    uids = {one.uid for one in _sockets(peer[1]) if (one.local, one.remote) == ends}
    return not uids <= {os.getuid(), 0}


class _Socket(NamedTuple):
    """A row of the kernel's table. Addresses are hexadecimal, as the kernel writes them; one of
    IPv4 is written alike, even if an IPv6 socket has it."""

    local: str
    remote: str
    listens: bool
    uid: int


def _sockets(port: int) -> Iterator[_Socket]:
    """Those that have this port at one of their ends; there may be thousands of others."""
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
    """In the order of bytes of this machine."""
    return "".join(f"{word:08X}" for (word,) in struct.iter_unpack("=I", address))


_MAPPED = _words(socket.inet_pton(socket.AF_INET6, "::ffff:0:0")[:12])
"""What precedes an IPv4 address that an IPv6 socket has."""
