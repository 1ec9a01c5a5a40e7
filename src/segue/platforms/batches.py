"""Read a JSON array of updates, so that a bad one is skipped and does not affect the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from segue.platforms.errors import NONSENSE, UNREADABLE, Lost, parsed

T = TypeVar("T")

# Possessive: a string of many megabytes must not fill the memory with places to try again.
_MARK = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},]', re.DOTALL)
_OPEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?P<end>"?)|[\[\]{}]', re.DOTALL)
_HALF = re.compile(
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z|[\x80-\xff]{1,4}\Z"
)
"""Half a character at the end: of a pair, of an escape, or of UTF-8."""
_DEPTH = 64
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
    start = _begin(payload, name)
    depth = 0
    found = False
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


def _begin(payload: bytes, name: str) -> int:
    """Where the array begins. Raise Lost if there is none."""
    begin = re.match(rb'\s*\{[^\[{]*"%s"\s*:\s*\[' % name.encode(), payload)
    if begin is None:
        raise Lost(NONSENSE, arrived=True)
    return begin.end()


def mended(payload: bytes, name: str) -> bytes:
    """The first element of the array, if the payload was cut in one of its texts: up to the cut."""
    begin = _begin(payload, name)
    closing: list[bytes] = []
    for mark in _OPEN.finditer(payload, begin):
        match mark[0][:1]:
            case b"[":
                closing.append(b"]")
            case b"{":
                closing.append(b"}")
            case b'"' if not mark["end"]:
                closing.append(b'"')
                break
            case b'"':
                pass
            case _:
                if closing:
                    closing.pop()
    end = _HALF.search(payload, max(begin, len(payload) - 16))
    kept = memoryview(payload)[begin : len(payload) if end is None else end.start()]
    return b"".join((kept, *reversed(closing)))


def shallow(payload: bytes | memoryview) -> bytes:
    """The document with null in the place of what is nested too deeply for any use. One element
    like that would make the whole document unreadable."""
    kept = bytearray()
    level = 0
    start = 0
    whole = bytes(payload)
    for mark in _MARK.finditer(whole):
        match mark[0]:
            case b"[" | b"{":
                level += 1
                if level == _DEPTH:
                    kept += whole[start : mark.start()] + b"null"
            case b"]" | b"}":
                if level == _DEPTH:
                    start = mark.end()
                level -= 1
            case _:
                pass
    return bytes(kept + whole[start:])


# Numbered updates


class Batch(NamedTuple, Generic[T]):
    updates: Sequence[T]
    """Updates that could be parsed."""
    skipped: Sequence[int | None]
    """Numbers of updates that could not be parsed; None if the number is unreadable too."""
    next: int | None
    """The offset that confirms all updates, including the skipped ones."""


class Batches(Generic[T]):
    """Reads the responses of a platform that numbers its updates. Asking for those from an offset
    on confirms the ones before it."""

    def __init__(self, name: str, kind: type[T], number: str) -> None:
        """`name` is the field with the updates, and `number` the field of each with its number."""
        self._name, self._kind = name, kind
        # Not in a text: there the quotes have backslashes.
        self._number = re.compile(rb'"%s"\s*:\s*(\d{1,18})\b' % number.encode())

    def read(self, payload: bytes, offset: int | None, *, alone: bool = False) -> Batch[T]:
        """Parse the response for that offset. Raise Lost if it is not one, and Torn if its updates
        cannot be separated. One update `alone` is mended, if it was cut, or skipped."""
        try:
            raw = split(payload, self._name)
        except Torn:
            if not alone:
                raise
            raw = [mended(payload, self._name)]
        read = [parsed(one, self._kind) for one in raw]
        found = [self._number.search(one) for one in raw]
        numbers = [None if it is None else int(it[1]) for it in found]
        skipped = [number for number, it in zip(numbers, read, strict=True) if it is None]
        return Batch([it for it in read if it is not None], skipped, _next(numbers, offset))


def _next(numbers: Sequence[int | None], offset: int | None) -> int | None:
    # The highest number of this batch, not of all time: after a week without updates, Telegram
    # continues from a random number, which may be lower.
    if known := [number for number in numbers if number is not None]:
        return max(known) + 1
    if numbers and offset is None:
        raise Lost(NONSENSE, arrived=True)
    # Numbers are consecutive, so these updates have those from `offset` on.
    return offset and offset + len(numbers)
