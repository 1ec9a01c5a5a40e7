"""Sessions as the page lists and shows them: each with its place, its state and its last words, and
its transcript with the moves and messages between.

Every operation names the owner, and finds nothing of another owner.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from segue.core.address import Address, Platform
from segue.core.errors import SessionNotFound
from segue.core.session import lineage_key
from segue.core.transcript import Message
from segue.store import bindings, doors, leases, pages, sessions, transcripts
from segue.store.base import Row, Tx, reads, writes
from segue.store.doors import Move
from segue.store.pages import PageMessage
from segue.store.search import folded
from segue.store.values import MESSAGE_COLUMNS, address_or_none, message, moment, text

LINES = 60
"""How many messages of a transcript are shown at once."""
_WORDS = 200
"""Characters of the last words."""
_SEARCHED = 1_000
"""How many sessions a search for a title reads."""


class SessionActivity(StrEnum):
    WORKING = "working"
    ASKING = "asking"
    """It waits for an approval."""
    IDLE = "idle"


class Entry(Struct, frozen=True, kw_only=True):
    """A session in the list."""

    no: int
    id: str
    title: str | None
    address: Address | None
    last_place: Platform
    """Where it began, for a session that is at no place."""
    held: bool
    """Whether a process holds it."""
    activity: SessionActivity
    last_words: str
    active: datetime
    seq: int
    """Its last message."""
    edits: int
    """How often messages were undone or restored."""


class TranscriptPart(Struct, frozen=True, kw_only=True):
    """A part of a transcript, with what stands between its messages."""

    lines: tuple[Message, ...]
    shows: dict[int, int]
    """The numbers of the page's messages that these lines show, by seq."""
    more: bool
    """Whether there are earlier messages."""
    messages: tuple[PageMessage, ...]
    moves: tuple[Move, ...]


_OF_SESSION = "m.id > (s.no << 32) AND m.id <= (s.no << 32) + s.last_seq AND m.undone = 0"
_SELECT = f"""
    SELECT s.no, s.id, s.title, b.address, s.source, s.holder, s.process, s.lease_until, s.active,
        s.last_seq, s.edits, s.pause,
        (SELECT substr(m.content, 1, {_WORDS}) FROM messages m WHERE {_OF_SESSION}
         AND m.kind = 'said' AND m.role IN ('user', 'assistant') AND m.content <> ''
         ORDER BY m.id DESC LIMIT 1),
        {transcripts.AWAITS},
        EXISTS (SELECT 1 FROM approvals a WHERE a.address = b.address AND a.session_no = s.no
         AND a.state = 'waiting' AND a.until > :ticks)
    FROM sessions s LEFT JOIN bindings b ON b.session_no = s.no WHERE s.owner = :owner
"""


@reads
def list_entries(tx: Tx, owner: str, *, limit: int, words: str = "") -> tuple[Entry, ...]:
    """The owner's sessions in which something was said, most recently active first. With `words`,
    only those with these words in their title: see `_named`."""
    values: dict[str, Any] = {"owner": owner, "ticks": tx.ticks}
    if words:
        named = (
            tx.row(f"{_SELECT} AND s.no = :no", no=no, **values)
            for no in _named(tx, owner, words, limit)
        )
        return tuple(_entry(tx, row) for row in named if row)
    sql = f"{_SELECT} AND s.last_seq > 0 ORDER BY s.active DESC, s.no DESC LIMIT :limit"
    return tuple(_entry(tx, row) for row in tx.rows(sql, limit=limit, **values))


def _named(tx: Tx, owner: str, words: str, limit: int) -> list[int]:
    """The numbers of the owner's sessions with these words in their title, most recently active
    first: of the last sessions, without regard to case and accents, and of those whose title begins
    with the words."""
    # Compared here, because SQLite knows the case of ASCII letters only.
    last = tx.rows(
        "SELECT active, no, title FROM (SELECT active, no, title, last_seq FROM sessions"
        " WHERE owner = :owner ORDER BY active DESC, no DESC LIMIT :most) s"
        " WHERE last_seq > 0 AND title IS NOT NULL",
        owner=owner,
        most=_SEARCHED,
    )
    wanted = folded(text(words))
    recent = [(active, no) for active, no, title in last if wanted in folded(title)]
    if len(recent) >= limit:
        return [no for _, no in sorted(recent, reverse=True)[:limit]]
    beginning = lineage_key(text(words))
    others = tx.rows(
        "SELECT active, no FROM (SELECT active, no, last_seq FROM sessions"
        " WHERE owner = :owner AND title IS NOT NULL AND lineage >= :low AND lineage < :high"
        " ORDER BY lineage, lineage_no LIMIT :most) s WHERE last_seq > 0",
        owner=owner,
        low=beginning,
        high=f"{beginning}\U0010ffff",
        most=_SEARCHED,
    )
    return [no for _, no in sorted({*recent, *others}, reverse=True)[:limit]]


