"""The shapes of JSON that a bot sends, declared as data.

    {"Id": "^[0-9]+$", "Button": {"type": [2], "label": "text 1-80", "style?": [1, 2]},
     "Message": {"to": "number|Id", "content?": "text", "buttons?": "Button 0-5"}}

A shape is a regular expression, or an object: with the fields of the shape that `+` names and with
these, and with others only if it has `...`. A field with `?` can be absent or null. Its value is
one of a list; or of the types that are named, perhaps with the length of a text, or of a list of
them. An object with a single value for its `type` can be told from others by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, Union

import msgspec
from msgspec import Meta, defstruct

Declared: TypeAlias = Mapping[str, str | dict[str, Any]]
_BASIC: dict[str, Any] = {"text": str, "number": int, "flag": bool, "object": dict[str, Any]}


def types(declared: Declared) -> dict[str, Any]:
    """The types of these shapes, each of which can use those before it."""
    known = dict(_BASIC)
    for name, it in declared.items():
        known[name] = kind(it, known) if isinstance(it, str) else _object(name, dict(it), known)
    return known


def read(path: Path) -> dict[str, Any]:
    """The types of the shapes in a JSON file."""
    return types(msgspec.json.decode(path.read_bytes()))


def kind(it: Any, known: Mapping[str, Any]) -> Any:
    """The type that a field's value has."""
    if isinstance(it, list):
        return Literal[tuple(it)]
    if it.startswith("^"):
        return Annotated[str, Meta(pattern=it)]
    names, _, length = it.partition(" ")
    found = Union[tuple(known[name] for name in names.split("|"))]  # noqa: UP007
    if not length:
        return found
    least, most = map(int, length.split("-"))
    whole: Any = str if found is str else tuple[found, ...]
    return Annotated[whole, Meta(min_length=least, max_length=most)]


def _object(name: str, fields: dict[str, Any], known: Mapping[str, Any]) -> Any:
    more = fields.pop("...", False)
    base = fields.pop("+", None)
    tag = None
    if len(fields.get("type", ())) == 1:
        [tag] = fields.pop("type")
    made: list[Any] = []
    for key, it in fields.items():
        if key.endswith("?"):
            made.append((key[:-1], kind(it, known) | None, None))
        else:
            made.append((key, kind(it, known)))
    bases = (known[base],) if base else (msgspec.Struct,)
    strict = not more
    return defstruct(name, made, bases=bases, tag=tag, kw_only=True, forbid_unknown_fields=strict)


def flaw(given: object, kind: Any) -> str:
    """Return what is wrong with JSON that should be of that type, or an empty string."""
    try:
        msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        return str(error)
    return ""
