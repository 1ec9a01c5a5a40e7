"""The accounts whose processes listen on a port of this machine."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

TABLES = Path("/proc/net")
"""Where Linux lists its sockets."""
_LISTENING = "0A"


def accounts(port: int) -> frozenset[str]:
    """Return the names of the accounts that listen on TCP `port`, on any address. Empty if none
    does, or where the system does not say."""
    return frozenset(_name(uid) for uid in _owners(port))


def own() -> str:
    """Return the name of the account that this process belongs to."""
    return _name(os.geteuid())


def _owners(port: int) -> Iterator[int]:
    for table in ("tcp", "tcp6"):
        try:
            _, *sockets = (TABLES / table).read_text().splitlines()
        except (OSError, ValueError):
            continue  # not Linux, or IPv6 is switched off
        for socket in sockets:
            _, local, _, state, _, _, _, uid, *_ = socket.split()
            if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                yield int(uid)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