@reads
def find(tx: Tx, owner: str, name: str) -> Entry | None:
    """The owner's session with this id, or that is or was last at the page's conversation with this
    id."""
    sql = "SELECT session FROM pages WHERE id = :id AND owner = :owner"
    page = tx.row(sql, id=text(name), owner=owner)
    session_id = page[0] if page else text(name)
    row = tx.row(f"{_SELECT} AND s.id = :id", id=session_id, owner=owner, ticks=tx.ticks)
    return _entry(tx, row) if row else None


def _entry(tx: Tx, row: Row) -> Entry:
    no, session_id, title, address, source, holder, process, until, active, seq, *rest = row
    edits, pause, last_words, awaits, asks = rest
    held = holder is not None and tx.ticks < until and not tx.dead(process)
    activity = SessionActivity.IDLE
    if asks or (held and pause == leases.Pause.ASKING):
        activity = SessionActivity.ASKING
    elif held and awaits and pause is None:
        activity = SessionActivity.WORKING
    return Entry(
        no=no,
        id=session_id,
        title=title,
        address=address_or_none(address),
        last_place=Platform(source),
        held=held,
        activity=activity,
        last_words=last_words or "",
        active=moment(active),
        seq=seq,
        edits=edits,
    )


@reads
def part(
    tx: Tx, owner: str, session_id: str, *, after: int = 0, before: int | None = None
) -> TranscriptPart | None:
    """The last messages of the owner's session before the message `before`. With `after`, only
    those after it. None if there is no such session."""
    sql = "SELECT no FROM sessions WHERE id = :id AND owner = :owner"
    if (row := tx.row(sql, id=session_id, owner=owner)) is None:
        return None
    (no,) = row
    end = 1 << 32 if before is None else before
    rows = tx.rows(
        f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE id > :low AND id < :high AND undone = 0"
        " AND kind = 'said' ORDER BY id DESC LIMIT :limit",
        low=(no << 32) + after,
        high=(no << 32) + end,
        limit=LINES + 1,
    )
    lines = tuple(message(row) for row in reversed(rows[:LINES]))
    more = len(rows) > LINES
    low = lines[0].seq if more else after
    return TranscriptPart(
        lines=lines,
        shows=pages.in_transcript(tx, session_id, low, end),
        more=more,
        messages=pages.between(tx, session_id, no, low, end),
        moves=tuple(m for m in doors.list_moves(tx, no) if low <= m.seq < end),
    )


@reads
def page_of(tx: Tx, owner: str, session_id: str) -> str | None:
    """The page's conversation that the session is at, or else its newest one. None if it never was
    on the page."""
    entry = find(tx, owner, session_id)
    if entry is None:
        raise SessionNotFound(name=session_id)
    address = entry.address
    if address is not None and address.platform is Platform.WEB:
        return address.thread_id
    known = doors.of_session(tx, entry.id, Platform.WEB)
    return known[0].address.thread_id if known else None


@writes
def enter(tx: Tx, owner: str, session_id: str, address: Address) -> None:
    """Make `address` a door of the session, for a message that its owner writes in it, and bring
    the session there if it is free. It is active now, so that no reset replaces it."""
    tx.lock(address.key)
    (no,) = leases.locked(tx, session_id, "no")
    session = sessions.found(tx, session_id)
    if session.owner != owner:
        raise SessionNotFound(name=session_id)
    if session.address == address:
        sessions.reopen(tx, session_id)
    elif bindings.is_free(tx, session, no):
        bindings.bring(tx, session, address)
    elif doors.get(tx, address) is None:
        doors.arrived(tx, no, address)
        doors.left(tx, no, address.key, session.messages)
