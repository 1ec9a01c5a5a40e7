"""Split a getUpdates response so that a bad update does not affect the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from segue.platforms.telegram.transport import Lost
from segue.platforms.telegram.wire import Numbered, Update

_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
_ID = re.compile(rb'"update_id"\s*:\s*(\d{1,18})\b')
_RESULT = re.compile(rb'\s*\{\s*"ok"\s*:\s*true\s*,\s*"result"\s*:\s*\[')
_MARK = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)


class _Answer(Struct, frozen=True):
    result: list[msgspec.Raw]


_answer = msgspec.json.Decoder(_Answer)
_update = msgspec.json.Decoder(Update)
_numbered = msgspec.json.Decoder(Numbered)


class Torn(Lost):
    """The updates of a response cannot be separated. Ask for one at a time."""

    def __init__(self) -> None:
        super().__init__("its answer makes no sense", arrived=True)


@dataclass(frozen=True, slots=True)
class Batch:
    updates: Sequence[Update]
    """Updates that could be parsed."""
    skipped: Sequence[int | None]
    """Ids of updates that could not be parsed; None if the id is unreadable too."""
    next: int | None
    """The offset that confirms all updates, including the skipped ones."""


def read(payload: bytes, offset: int | None) -> Batch:
    """Parse a response to getUpdates with that offset. Raise Torn if its updates cannot be
    separated, and Lost if it is not a response."""
    return _batch(_split(payload), offset)


def read_one(payload: bytes, offset: int | None) -> Batch:
    """Parse a response with one update, which can always be skipped."""
    try:
        return read(payload, offset)
    except Torn:
        return _batch([payload], offset)


def _batch(raw: Sequence[bytes | memoryview], offset: int | None) -> Batch:
    read = [(one, _read(one)) for one in raw]
    return Batch(
        updates=[update for _, update in read if update is not None],
        skipped=[_number(one) for one, update in read if update is None],
        next=_next(raw, offset),
    )


def _split(payload: bytes) -> Sequence[bytes | memoryview]:
    try:
        return [memoryview(raw) for raw in _answer.decode(payload).result]
    except _UNREADABLE:
        # One update is nested too deeply or invalid JSON. The others are still good.
        return list(_pieces(payload))


def _pieces(payload: bytes) -> Iterator[bytes]:
    """The elements of the `result` array, without parsing them. Everything after the last complete
    one is requested again."""
    begin = _RESULT.match(payload)
    if begin is None:
        raise Lost("its answer makes no sense", arrived=True)
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


def _read(raw: bytes | memoryview) -> Update | None:
    try:
        return _update.decode(raw)
    except _UNREADABLE:
        return None


def _next(raw: Sequence[bytes | memoryview], offset: int | None) -> int | None:
    ids = [number for one in raw if (number := _number(one)) is not None]
    # The highest id of this batch, not of all time: after a week without updates, Telegram
    # continues from a random number, which may be lower.
    if ids:
        return max(ids) + 1
    if not raw:
        return offset
    if offset is None:
        raise Lost("its answer makes no sense", arrived=True)
    # Ids are consecutive, so these updates have the ids from `offset` on.
    return offset + len(raw)


def _number(raw: bytes | memoryview) -> int | None:
    try:
        return _numbered.decode(raw).update_id
    except _UNREADABLE:
        found = _ID.search(raw)
        return None if found is None else int(found[1])
