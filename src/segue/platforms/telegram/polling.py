"""Read responses to getUpdates: no update is lost, none holds up the others, albums are whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from segue.platforms.base import Inbound
from segue.platforms.batches import Torn, split
from segue.platforms.errors import NONSENSE, UNREADABLE, Lost
from segue.platforms.telegram.wire import Update

_ID = re.compile(rb'"update_id"\s*:\s*(\d{1,18})\b')

Raw = Sequence[bytes | memoryview]


class _Numbered(msgspec.Struct):
    update_id: int


_update = msgspec.json.Decoder(Update)
_numbered = msgspec.json.Decoder(_Numbered)


@dataclass(frozen=True, slots=True)
class Batch:
    updates: Sequence[Update]
    """Updates that could be parsed."""
    skipped: Sequence[int | None]
    """Ids of updates that could not be parsed; None if the id is unreadable too."""
    next: int | None
    """The offset that confirms all updates, including the skipped ones."""


def read(payload: bytes, offset: int | None, *, alone: bool = False) -> Batch:
    """Parse a response to getUpdates with that offset. Raise Lost if it is not a response, and Torn
    if its updates cannot be separated. If it has one update `alone`, that can be skipped."""
    try:
        raw = split(payload, "result")
    except Torn:
        if not alone:
            raise
        raw = [payload]
    read = [(one, _read(one)) for one in raw]
    return Batch(
        updates=[update for _, update in read if update is not None],
        skipped=[_number(one) for one, update in read if update is None],
        next=_next(raw, offset),
    )


def _read(raw: bytes | memoryview) -> Update | None:
    try:
        return _update.decode(raw)
    except UNREADABLE:
        return None


def _number(raw: bytes | memoryview) -> int | None:
    try:
        return _numbered.decode(raw).update_id
    except UNREADABLE:
        found = _ID.search(raw)
        return None if found is None else int(found[1])


def _next(raw: Raw, offset: int | None) -> int | None:
    # The highest id of this batch, not of all time: after a week without updates, Telegram
    # continues from a random number, which may be lower.
    if ids := [number for one in raw if (number := _number(one)) is not None]:
        return max(ids) + 1
    if raw and offset is None:
        raise Lost(NONSENSE, arrived=True)
    # Ids are consecutive, so these updates have the ids from `offset` on.
    return offset and offset + len(raw)


# Albums


def album(update: Update) -> str:
    """The album that an update belongs to, or "". An album is one user message with several files,
    which Telegram sends as one message per file."""
    message = update.message
    grouped = message is not None and message.media_group_id
    return f"{message.chat.id} {message.media_group_id}" if message and grouped else ""


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

    def settled(self, updates: Sequence[Update]) -> int:
        """The number of leading updates that belong to no album that may still grow."""
        names = [album(update) for update in updates]
        now = Counter(filter(None, names))
        held = {name for name, parts in now.items() if self._seen[name] != parts}
        self._seen = now
        end = len(names)
        while True:
            cut = next((i for i, name in enumerate(names[:end]) if name in held), end)
            if cut == end:
                return end
            # If one part of an album is held back, hold back all of them.
            held.update(filter(None, names[cut:end]))
            end = cut

    def is_addressed(self, update: Update, inbound: Inbound) -> bool:
        """Whether the bot is addressed. A file that arrives late is, if its album was."""
        name = album(update)
        if inbound.addressed:
            self._addressed = name
        return inbound.addressed or (bool(name) and name == self._addressed)


def gathered(updates: Sequence[Update]) -> Iterator[list[Update]]:
    """Group the updates of each album together, in the place of its first update."""
    groups: dict[str, list[Update]] = {}
    for number, update in enumerate(updates):
        groups.setdefault(album(update) or f"{number}", []).append(update)
    yield from groups.values()


def merged(parts: Sequence[Inbound]) -> Inbound:
    """Merge the parts of an album into one message. It has the update id of the first part, and the
    message id of the part with the text, where edits arrive."""
    first = parts[0]
    said = next((part for part in parts if part.text), first)
    return msgspec.structs.replace(
        said,
        update_id=first.update_id,
        text="\n\n".join(part.text for part in parts if part.text),
        attachments=tuple(file for part in parts for file in part.attachments),
        addressed=any(part.addressed for part in parts),
        quote=first.quote,
        forwarded_from=next((a for part in parts if (a := part.forwarded_from) is not None), None),
    )
