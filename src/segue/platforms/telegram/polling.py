"""What one getUpdates brought, taken apart so that no bad update can spoil its neighbours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from segue.platforms.telegram.line import Lost
from segue.platforms.telegram.wire import Numbered, Update

_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
_ID = re.compile(rb'"update_id"\s*:\s*(\d{1,18})\b')
_RESULT = re.compile(rb'"result"\s*:\s*\[')
_MARK = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)


class _Answer(Struct, frozen=True):
    result: list[msgspec.Raw]


_answer = msgspec.json.Decoder(_Answer)
_update = msgspec.json.Decoder(Update)
_numbered = msgspec.json.Decoder(Numbered)


@dataclass(frozen=True, slots=True)
class Batch:
    updates: Sequence[Update]
    """Those that can be read."""
    next: int | None
    """The offset that confirms all of them, and those that cannot be read as well."""


def read(payload: bytes, offset: int | None) -> Batch:
    """What is in an answer to getUpdates with that offset; Lost when it is none."""
    raw = _split(payload)
    updates = [update for one in raw if (update := _read(one)) is not None]
    return Batch(updates, _next(raw, offset))


def _split(payload: bytes) -> Sequence[bytes | memoryview]:
    try:
        return [memoryview(raw) for raw in _answer.decode(payload).result]
    except RecursionError:
        # One of them is nested without end. The others are good nevertheless.
        return list(_pieces(payload))
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Lost("its answer makes no sense", arrived=True) from error


def _pieces(payload: bytes) -> Iterator[bytes]:
    """The elements of the array `result`, whatever they are, without looking into them."""
    begin = _RESULT.search(payload)
    if begin is None:
        raise Lost("its answer makes no sense", arrived=True)
    start, depth = begin.end(), 0
    for mark in _MARK.finditer(payload, start):
        match mark[0]:
            case b"[" | b"{":
                depth += 1
            case b"]" | b"}" if depth:
                depth -= 1
            case b"]":
                yield payload[start : mark.start()]
                return
            case b"," if not depth:
                yield payload[start : mark.start()]
                start = mark.end()
            case _:
                pass


def _read(raw: bytes | memoryview) -> Update | None:
    try:
        return _update.decode(raw)
    except _UNREADABLE:
        return None


def _next(raw: Sequence[bytes | memoryview], offset: int | None) -> int | None:
    ids = [number for one in raw if (number := _number(one)) is not None]
    # The highest of these, not of all there ever were: after a week of silence Telegram begins
    # to count at a random number, which may be lower.
    if ids:
        return max(ids) + 1
    # They are numbered one after the other, so these have the numbers from `offset` on.
    return offset + len(raw) if raw and offset is not None else offset


def _number(raw: bytes | memoryview) -> int | None:
    try:
        return _numbered.decode(raw).update_id
    except _UNREADABLE:
        found = _ID.search(raw)
        return None if found is None else int(found[1])
