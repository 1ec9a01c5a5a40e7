"""Transcripts: messages are appended under the session's lease, and read whole or from the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import structs

from segue.core import provenance
from segue.core.address import Platform
from segue.core.errors import SessionError, SessionNotFound, UserError
from segue.core.provenance import Provenance
from segue.core.session import SECOND, Lease, Session, Usage
from segue.core.transcript import Kind, Message, Role, Transcript
from segue.store import errors, leases, search, sessions
from segue.store.base import Row, Topic, Transactions, Tx, reads, writes
from segue.store.values import MESSAGE_COLUMNS, message, message_columns, micros

AWAITS = """(SELECT m.role <> 'assistant' OR m.tool_calls IS NOT NULL FROM messages m
    WHERE m.id > (s.no << 32) AND m.id <= (s.no << 32) + s.last_seq AND m.undone = 0
    AND m.kind = 'said' ORDER BY m.id DESC LIMIT 1)"""
"""SQL expression: the last message of the session `s` has no answer. NULL if there is none."""
_PAGE = 256
_SEQ = 0xFFFFFFFF


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line of an export. Every other line is a Message."""

    segue: Literal[1]
    """The version of the format."""
    id: str
    source: Platform
    started: Annotated[datetime, msgspec.Meta(tz=True)]
    title: str | None = None
    cwd: str | None = None
    model: str | None = None


@writes
def append(tx: Tx, lease: Lease, messages: Sequence[Message], *, usage: Usage | None = None) -> int:
    """Append `messages`, all or none, and return the seq of the last one. Raise SessionMoved if
    the lease was lost."""
    spent = usage or Usage()
    row = tx.row(
        "UPDATE sessions SET last_seq = last_seq + :count, pause = NULL,"
        " input_tokens = input_tokens + :input, output_tokens = output_tokens + :output,"
        " cached_tokens = cached_tokens + :cached,"
        " summary_seq = CASE WHEN :summary > 0 THEN last_seq + :summary ELSE summary_seq END"
        f" WHERE {leases.OURS} RETURNING no, last_seq, active, indexed_seq",
        count=len(messages),
        input=spent.input,
        output=spent.output,
        cached=spent.cached,
        summary=_last_summary(messages),
        **leases.named(lease),
    )
    if row is None:
        raise leases.moved(tx, lease.session_id)
    no, last, active, indexed = row
    # A precision of one second is enough, and avoids most updates of the index.
    if abs(tx.now - active) >= SECOND:
        tx.change("UPDATE sessions SET active = :now WHERE no = :no", now=tx.now, no=no)
    before = last - len(messages)
    insert(tx, no, before, messages)
    if indexed == before:
        search.queue(tx, no)
    tx.nudge_soon(Topic.SESSIONS)
    return last


def insert(tx: Tx, no: int, after: int, messages: Sequence[Message]) -> None:
    """Insert the rows. The caller has already reserved their seqs in the session's row."""
    first = (no << 32) + after + 1
    tx.change_many(
        "INSERT INTO messages (id, role, kind, content, tool_calls, tool_call_id, tool_name,"
        " tokens, at, extras, images, keeps, outcome, provenance) VALUES (:id, :role, :kind,"
        " :content, :tool_calls, :tool_call_id, :tool_name, :tokens, :at, :extras, :images,"
        " :keeps, :outcome, :provenance)",
        [message_columns(entry, first + i) for i, entry in enumerate(messages)],
    )


def _last_summary(messages: Sequence[Message]) -> int:
    """The position of the last summary in `messages`, counted from 1, or 0 if there is none."""
    return max((i for i, m in enumerate(messages, 1) if m.kind is Kind.SUMMARY), default=0)


@reads
def load(tx: Tx, session_id: str) -> Transcript:
    """The whole transcript in order, without messages that were undone."""
    no, _, _ = _place(tx, session_id)
    rows = tx.each(
        f"SELECT {MESSAGE_COLUMNS} FROM messages"
        " WHERE id > :low AND id <= :high AND undone = 0 ORDER BY id",
        low=no << 32,
        high=no << 32 | _SEQ,
    )
    return Transcript(tuple(map(message, rows)))


def is_cut_off(tx: Tx, session_id: str) -> bool:
    """Whether the last message has no answer although no one stopped the turn. While a process
    holds the session, it may be at work."""
    (pause, awaits) = tx.one(
        f"SELECT s.pause, {AWAITS} FROM sessions s WHERE s.id = :id", id=session_id
    )
    return bool(awaits) and pause != leases.Pause.STOPPED


@reads
def last(tx: Tx, session_id: str, count: int, *, after: int = 0) -> Transcript:
    """The last `count` messages, without those up to the seq `after`."""
    no, _, end = _place(tx, session_id)
    return Transcript(tuple(reversed(_back(tx, no, after + 1, end, max(count, 0)))))


