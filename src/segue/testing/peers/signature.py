"""Arguments from outside, checked against the signature of the method that they are for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec


@functools.cache
def parameters(method: Callable[..., object]) -> type[msgspec.Struct]:
    """The parameters of a method, as a type."""
    hints = get_type_hints(method, include_extras=True)
    fields: list[Any] = []
    for it in inspect.signature(method).parameters.values():
        if it.name == "self":
            continue
        if it.default is it.empty:
            fields.append((it.name, hints[it.name]))
        else:
            fields.append((it.name, hints[it.name], it.default))
    return msgspec.defstruct("Parameters", fields, kw_only=True, forbid_unknown_fields=True)


def result(method: Callable[..., object]) -> Any:
    """The type of a method's result."""
    return get_type_hints(method)["return"]


def arguments(method: Callable[..., object], given: bytes | Mapping[str, object]) -> dict[str, Any]:
    """The arguments for a method, from JSON or from values. Raises msgspec.MsgspecError."""
    kind = parameters(method)
    if isinstance(given, bytes):
        return msgspec.structs.asdict(msgspec.json.decode(given, type=kind))
    return msgspec.structs.asdict(msgspec.convert(given, kind))
