"""The network of the machine, as the program sees it: the same on every machine that runs the
tests."""

from __future__ import annotations

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
