"""One conversation and who may write to it: sessions, their titles, leases, owners and notes."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import NewType

from msgspec import Struct

from segue.core import provenance
from segue.core.address import Address, Platform
from segue.core.errors import NoteError, UserError
from segue.core.provenance import Provenance
from segue.core.text import is_empty, one_line, quoted

ME = "me"
"""The Owner on the user's own machine."""

TITLE_LIMIT = 100
_NUMBER_ROOM = len(" #999999999")
_NUMBERED = re.compile(r"(?P<base>.*\S) #(?P<number>[1-9][0-9]{0,8})")


class EndReason(StrEnum):
    """Why a session ended. Ended sessions can always be resumed."""

    NEW = "new"
    """The user started a new session in the same place."""
    IDLE = "idle"
    DAILY = "daily"
    CLOSED = "closed"


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens spent by a session, counted the same way for every provider."""

    input: int = 0
    """All prompt tokens, cached or not."""
    output: int = 0
    """All generated tokens, including reasoning."""
    cached: int = 0
    """How many of `input` were read from a cache."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cached=self.cached + other.cached,
        )


class Summary(Struct, frozen=True):
    """A summary of a conversation, and the tokens spent on it."""

    text: str
    usage: Usage


class Session(Struct, frozen=True, kw_only=True):
    """One conversation; not a process, not a chat."""

    id: str
    owner: str
    source: Platform
    """The platform where it started."""
    started: datetime
    active: datetime
    title: str | None = None
    title_chosen: bool = False
    """The user set the title, so nothing else may change it."""
    parent: str | None = None
    """The previous session in the same place or under the same name."""
    cwd: str | None = None
    model: str | None = None
    usage: Usage = Usage()
    messages: int = 0
    """How many messages were ever appended: the highest seq."""
    ended: datetime | None = None
    end_reason: EndReason | None = None
    address: Address | None = None
    """The Address it is bound to now, or None."""

    @property
    def name(self) -> str:
        """The name to type for this session."""
        return self.title or self.id

    @property
    def label(self) -> str:
        """The name to show at the beginning of a sentence: the quoted title, or words if it has
        none."""
        if self.title is None:
            return f"An untitled session of {self.started.astimezone():%d %B, %H:%M}"
        return quoted(self.title)

    @property
    def where(self) -> str:
        """Where it is now, for lists: `terminal`, `telegram` or `not open`."""
        if self.address is None:
            return "not open"
        return self.address.platform.shown

    @property
    def exact_name(self) -> str:
        """A name that means this session even after a later one got the same title."""
        if self.title is None:
            return self.id
        base, number = split_title(self.title)
        return f"{base} #{number}"


class MovingTurn(IntEnum):
    """The turn that a handoff takes along with its session."""

    NONE = 0
    PAUSED = 1
    """It waits for the place where the session arrives. Its open calls have not started."""
    GOES_ON = 2
    """It has been taken up. A call of it may have started."""


class Origin(StrEnum):
    """How a session came to an Address."""

    MESSAGE = "message"
    HANDOFF = "handoff"
    """Moved here on purpose, so it is never reset automatically."""
    RESUME = "resume"


class Binding(Struct, frozen=True, kw_only=True):
    """The session that an Address leads to now. A session is bound to at most one Address."""

    address: Address
    session_id: str
    origin: Origin
    version: int
    bound: datetime


# Ids and titles


def new_session_id(now: datetime, entropy: str) -> str:
    """Return `YYYYMMDD_HHMMSS_<8 hex>`, from the time in UTC and eight random hex digits."""
    if not re.fullmatch("[0-9a-f]{8}", entropy):
        raise ValueError("a session id needs eight hex digits")
    return f"{now.astimezone(UTC):%Y%m%d_%H%M%S}_{entropy}"


def clean_title(raw: str) -> str:
    """Return a title of at most 100 visible characters, or raise UserError if nothing is left."""
    title = one_line(raw)[:TITLE_LIMIT].rstrip()
    if is_empty(title):
        raise UserError(
            "A title needs at least one visible character. Type /title followed by a name."
        )
    return title


def split_title(title: str) -> tuple[str, int]:
    """Return a title's base and its number in the lineage: `my project #2` is (`my project`, 2)."""
    match = _NUMBERED.fullmatch(title)
    return (match["base"], int(match["number"])) if match else (title, 1)


def lineage_key(base: str) -> str:
    """Return the key that all titles of one lineage share. It ignores case."""
    return base.casefold()


def former_lineage_key(base: str) -> str:
    """Return the key of a title that was set before version 26 of the schema: the end of a very
    long title was not part of it."""
    return base[: TITLE_LIMIT - _NUMBER_ROOM].rstrip().casefold()


def join_title(base: str, number: int) -> str:
    """Return the title of the `number`th session of a lineage."""
    return base if number == 1 else f"{base} #{number}"


def numbered_base(base: str) -> str:
    """Return the base of a generated title: shorter than `base` if a number would not fit."""
    return base[: TITLE_LIMIT - _NUMBER_ROOM].rstrip()


# Leases


Ticks = NewType("Ticks", int)
"""Microseconds of a monotonic clock, for leases and deadlines. Never shown to users."""

SECOND = 1_000_000
"""One second in Ticks."""


class Lease(Struct, frozen=True, kw_only=True):
    """The right to append to a session. Each acquisition gets a new epoch, never reused."""

    session_id: str
    holder: str
    """The holder, for display: `a terminal on desk (1234)`."""
    process: str
    """The Process (one opening of the store) that acquired it."""
    epoch: int
    until: Ticks

    def is_alive(self, now: Ticks) -> bool:
        return now < self.until


# Owners


class Owner(Struct, frozen=True, kw_only=True):
    """The user that a session belongs to."""

    id: str
    name: str


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
