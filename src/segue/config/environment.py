"""The environment variables that Segue reads, and what it hides from other processes."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Mapping
from typing import Any, cast

from segue.config import schema


def overrides() -> dict[str, tuple[str, ...]]:
    """Map each setting to the variables that override it. The first one that is set counts."""
    every = schema.every(chats=()).items()
    return {name: leaf.description.variables for name, leaf in every if leaf.description.variables}


def decides(environ: Mapping[str, str], name: str) -> str:
    """Return the variable that overrides the setting `name`, or an empty string."""
    return _first(environ, overrides().get(name, ()))[0]


def _first(environ: Mapping[str, str], variables: tuple[str, ...]) -> tuple[str, str]:
    """Return the first of these variables that is set, and its value; both empty if none is."""
    for variable in variables:
        if value := environ.get(variable, "").strip():
            return variable, value
    return "", ""


def laid_over(
    tables: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the tables of the file with the values of variables, and these variables by the names
    of the settings. Raise Wrong if a value in the file has the wrong type, although it is not used.
    """
    whole = copy.deepcopy(dict(tables))
    used: dict[str, str] = {}
    for name, leaf in schema.every(chats=()).items():
        variable, value = _first(environ, leaf.description.variables)
        if not variable:
            continue
        *around, last = schema.parts(name)
        table = whole
        for part in around:
            inner: Any = table.setdefault(part, {})
            if not isinstance(inner, dict):  # which is an error in the file
                break
            table = cast("dict[str, Any]", inner)
        else:
            if last in table:
                leaf.convert(table[last], name)
            table[last] = value
            used[name] = variable
    return whole, used


_PASSWORDS = ("PGPASSWORD", "PGPASSFILE")
"""Read by the client library of a PostgreSQL store."""
_SERVICES = (
    "AZURE_OPENAI_API_KEY",
    "COHERE_API_KEY",
    "FIREWORKS_API_KEY",
    "HF_TOKEN",
    "HUGGINGFACEHUB_API_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "PERPLEXITY_API_KEY",
    "REPLICATE_API_TOKEN",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
)
"""Keys of other model services, which users have next to those that Segue reads."""
_PR_SET_DUMPABLE = 4


def secret_names() -> frozenset[str]:
    """Return the variables that may hold a secret, which the agent's commands must not see."""
    return frozenset((*_PASSWORDS, *_SERVICES)) | frozenset(
        variable
        for name, leaf in schema.every(chats=()).items()
        # The URL of a store may contain its password.
        if name == "store" or leaf.is_secret
        for variable in leaf.description.variables
    )


def hide_secrets() -> None:
    """Keep other processes of this account from reading secrets out of this process.

    On Linux, a process's initial environment stays readable in /proc/PID/environ, even if the
    process changes its variables. So the values are erased there. The variables keep their values
    for this process and its children. After the call, the kernel lets only root inspect this
    process.
    """
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - only what is used

    hidden = secret_names()
    start, end = _initial_environment()
    place = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, _, value = entry.partition(b"=")
        if value and os.fsdecode(name) in hidden:
            os.putenv(name, value)  # copies the value; the variable points to the copy from now on
            ctypes.memset(place + len(name) + 1, 0, len(value))
        place += len(entry) + 1
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _initial_environment() -> tuple[int, int]:
    """Return the start and end of the initial environment in this process's memory."""
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - as plain as it gets
        fields = file.read().rpartition(b")")[2].split()
    return int(fields[47]), int(fields[48])
