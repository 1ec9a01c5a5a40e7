"""Notes that the agent keeps about its Owner from one session to the next."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from segue.core import provenance
from segue.core.errors import NoteError
from segue.core.provenance import Provenance
from segue.core.text import is_empty, one_line

NOTE_LIMIT = 500
"""Maximum characters in a note."""
MAX_NOTES = 100
"""Maximum notes per owner. Every session begins with all of them."""


class Note(Struct, frozen=True, kw_only=True):
    """A short text about an Owner, shown to the agent in every Session."""

    number: int
    """The number that the owner uses for it. Not reused while any note exists."""
    text: str
    written: datetime
    """When the current text was written."""
    provenance: Provenance = provenance.UNKNOWN
    """The authors of its text."""


def clean_note(raw: str) -> str:
    """Return a note as one line of visible text, or raise NoteError if it is empty or too long.

    A note is not cut like a title: half a note may mean the opposite of the whole.
    """
    text = one_line(raw)
    if is_empty(text):
        raise NoteError("A note needs at least one visible character. Give it a text.")
    if len(text) > NOTE_LIMIT:
        raise NoteError(
            f"That note has {len(text)} characters; the limit is {NOTE_LIMIT}, because the agent"
            " reads all notes in every session. Make it shorter."
        )
    return text


def same_note(one: str, other: str) -> bool:
    """Return whether two cleaned notes are equal, ignoring case."""
    return one.casefold() == other.casefold()
