"""The variables that we read from the environment, and which setting each of them overrules."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from segue.config.values import KEY_VARIABLES
from segue.core.handoff import TARGETS

ENVIRONMENT = "the environment"
"""Where a variable is, for people."""

OVERRULE: Mapping[str, tuple[str, ...]] = {
    "store": ("SEGUE_STORE",),
    "model": ("SEGUE_MODEL",),
    "models_folder": ("SEGUE_MODELS",),
    "gateway_log": ("SEGUE_GATEWAY_LOG",),
    **{f"keys.{provider}": variables for provider, variables in KEY_VARIABLES.items()},
    **{f"platforms.{p}.url": (f"SEGUE_{p.upper()}_URL",) for p in TARGETS},
    **{f"platforms.{p}.token": (f"SEGUE_{p.upper()}_TOKEN",) for p in TARGETS},
}
"""The variables that go before a setting in the file; the first that is set counts."""

VARIABLES = (
    "SEGUE_CONFIG",
    "OPENAI_BASE_URL",
    *(variable for variables in OVERRULE.values() for variable in variables),
    "TZ",
    "VISUAL",
    "EDITOR",
)
"""Everything that we read from the environment."""


def decides(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """The variable that decides the setting `name`, and what is in it; empty when none does."""
    for variable in OVERRULE.get(name, ()):
        if value := environ.get(variable, "").strip():
            return variable, value
    return "", ""


_PASSWORDS = ("PGPASSWORD", "PGPASSFILE")
"""Read by the library that speaks to a PostgreSQL store."""
_PR_SET_DUMPABLE = 4


def secret_names() -> frozenset[str]:
    """The variables that may hold a secret of ours, which no command of the agent's may see."""
    return frozenset(_PASSWORDS) | frozenset(
        variable
        for name, variables in OVERRULE.items()
        # The address of a store may hold its password.
        if name == "store" or name.startswith("keys.") or name.endswith(".token")
        for variable in variables
    )


def hide_secrets() -> None:
    """Keep other processes of this account from reading our secrets out of this one.

    On Linux, what a process was started with stays readable in /proc/PID/environ, whatever it does
    to its variables. So the values are erased there; the variables stay as they are for us and for
    what we start. The kernel lets only root look into this process.
    """
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - only what is used

    start, end = _initial_environment()
    place = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, _, value = entry.partition(b"=")
        if value and os.fsdecode(name) in secret_names():
            os.putenv(name, value)  # a copy elsewhere, to which the variable leads from now on
            ctypes.memset(place + len(name) + 1, 0, len(value))
        place += len(entry) + 1
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _initial_environment() -> tuple[int, int]:
    """Where in our memory the environment is that we were started with."""
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - as plain as it gets
        fields = file.read().rpartition(b")")[2].split()
    return int(fields[47]), int(fields[48])
