"""Albums: one user message with several files, which Telegram sends as one message per file.

The parts arrive as separate updates, mostly together, sometimes with the next poll. An album that
may be incomplete is not confirmed, so the next poll returns it again after a moment, with the parts
that arrived since. Nothing is kept here that a restart could lose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from segue.platforms.base import Inbound
from segue.platforms.telegram.wire import Update


def name(update: Update) -> str:
    """The album that an update belongs to, or ""."""
    message = update.message
    if message is None or not message.media_group_id:
        return ""
    return f"{message.chat.id} {message.media_group_id}"


class Albums:
    """Decides which updates are ready. An album is complete when two polls in a row return the same
    number of parts."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def settled(self, updates: Sequence[Update]) -> int:
        """The number of leading updates that belong to no album that may still grow."""
        names = [name(update) for update in updates]
        now = Counter(filter(None, names))
        held = {album for album, parts in now.items() if self._seen[album] != parts}
        self._seen = now
        end = len(names)
        while True:
            cut = next((i for i, album in enumerate(names[:end]) if album in held), end)
            if cut == end:
                return end
            # If one part of an album is held back, hold back all of them.
            held.update(filter(None, names[cut:end]))
            end = cut


def gathered(updates: Sequence[Update]) -> Iterator[list[Update]]:
    """Group the updates of each album together, in the place of its first update."""
    groups: dict[str, list[Update]] = {}
    for number, update in enumerate(updates):
        groups.setdefault(name(update) or f"{number}", []).append(update)
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
