"""The network of the machine, as the program sees it: the same on every machine that runs the
tests."""

from __future__ import annotations

import atexit
import contextlib
import socket
from collections.abc import Generator

from segue.web.endpoints import LOOPBACK
from tests.program import constants

ADDRESS = "127.0.0.2"
"""The machine's address in the local network LAN."""


def _default() -> str:
    return ADDRESS


def _is_private(address: str) -> bool:
    return address == ADDRESS


def _loopback() -> str:
    return LOOPBACK


def _environment(default: str) -> dict[str, str]:
    return constants(
        {
            "segue.web.endpoints.default_address": f"{__name__}:{default}",
            "segue.web.endpoints.is_private": f"{__name__}:_is_private",
        }
    )


LAN = _environment("_default")
"""An environment in which the machine is in a local network."""
NONE = _environment("_loopback")
"""An environment in which it is in none."""


@contextlib.contextmanager
def reserved_port() -> Generator[int]:
    """Reserve a port.

    The kernel assigns it to no other process, but it can be listened on by number.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


_PORTS = contextlib.ExitStack()
atexit.register(_PORTS.close)


def lasting_port() -> int:
    """A port that is reserved until this process ends."""
    return _PORTS.enter_context(reserved_port())
