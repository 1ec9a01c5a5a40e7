"""What the agent keeps in mind about its owner, from one session to the next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from segue.core.errors import NoteEmpty, NoteTooLong
from segue.core.text import is_empty, one_line

NOTE_LIMIT = 500
"""The most characters of one note."""
MOST_NOTES = 100
"""The most notes of one owner: every session begins with all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A short text about an Owner, shown to the agent in every Session."""

    number: int
    """What its owner calls it by. Not given to another while any note is left."""
    text: str
    written: datetime
    """When it got the text that it has."""


def clean_note(raw: str) -> str:
    """A note fit to keep: one line, all of it to be seen; NoteEmpty or NoteTooLong else.

    It is not cut like a title: half a note may say the opposite of the whole.
    """
    text = one_line(raw)
    if is_empty(text):
        raise NoteEmpty
    if len(text) > NOTE_LIMIT:
        raise NoteTooLong(size=len(text), limit=NOTE_LIMIT)
    return text


def same_note(one: str, other: str) -> bool:
    """Whether two notes, both cleaned, say the same: case does not tell them apart."""
    return one.casefold() == other.casefold()
