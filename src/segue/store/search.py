"""Full-text search in messages."""

from __future__ import annotations

import re
import string
from datetime import datetime

from msgspec import Struct

from segue.core.text import one_line
from segue.core.transcript import Role
from segue.store.base import SqlDialect, Tx
from segue.store.values import moment, text

_BATCH = 500
_SNIPPET = 160
_PUNCTUATION = "'" + string.punctuation.replace("'", "''") + "'"

_SELECT = """
    SELECT s.id, s.title, m.id, m.role, m.at, m.content
    FROM messages m JOIN sessions s ON s.no = m.id >> 32
"""


class Hit(Struct, frozen=True, kw_only=True):
    """A message that matches a search."""

    session_id: str
    title: str | None
    seq: int
    role: Role
    at: datetime
    snippet: str


def find(tx: Tx, owner: str, words: str, *, limit: int, without: str | None) -> tuple[Hit, ...]:
    wanted = re.findall(r"[^\W_]+", text(words))
    if not wanted:
        return ()
    match, query = _query(tx.dialect, wanted)
    sql = (
        f"{_SELECT} WHERE m.id IN ({match}) AND s.owner = :owner AND s.id <> :without"
        " AND m.undone = 0"
        " ORDER BY m.at DESC, m.id DESC LIMIT :limit"
    )
    rows = tx.rows(sql, query=query, owner=owner, without=without or "", limit=limit)
    return tuple(
        Hit(
            session_id=session_id,
            title=title,
            seq=message_id & 0xFFFFFFFF,
            role=Role(role),
            at=moment(at),
            snippet=_snippet(content, wanted[0]),
        )
        for session_id, title, message_id, role, at, content in rows
    )


def _snippet(content: str, word: str) -> str:
    start = max(0, content.lower().find(word.lower()) - _SNIPPET // 3)
    return ("…" if start else "") + one_line(content[start : start + 2 * _SNIPPET], _SNIPPET)


def _query(dialect: SqlDialect, words: list[str]) -> tuple[str, str]:
    """The SQL that finds the ids of messages with all the words (or longer words that start with
    them), and its query string."""
    if dialect is SqlDialect.SQLITE:
        return (
            "SELECT rowid FROM words WHERE words MATCH :query",
            " ".join(f'"{word}"*' for word in words),
        )
    return (
        "SELECT id FROM words WHERE vector @@ to_tsquery('simple', :query)",
        " & ".join(f"'{word}':*" for word in words),
    )


def index_some(tx: Tx, owner: str) -> bool:
    """Index the owner's next unindexed messages. Return False if there are none left."""
    row = tx.row(
        "SELECT no, indexed_seq, last_seq FROM sessions"
        f" WHERE owner = :owner AND indexed_seq < last_seq LIMIT 1 {tx.for_update}",
        owner=owner,
    )
    if row is None:
        return False
    no, done, last = row
    upto = min(last, done + _BATCH)
    if tx.dialect is SqlDialect.SQLITE:
        insert = "INSERT INTO words (rowid, content) SELECT id, content"
    else:
        # PostgreSQL would take a path or an address for one word, and rejects more than a megabyte.
        words = f"translate(left(content, 100000), {_PUNCTUATION}, repeat(' ', 32))"
        insert = f"INSERT INTO words (id, vector) SELECT id, to_tsvector('simple', {words})"
    sql = f"{insert} FROM messages WHERE id > :low AND id <= :high"
    tx.change(sql, low=no << 32 | done, high=no << 32 | upto)
    tx.change("UPDATE sessions SET indexed_seq = :upto WHERE no = :no", upto=upto, no=no)
    return True


def forget(tx: Tx, no: int) -> None:
    """Remove a session's messages from the index, before they are deleted."""
    if tx.dialect is SqlDialect.SQLITE:
        forget = (
            "INSERT INTO words (words, rowid, content) SELECT 'delete', m.id, m.content"
            " FROM messages m JOIN sessions s ON s.no = :no"
            " WHERE m.id > :low AND m.id <= :low + s.indexed_seq"
        )
        tx.change(forget, no=no, low=no << 32)
    else:
        sql = "DELETE FROM words WHERE id >= :low AND id < :high"
        tx.change(sql, low=no << 32, high=(no + 1) << 32)