@reads
def tail(tx: Tx, session_id: str, budget: int) -> Transcript:
    """The newest messages that fit in `budget` tokens: see `Transcript.tail`. Like `window`, it
    reads no more of the session than that."""
    no, _, end = _place(tx, session_id)
    return _newest(tx, no, 0, end, budget).tail(budget)


@reads
def window(tx: Tx, session_id: str, budget: int) -> Transcript:
    """The messages to show a model with room for `budget` tokens: see `Transcript.window`."""
    no, summary, end = _place(tx, session_id)
    after = _newest(tx, no, summary + 1, end, budget)
    return structs.replace(after, messages=(*_summary(tx, no, summary), *after)).window(budget)


def authors(tx: Tx, session_id: str) -> Provenance:
    """Everyone whose words the agent may repeat from this session: those of its last summary and
    of all messages that it does not replace."""
    no, summary, end = _place(tx, session_id)
    rows = tx.rows(
        "SELECT DISTINCT provenance FROM messages WHERE id > :low AND id < :before AND undone = 0",
        low=no << 32 | summary,
        before=(no << 32) + end,
    )
    before = Transcript(tuple(_summary(tx, no, summary)))
    return provenance.union((before.provenance, *(provenance.parse(row[0]) for row in rows)))


def _summary(tx: Tx, no: int, seq: int) -> list[Message]:
    """The messages that the summary at `seq` keeps, then the summary. Empty if `seq` is 0."""
    if not seq:
        return []
    (summary,) = _back(tx, no, seq, seq + 1, 1)
    kept = _back(tx, no, 0, seq, summary.keeps, "AND kind <> 'summary'")
    return [*reversed(kept), summary]


def _newest(tx: Tx, no: int, low: int, before: int, budget: int) -> Transcript:
    """All messages from `low` to `before` that fit in `budget`, counted from the end, and a few
    more. The authors of those that are not read count as unknown."""
    newest: list[Message] = []
    omitted = provenance.NOTHING
    left = budget
    while True:
        page = _back(tx, no, low, before, _PAGE)
        newest += page
        if len(page) < _PAGE:  # these were the last
            break
        before = page[-1].seq
        left -= sum(m.tokens for m in page)
        # More than fits, including the whole newest group. The oldest group may be cut, but is
        # dropped later.
        if left < 0 and any(m.role is not Role.TOOL for m in newest):
            omitted = provenance.UNKNOWN if _has_any(tx, no, low, before) else provenance.NOTHING
            break
    return Transcript(tuple(reversed(newest)), omitted)


def _has_any(tx: Tx, no: int, low: int, before: int) -> bool:
    """Whether there are messages from `low` to `before`."""
    sql = "SELECT 1 FROM messages WHERE id >= :low AND id < :before AND undone = 0 LIMIT 1"
    return tx.row(sql, low=no << 32 | low, before=(no << 32) + before) is not None


@writes
def undo(tx: Tx, lease: Lease, turns: int = 1) -> Transcript:
    """Hide the last turns, and return what was hidden. Raise SessionError if there are fewer."""
    no, last = _own(tx, lease)
    if turns < 1:
        raise _nothing_to_undo()
    sql = (
        "SELECT id FROM messages WHERE id > :low AND id <= :high AND role = 'user'"
        " AND kind = 'said' AND undone = 0 ORDER BY id DESC LIMIT 1 OFFSET :skip"
    )
    row = tx.row(sql, low=no << 32, high=no << 32 | _SEQ, skip=turns - 1)
    if row is None:
        raise _nothing_to_undo()
    sql = (
        "UPDATE messages SET undone = :last WHERE id >= :first AND id <= :high AND undone = 0"
        f" RETURNING {MESSAGE_COLUMNS}"
    )
    rows = tx.rows(sql, last=last, first=row[0], high=no << 32 | _SEQ)
    return _changed(tx, no, rows)


def _nothing_to_undo() -> SessionError:
    return SessionError("There is no earlier message of yours to undo.")


@writes
def repeat(tx: Tx, lease: Lease) -> Message:
    """Hide the last turn and append its user message again, unanswered, in one step. Return that
    message. Raise SessionError if there is none."""
    undone = undo(tx, lease)
    asked = next(message for message in undone if message.role is Role.USER)
    again = structs.replace(asked, seq=0)
    append(tx, lease, [again])
    return again


@writes
def restore(tx: Tx, lease: Lease) -> Transcript:
    """Restore what was undone since the last message. Raise SessionError if the
    conversation has continued since."""
    no, last = _own(tx, lease)
    sql = (
        "UPDATE messages SET undone = 0 WHERE id > :low AND id <= :high AND undone = :last"
        f" AND undone > 0 RETURNING {MESSAGE_COLUMNS}"
    )
    rows = tx.rows(sql, low=no << 32, high=no << 32 | _SEQ, last=last)
    if not rows:
        raise SessionError(
            "There is nothing to redo: no messages were undone, or the conversation has continued"
            " since."
        )
    return _changed(tx, no, rows)


