"""Who can read a chat, as far as its platform says.

What `/sethome` found is recorded with the home channel. Before a handoff or a question goes there,
it is compared with what the platform says then: a room can be opened to everyone, and members come
and go.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from segue.core.text import count

_MOST_NAMES = 500
"""Of a chat with more readers, only their number is kept."""


class Audience(Struct, frozen=True, omit_defaults=True):
    has_owner: bool = True
    """Whether the owner can read it, too."""
    is_public: bool = False
    """Whether anyone can join it, or read it without that."""
    readers: int | None = None
    """How many can read it. None if the platform does not say."""
    names: tuple[str, ...] = ()
    """The ids of those who can read it: users, and roles on Discord. Empty if the platform does not
    list them, or if there are too many."""


def listed(names: Iterable[str], *, has_owner: bool, is_public: bool) -> Audience:
    """The audience of a chat whose readers the platform lists."""
    known = sorted(set(names))
    return Audience(
        has_owner=has_owner,
        is_public=is_public,
        readers=len(known),
        names=tuple(known) if len(known) <= _MOST_NAMES else (),
    )


def growth(before: Audience, now: Audience) -> str:
    """Who can read the chat now and could not before, for the owner. Empty if none can."""
    if before.is_public:
        return ""
    if now.is_public:
        return "it is public now"
    if before.names and now.names:
        new = len(set(now.names) - set(before.names))
        return f"{count(new, 'new reader')}" if new else ""
    if before.readers is not None and now.readers is not None and now.readers > before.readers:
        return f"{count(now.readers, 'reader')} instead of {before.readers}"
    return ""
