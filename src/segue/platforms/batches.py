"""Split a JSON array of updates, so that a bad one does not affect the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from segue.platforms.errors import NONSENSE, UNREADABLE, Lost

_MARK = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])


class Torn(Lost):
    """The elements cannot be separated. Ask for one at a time."""

    def __init__(self) -> None:
        super().__init__(NONSENSE, arrived=True)


def split(payload: bytes, name: str) -> Sequence[bytes | memoryview]:
    """The elements of the array in the field `name`. Raise Torn if they cannot be separated, and
    Lost if there is no array."""
    try:
        array = _fields.decode(payload).get(name, b"")
        return [memoryview(raw) for raw in _elements.decode(array)]
    except UNREADABLE:
        # One element is nested too deeply or invalid JSON. The others are still good.
        return list(_pieces(payload, name))


def _pieces(payload: bytes, name: str) -> Iterator[bytes]:
    """The elements, without parsing them, up to the last complete one."""
    begin = re.match(rb'\s*\{[^\[{]*"%s"\s*:\s*\[' % name.encode(), payload)
    if begin is None:
        raise Lost(NONSENSE, arrived=True)
    start, depth, found = begin.end(), 0, False
    for mark in _MARK.finditer(payload, start):
        match mark[0]:
            case b"[" | b"{":
                depth += 1
            case b"]" | b"}" if depth:
                depth -= 1
            case b"," | b"]" if not depth:
                yield payload[start : mark.start()]
                start, found = mark.end(), True
                if mark[0] == b"]":
                    return
            case _:
                pass
    if not found:
        raise Torn
