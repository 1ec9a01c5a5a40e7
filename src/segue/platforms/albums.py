"""Albums: messages of a user with several files, which the platform delivers as one update each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from msgspec.structs import replace

from segue.platforms.base import Inbound

T = TypeVar("T")


class Albums(Generic[T]):
    """Decides which updates are ready.

    The parts of an album arrive mostly together, sometimes with the next poll. An album that may be
    incomplete is not confirmed, so the next poll returns it again after a moment, with the parts
    that arrived since. It is complete when two polls in a row return the same number of parts.
    Nothing is kept here that a restart could lose.
    """

    def __init__(self, name: Callable[[T], str]) -> None:
        """`name` returns the album that an update belongs to, or ""."""
        self._name = name
        self._seen: Counter[str] = Counter()
        self._addressed = ""
        """The last album that was addressed to the bot."""

    def settled(self, updates: Sequence[T]) -> int:
        """The number of leading updates that belong to no album that may still grow."""
        names = [self._name(update) for update in updates]
        before, self._seen = self._seen, Counter(filter(None, names))
        held = {name for name, parts in self._seen.items() if before[name] != parts}
        end = len(names)
        while held:
            end = min(map(names.index, held))
            # If one part of an album is held back, hold back all of them.
            held = {*names[:end]} & {*names[end:]} - {""}
        return end

    def gathered(self, updates: Sequence[T]) -> Iterable[Sequence[T]]:
        """Group the updates of each album together, in the place of its first update."""
        groups: dict[str | int, list[T]] = {}
        for number, update in enumerate(updates):
            groups.setdefault(self._name(update) or number, []).append(update)
        return groups.values()

    def merged(self, first: T, parts: Sequence[Inbound]) -> Inbound:
        """Merge the parts of an album into one message. It has the update id of the first part, and
        the message id of the part with the text, where edits arrive. It is addressed to the bot if
        a part is, or one that came before."""
        name, addressed = self._name(first), any(part.addressed for part in parts)
        if addressed:
            self._addressed = name
        return replace(
            next((part for part in parts if part.text), parts[0]),
            update_id=parts[0].update_id,
            text="\n\n".join(part.text for part in parts if part.text),
            attachments=tuple(file for part in parts for file in part.attachments),
            addressed=addressed or (bool(name) and name == self._addressed),
            quote=parts[0].quote,
            forwarded_from=next((it for p in parts if (it := p.forwarded_from) is not None), None),
        )