def _place(tx: Tx, session_id: str) -> tuple[int, int, int]:
    """The session's number, the seq of its last summary, and the next free seq."""
    sql = "SELECT no, summary_seq, last_seq + 1 FROM sessions WHERE id = :id"
    if (row := tx.row(sql, id=session_id)) is None:
        raise SessionNotFound(name=session_id)
    return row[0], row[1], row[2]


def _own(tx: Tx, lease: Lease) -> tuple[int, int]:
    """The session's number and last seq. Raise SessionMoved if the lease was lost, or SessionError
    if the session is being handed off."""
    no, last = leases.own(tx, lease)
    if sessions.is_moving(tx, no):  # the handoff moves what was there when it was requested
        raise errors.being_handed_off()
    return no, last


def _back(tx: Tx, no: int, low: int, before: int, count: int, condition: str = "") -> list[Message]:
    """Up to `count` messages from `before` (excluded) back to `low`, newest first."""
    sql = (
        f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE id >= :low AND id < :before AND undone = 0"
        f" {condition} ORDER BY id DESC LIMIT :count"
    )
    rows = tx.rows(sql, low=no << 32 | low, before=(no << 32) + before, count=count)
    return [message(row) for row in rows]


def _changed(tx: Tx, no: int, rows: list[Row]) -> Transcript:
    """Find the last summary again, after these messages were hidden or restored. Return them."""
    sql = (
        "UPDATE sessions SET edits = edits + 1,"
        " summary_seq = coalesce((SELECT max(id) & :mask FROM messages"
        " WHERE id > :low AND id <= :high AND kind = 'summary' AND undone = 0), 0) WHERE no = :no"
    )
    tx.change(sql, mask=_SEQ, low=no << 32, high=no << 32 | _SEQ, no=no)
    tx.nudge(Topic.SESSIONS)
    return Transcript(tuple(sorted(map(message, rows), key=lambda m: m.seq)))


async def export(store: Transactions, owner: str, session_id: str) -> AsyncIterator[bytes]:
    """Yield the owner's session as JSON lines: a header, then its messages."""
    yield msgspec.json.encode(await _header(store, owner, session_id)) + b"\n"
    after = 0
    while page := await _page(store, session_id, after):
        after = page[-1].seq
        for entry in page:
            yield msgspec.json.encode(entry) + b"\n"


async def import_lines(store: Transactions, owner: str, lines: Iterable[bytes]) -> Session:
    """Create a session of the owner's from an export, all or nothing. Raise UserError with the
    line. Anyone may have written the export, whatever it says of its authors: they are unknown.
    """
    header, messages = _parse(lines)
    return await _import(store, owner, header, messages)


@reads
def _header(tx: Tx, owner: str, session_id: str) -> Header:
    session = sessions.get(tx, session_id)
    if session is None or session.owner != owner:
        raise SessionNotFound(name=session_id)
    return Header(
        segue=1,
        id=session.id,
        source=session.source,
        started=session.started,
        title=session.title,
        cwd=session.cwd,
        model=session.model,
    )


@reads
def _page(tx: Tx, session_id: str, after: int) -> list[Message]:
    no, _, _ = _place(tx, session_id)
    sql = (
        f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE id > :after AND id <= :high"
        " AND undone = 0 ORDER BY id LIMIT :count"
    )
    rows = tx.rows(sql, after=no << 32 | after, high=no << 32 | _SEQ, count=_PAGE)
    return [message(row) for row in rows]


def _parse(lines: Iterable[bytes]) -> tuple[Header, list[Message]]:
    header: Header | None = None
    messages: list[Message] = []
    for number, line in enumerate(lines, 1):
        kind: Any = Message if header else Header
        try:
            entry = msgspec.json.decode(line, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _bad_import(number, error) from error
        if isinstance(entry, Header):
            header = entry
        else:
            messages.append(structs.replace(entry, provenance=provenance.UNKNOWN))
    if header is None:
        raise _bad_import(1, "it is empty")
    return header, messages


def _bad_import(line: int, reason: object) -> UserError:
    return UserError(
        f"Line {line} of the import is not a message of a Segue export: {reason}. Nothing was"
        " imported. Fix that line, then try again."
    )


@writes
def _import(tx: Tx, owner: str, header: Header, messages: Sequence[Message]) -> Session:
    session = sessions.create(
        tx, owner, header.source, title=header.title, cwd=header.cwd, model=header.model
    )
    (no,) = tx.one(
        "UPDATE sessions SET last_seq = :count, summary_seq = :summary, started = :started"
        " WHERE id = :id RETURNING no",
        count=len(messages),
        summary=_last_summary(messages),
        started=micros(header.started),
        id=session.id,
    )
    insert(tx, no, 0, messages)
    search.queue(tx, no)
    return sessions.found(tx, session.id)
