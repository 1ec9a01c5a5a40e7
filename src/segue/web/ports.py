"""Where the page is served: the same port after each start, so that open pages find it again."""

from __future__ import annotations

import errno
import socket

USUAL = range(8790, 8800)
"""Tried in this order where none is set; any other if all of them are taken."""


def bound(host: str, port: int | None) -> socket.socket:
    """A socket that listens on that port; without one on the first of the usual that is free."""
    tried = (*USUAL, 0) if port is None else (port,)
    for number in tried:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, number))
            found.listen()  # before that, another program could have the same port
        except OSError as error:
            found.close()
            if error.errno != errno.EADDRINUSE or number == tried[-1]:
                raise
        else:
            return found
    raise AssertionError("there is always a last one")


def own_names() -> tuple[str, ...]:
    """What this machine may be called in the local network."""
    name = socket.gethostname().lower()
    return (own_address(), name, f"{name}.local")


def own_address() -> str:
    """This machine's own in the local network; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return probe.getsockname()[0]
