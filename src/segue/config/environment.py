"""The environment variables that Segue reads, and the setting that each one overrides."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from segue.config import names
from segue.config.values import KEY_VARIABLES
from segue.platforms import registry

ENVIRONMENT = "the environment"
"""The name of the environment in messages."""

_OVERRIDES: Mapping[str, tuple[str, ...]] = {
    "store": ("SEGUE_STORE",),
    "model": ("SEGUE_MODEL",),
    "models_folder": ("SEGUE_MODELS",),
    "gateway_log": ("SEGUE_GATEWAY_LOG",),
    **{f"keys.{provider}": variables for provider, variables in KEY_VARIABLES.items()},
}


def overrides() -> dict[str, tuple[str, ...]]:
    """Map each setting to the variables that override it. The first one that is set counts."""
    fields = registry.fields().items()
    return {**_OVERRIDES, **{name: (spec.variable(field),) for name, (spec, field) in fields}}


def decides(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the variable that overrides the setting `name`, and its value; both empty if none."""
    for variable in _OVERRIDES.get(name) or overrides().get(name, ()):
        if value := environ.get(variable, "").strip():
            return variable, value
    return "", ""


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
        for name, several in overrides().items()
        # The URL of a store may contain its password.
        if name == "store" or names.is_secret(name)
        for variable in several
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
