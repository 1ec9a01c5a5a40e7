"""Calls by the name of a method.

The methods of a platform are a JSON file, as far as a bot like ours needs them:

    {"chats.history": {"do": "history", "scope": "chats:read", "needs": "chat", "takes": "limit#"}}

Arguments are strings, or what the sign after the name says. The handler `do` gets them as
attributes of one object; one that is not given is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, defstruct

from segue.testing.peers.faults import Malformed

T = TypeVar("T")
_TYPES: dict[str, Any] = {
    "": str,
    "#": int,
    "?": bool | Literal[0, 1],  # forms have 1 and 0 for true and false
    "{}": dict[str, Any],
    "[]": tuple[dict[str, Any], ...],
    "+": tuple[str, ...],
    "#+": tuple[int, ...],
}


class Method(Struct, frozen=True, forbid_unknown_fields=True):
    do: str
    """The name of the handler."""
    scope: str = ""
    """The permission that the bot needs, if it needs one."""
    needs: str = ""
    """The arguments that a call must have."""
    takes: str = ""
    """The arguments that a call may have."""
    json: bool = True
    """Whether the arguments may be JSON instead of a form."""


def table(path: Path, always: str = "") -> dict[str, tuple[Method, type[Struct]]]:
    """The methods by name, with their arguments. A call may always have those in `always`."""
    methods = msgspec.json.decode(path.read_bytes(), type=dict[str, Method])
    return {name: (it, _arguments(it, always)) for name, it in methods.items()}


def _arguments(method: Method, always: str) -> type[Struct]:
    fields: list[Any] = [*map(_field, method.needs.split())]
    optional = map(_field, f"{method.takes} {always}".split())
    fields += ((name, kind | None, None) for name, kind in optional)
    return defstruct(method.do, fields, kw_only=True, forbid_unknown_fields=True)


def _field(text: str) -> tuple[str, Any]:
    name = text.rstrip("#?[]{}+")
    return name, _TYPES[text.removeprefix(name)]


def page(found: Sequence[T], cursor: str | None, limit: int) -> tuple[Sequence[T], str]:
    """One page of a list, and the cursor of the next; empty if there is none. Raises Malformed."""
    if not (cursor or "0").isdecimal() or not 1 <= limit <= 1000:
        raise Malformed(f"no page of {limit} begins at {cursor}")
    end = int(cursor or "0") + limit
    return found[end - limit : end], str(end) if end < len(found) else ""
