"""Albums: several messages of Telegram, one for each file, that are one message of a person's.

They come as updates of their own, mostly at once, sometimes with the next poll. An album that may
not be whole is not confirmed: it comes again with the next poll, after a moment, together with what
came meanwhile. So nothing is kept here that a restart could lose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from segue.platforms.base import Inbound
from segue.platforms.telegram.wire import Update


def name(update: Update) -> str:
    """The album that an update belongs to; empty for none."""
    message = update.message
    if message is None or not message.media_group_id:
        return ""
    return f"{message.chat.id} {message.media_group_id}"


class Albums:
    """Says how much of what came can be taken up: an album once two polls have brought as much of
    it."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def settled(self, updates: Sequence[Update]) -> int:
        """How many of these, from the first, belong to no album that may grow."""
        names = [name(update) for update in updates]
        now = Counter(filter(None, names))
        held = {album for album, parts in now.items() if self._seen[album] != parts}
        self._seen = now
        end = len(names)
        while True:
            cut = next((i for i, album in enumerate(names[:end]) if album in held), end)
            if cut == end:
                return end
            # An album of which a part is held back is held back whole.
            held.update(filter(None, names[cut:end]))
            end = cut


def gathered(updates: Sequence[Update]) -> Iterator[list[Update]]:
    """Each update, and those of an album together, in the place of the first."""
    groups: dict[str, list[Update]] = {}
    for number, update in enumerate(updates):
        groups.setdefault(name(update) or f"{number}", []).append(update)
    yield from groups.values()


def merged(parts: Sequence[Inbound]) -> Inbound:
    """One message of all that an album says and holds. It is known by its first part, and an edit
    of it by the part that has its text."""
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
