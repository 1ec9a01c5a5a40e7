"""Long polling: what a poll returns, and which of its updates are ready.

A poll returns a JSON array of numbered updates. A poll for the updates from a number on confirms
those before it. `read` parses the array one update at a time, so that a bad one is skipped and does
not affect the others. `Albums` holds back the files of a message until all of them are there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from segue.platforms.base import Inbound
from segue.platforms.errors import NONSENSE, UNREADABLE, Lost, parsed
from segue.platforms.http import JSON_MARK
from segue.platforms.telegram.updates import Update

_UPDATES = "result"
# Not in a text: there the quotes have backslashes.
_NUMBER = re.compile(rb'"update_id"\s*:\s*(\d{1,18})\b')
_ARRAY = re.compile(rb'\s*\{[^\[{]*"result"\s*:\s*\[')
# Possessive, as in JSON_MARK.
_OPEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?P<end>"?)|[\[\]{}]', re.DOTALL)
_HALF = re.compile(
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z|[\x80-\xff]{1,4}\Z"
)
"""Half a character at the end: of a pair, of an escape, or of UTF-8."""
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])


class Torn(Lost):
    """The updates cannot be separated. Ask for one at a time."""

    def __init__(self) -> None:
        super().__init__(NONSENSE, arrived=True)


class Batch(NamedTuple):
    """What one poll returned."""

    updates: Sequence[Update]
    """Updates that could be parsed."""
    skipped: Sequence[int | None]
    """Numbers of updates that could not be parsed; None if the number is unreadable too."""
    next: int | None
    """The offset that confirms all updates, including the skipped ones."""


def read(payload: bytes, offset: int | None, *, alone: bool = False) -> Batch:
    """Parse the response to a poll for that offset. Raise Lost if it is not one, and Torn if its
    updates cannot be separated. One update `alone` is repaired if it was cut, or else skipped."""
    try:
        raw = split(payload)
    except Torn:
        if not alone:
            raise
        raw = [_repaired(payload)]
    numbers: list[int | None] = []
    updates: list[Update] = []
    skipped: list[int | None] = []
    for one in raw:
        number = _number(one)
        numbers.append(number)
        update = parsed(one, Update)
        if update is None:
            skipped.append(number)
        else:
            updates.append(update)
    return Batch(updates, skipped, _next(numbers, offset))


def _number(raw: bytes | memoryview) -> int | None:
    """The number of an update that may be malformed. None if it is unreadable."""
    found = _NUMBER.search(raw)
    return None if found is None else int(found[1])


def _next(numbers: Sequence[int | None], offset: int | None) -> int | None:
    # The highest number of this batch, not of all time: after a week without updates, Telegram
    # continues from a random number, which may be lower.
    known = [number for number in numbers if number is not None]
    if known:
        return max(known) + 1
    if numbers and offset is None:
        raise Lost(NONSENSE, arrived=True)
    # Numbers are consecutive, so these updates have those from `offset` on.
    return None if offset is None else offset + len(numbers)


def split(payload: bytes) -> Sequence[bytes | memoryview]:
    """The updates, not parsed. Raise Torn if they cannot be separated, and Lost if there is no
    array."""
    try:
        array = _fields.decode(payload).get(_UPDATES, b"")
        return [memoryview(raw) for raw in _elements.decode(array)]
    except UNREADABLE:
        # One update is nested too deeply or invalid JSON. The others are still good.
        return list(_pieces(payload))


def _pieces(payload: bytes) -> Iterator[bytes]:
    """The updates, without parsing them, up to the last complete one."""
    start = _begin(payload)
    depth = 0
    found = False
    for mark in JSON_MARK.finditer(payload, start):
        match mark[0]:
            case b"[" | b"{":
                depth += 1
            case b"]" | b"}" if depth:
                depth -= 1
            case b"," | b"]" if not depth:
                yield payload[start : mark.start()]
                start = mark.end()
                found = True
                if mark[0] == b"]":
                    return
            case _:
                pass
    if not found:
        raise Torn


def _begin(payload: bytes) -> int:
    """Where the array begins. Raise Lost if there is none."""
    begin = _ARRAY.match(payload)
    if begin is None:
        raise Lost(NONSENSE, arrived=True)
    return begin.end()


def _repaired(payload: bytes) -> bytes:
    """The first update, if the payload was cut in one of its texts: up to the cut."""
    begin = _begin(payload)
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
    half = _HALF.search(payload, max(begin, len(payload) - 16))
    end = len(payload) if half is None else half.start()
    return b"".join((memoryview(payload)[begin:end], *reversed(closing)))


# Albums


class Albums:
    """Decides which updates are ready.

    The parts of an album arrive mostly together, sometimes with the next poll. An album that may be
    incomplete is not confirmed, so the next poll returns it again after a moment, with the parts
    that arrived since. It is complete when two polls in a row return the same number of parts.
    Nothing is kept here that a restart could lose.
    """

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._addressed = ""
        """The last album that was addressed to the bot."""

    def count_ready(self, updates: Sequence[Update]) -> int:
        """The number of leading updates that belong to no album that may still grow."""
        names = [update.album for update in updates]
        before = self._seen
        self._seen = Counter(filter(None, names))
        incomplete = {name for name, parts in self._seen.items() if before[name] != parts}
        end = len(names)
        while incomplete:
            end = min(map(names.index, incomplete))
            # If one part of an album is held back, hold back all of them.
            incomplete = {*names[:end]} & {*names[end:]} - {""}
        return end

    def group(self, updates: Sequence[Update]) -> Iterable[Sequence[Update]]:
        """Group the updates of each album together, in the place of its first update."""
        groups: dict[str | int, list[Update]] = {}
        for number, update in enumerate(updates):
            groups.setdefault(update.album or number, []).append(update)
        return groups.values()

    def merge(self, first: Update, parts: Sequence[Inbound]) -> Inbound:
        """Merge the parts of an album into one message. It has the update id of the first part, and
        the message id of the part with the text, where edits arrive. It is addressed to the bot if
        a part is, or one that came before."""
        name = first.album
        addressed = any(part.addressed for part in parts)
        if addressed:
            self._addressed = name
        with_text = [part for part in parts if part.text]
        forwarded = [part for part in parts if part.forwarded_from is not None]
        continues = bool(name) and name == self._addressed
        return replace(
            with_text[0] if with_text else parts[0],
            update_id=parts[0].update_id,
            text="\n\n".join(part.text for part in with_text),
            attachments=tuple(chain.from_iterable(part.attachments for part in parts)),
            addressed=addressed or continues,
            quote=parts[0].quote,
            forwarded_from=forwarded[0].forwarded_from if forwarded else None,
        )
