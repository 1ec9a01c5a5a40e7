"""Full-text search in messages.

A search first reads the newest messages of the owner's last sessions, which answers a search for a
common word. Only if they are not enough, it asks the index, and ranks the newest of its matches. So
its cost does not grow with the store, and it finds messages that are not indexed yet.

The index collects all messages with a word before it can say which is the newest. So of several
words, a search looks up only the rare ones, and compares the messages that have them with the
others.

The index is filled in the background, a little at a time, so that others can write: `unindexed`
names the sessions with messages that it lacks, and `sessions.indexed_seq` says how far it has come
in each.
"""

from __future__ import annotations

import asyncio
import math
import re
import string
import unicodedata
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial

from msgspec import Struct

from segue.core.session import SECOND
from segue.core.text import one_line
from segue.core.transcript import Role
from segue.store import retries
from segue.store.base import Row, SqlDialect, Transactions, Tx, marks, reads
from segue.store.values import moment, text

_BATCH = 200
"""How many messages are indexed in one transaction, while no one else can write."""
_BATCHES_AHEAD = 5
"""How many batches of messages a search indexes first, where no gateway does so."""
_RECENT_SESSIONS = 100
_RECENT_MESSAGES = 2_000
"""How many messages of the last sessions a search reads before it asks the index."""
_RECENT_TEXT = 4_000_000
"""The same in characters."""
_DEPTH = 500
"""How many messages of one session it reads."""
_LONGEST = 100_000
"""How many characters of a message PostgreSQL indexes, which can do at most a megabyte. Of longer
ones, a search reads the rest while `_RECENT_TEXT` allows it."""
_RANKED = 2_000
"""How many of the owner's matches in the index are ranked."""
_EXAMINED = 100_000
"""Among how many matches of all owners they are looked for."""
_RARER = 10
"""A word is looked up if it is in at most so many times the messages that the rarest one is in."""
_TERMS = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.word_terms USING fts5vocab (main, words, instance)"
)
"""On SQLite, the places of each word in the index. A connection makes this view for itself."""
_SNIPPET = 160
_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\uff66-\uff9f"  # radicals, kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Characters of scripts without spaces, where a word can begin at any of them and after it."""
_ACCENTS = "\u0300-\u036f"
"""Combining marks that FTS5 keeps in a word. It splits the word at any other mark."""
_PUNCTUATION = "'" + string.punctuation.replace("'", "''") + "'"


class Hit(Struct, frozen=True, kw_only=True):
    """A message that matches a search."""

    session_id: str
    title: str | None
    seq: int
    role: Role
    at: datetime
    snippet: str


class _Match(Struct, frozen=True):
    at: int
    message_id: int


async def messages(
    store: Transactions, owner: str, words: str, *, limit: int = 20, without: str | None = None
) -> tuple[Hit, ...]:
    """Messages in the owner's sessions that contain all the words, newest first. `without` is a
    session to exclude. Messages of the owner's last sessions are always found, and older ones once
    they are indexed (`is_complete`)."""
    for _ in range(_BATCHES_AHEAD):
        if not await index_some(store):
            break
    return await find(store, owner, words, limit=limit, without=without)


@reads
def find(tx: Tx, owner: str, words: str, *, limit: int, without: str | None) -> tuple[Hit, ...]:
    wanted = words_of(text(words))
    if not wanted or limit < 1:
        return ()
    found, is_enough = _recent(tx, owner, wanted, limit, without or "")
    if not is_enough:
        found |= _indexed(tx, owner, wanted, limit, without or "")
    newest = _newest_first(found)[:limit]
    return tuple(_hit(tx, match.message_id, wanted[0]) for match in newest)


def _newest_first(found: set[_Match]) -> list[_Match]:
    return sorted(found, key=lambda match: (match.at, match.message_id), reverse=True)


def words_of(words: str) -> list[str]:
    """The different words of a search, composed (NFC). The marks of a letter belong to its word."""
    composed = unicodedata.normalize("NFC", words)
    spaced = "".join(c if c.isalnum() or _is_mark(c) else " " for c in composed)
    found = (word for word in spaced.split() if not all(map(_is_mark, word)))
    return list(dict.fromkeys(found))


def _is_mark(c: str) -> bool:
    return unicodedata.category(c).startswith("M")


def folded(content: str) -> str:
    """Return the text without case, accents and other marks above or below a letter."""
    if content.isascii():
        return content.lower()
    letters = unicodedata.normalize("NFD", content)
    for mark in filter(unicodedata.combining, set(letters)):
        letters = letters.replace(mark, "")
    return letters.casefold()


def _forms(word: str) -> list[str]:
    """The forms in which a word can be in a text, or in the index: composed, decomposed, and
    without accents."""
    return list(dict.fromkeys((word, unicodedata.normalize("NFD", word), folded(word))))


def _hit(tx: Tx, message_id: int, word: str) -> Hit:
    session_id, title, role, at, content = tx.one(
        "SELECT s.id, s.title, m.role, m.at, m.content FROM messages m"
        " JOIN sessions s ON s.no = :no WHERE m.id = :id",
        no=message_id >> 32,
        id=message_id,
    )
    return Hit(
        session_id=session_id,
        title=title,
        seq=message_id & 0xFFFFFFFF,
        role=Role(role),
        at=moment(at),
        snippet=_snippet(content, word),
    )


def _snippet(content: str, word: str) -> str:
    lower = content.lower()
    places = (lower.find(form.lower()) for form in _forms(word))
    start = max(0, next((place for place in places if place >= 0), 0) - _SNIPPET // 3)
    return ("…" if start else "") + one_line(content[start : start + 2 * _SNIPPET], _SNIPPET)


# The newest messages


def _recent(
    tx: Tx, owner: str, wanted: list[str], limit: int, without: str
) -> tuple[set[_Match], bool]:
    """The matches in the newest messages of the owner's last sessions, and whether all other
    messages are older than `limit` of them."""
    matches = _matcher(wanted)
    found: set[_Match] = set()
    unread = 0
    """No message that was passed over, or of which only a part was read, is newer than this."""
    messages = length = 0
    sessions = _last_sessions(tx, owner)
    for number, (no, session_id, active, last) in enumerate(sessions):
        # The time of a session is that of its last message, to the second.
        newest = max(unread, active + SECOND)
        if _are_newer(found, newest, limit):
            return found, True
        is_over = messages >= _RECENT_MESSAGES or length >= _RECENT_TEXT
        if is_over or number == _RECENT_SESSIONS:
            return found, False
        if session_id == without:
            continue
        rows = _newest(tx, no, last)
        messages += len(rows)
        for message_id, at, content in rows:
            is_cut = len(content) == _LONGEST
            whole = content
            if is_cut and length < _RECENT_TEXT:
                whole = _content(tx, message_id)
                is_cut = False
            length += len(whole)
            if matches(whole):
                found.add(_Match(at, message_id))
            elif is_cut:
                unread = max(unread, at)
        if len(rows) == _DEPTH:
            unread = max(unread, rows[-1][1])
    return found, _are_newer(found, unread, limit) or not unread


def _are_newer(found: set[_Match], than: int, limit: int) -> bool:
    """Whether at least `limit` matches are newer."""
    return len(found) >= limit and sum(match.at > than for match in found) >= limit


def _last_sessions(tx: Tx, owner: str) -> list[Row]:
    return tx.rows(
        "SELECT no, id, active, last_seq FROM sessions WHERE owner = :owner"
        " ORDER BY active DESC, no DESC LIMIT :most",
        owner=owner,
        most=_RECENT_SESSIONS + 1,
    )


def _newest(tx: Tx, no: int, last: int) -> list[Row]:
    """The id, time and text of the session's newest messages, newest first."""
    return tx.rows(
        "SELECT id, at, substr(content, 1, :longest) FROM messages"
        " WHERE id > :low AND id <= :high AND undone = 0 ORDER BY id DESC LIMIT :most",
        longest=_LONGEST,
        low=no << 32,
        high=(no << 32) + last,
        most=_DEPTH,
    )


def _content(tx: Tx, message_id: int) -> str:
    return tx.one("SELECT content FROM messages WHERE id = :id", id=message_id)[0]


def _matcher(words: list[str]) -> Callable[[str], bool]:
    """Return whether all the words begin a word of a text. It finds everything that the index
    would find, and more: it ignores all accents, and finds words in text without spaces."""
    plain = [(word.casefold(), _beginning(word.casefold())) for word in words]
    bare = [(folded(word), _beginning(folded(word))) for word in words]

    def matches(content: str) -> bool:
        as_typed = content.casefold()
        if content.isascii():
            return all(_begins(word, as_typed) for word in bare)
        without_marks = folded(content)
        return all(
            _begins(word, as_typed) or _begins(other, without_marks)
            for word, other in zip(plain, bare, strict=True)
        )

    return matches


def _beginning(word: str) -> re.Pattern[str]:
    if re.match(f"[{_SPACELESS}]", word):
        return re.compile(re.escape(word))
    inside = rf"(?<![^\W_{_SPACELESS}])(?<![{_ACCENTS}])"
    return re.compile(inside + re.escape(word))


def _begins(word: tuple[str, re.Pattern[str]], content: str) -> bool:
    """Whether the text has this word, and a word of the text begins there."""
    letters, pattern = word
    return letters in content and pattern.search(content) is not None


# The index


def _indexed(tx: Tx, owner: str, words: list[str], limit: int, without: str) -> set[_Match]:
    """The owner's matches in the index: the newest `limit` among those of the sessions that began
    last."""
    common = _common(tx, words)
    rare = [word for word in words if word not in common]
    if tx.dialect is SqlDialect.SQLITE:
        match = "SELECT rowid AS id FROM words WHERE words MATCH :query ORDER BY rowid DESC"
        found = _owned(tx, match, owner, without, query=_fts5_query(rare))
        return _having(tx, found, common, limit) if common else found
    match = "SELECT id, vector FROM words WHERE vector @@ to_tsquery('simple', :query)"
    values = {"query": _tsquery(rare)}
    # OFFSET 0 keeps the parts of the query apart. Otherwise PostgreSQL may look up the common
    # words, or read all messages from the end on, for a word in none.
    match = f"SELECT id FROM ({match} OFFSET 0) r"
    if common:
        match += " WHERE vector @@ to_tsquery('simple', :common)"
        values["common"] = _tsquery(common)
    return _owned(tx, f"{match} ORDER BY id DESC", owner, without, **values)


def _owned(tx: Tx, match: str, owner: str, without: str, **values: str) -> set[_Match]:
    """Those of the messages in the index that are the owner's."""
    rows = tx.rows(
        f"SELECT m.at, m.id FROM ({match} LIMIT :examined) w"
        " CROSS JOIN sessions s CROSS JOIN messages m"
        " WHERE s.no = w.id >> 32 AND m.id = w.id"
        " AND s.owner = :owner AND s.id <> :without AND m.undone = 0 LIMIT :most",
        examined=_EXAMINED,
        most=_RANKED,
        owner=owner,
        without=without,
        **values,
    )
    return {_Match(at, message_id) for at, message_id in rows}


def _having(tx: Tx, found: set[_Match], words: list[str], limit: int) -> set[_Match]:
    """The newest `limit` of the messages that have these words."""
    matches = _matcher(words)
    having: set[_Match] = set()
    for match in _newest_first(found):
        if len(having) == limit:
            break
        if matches(_content(tx, match.message_id)):
            having.add(match)
    return having


def _common(tx: Tx, words: list[str]) -> list[str]:
    """The words that are in many more messages than the rarest one."""
    if len(words) == 1:
        return []
    if tx.dialect is SqlDialect.SQLITE:
        tx.change(_TERMS)
        counts = [_count(tx, word) for word in words]
    else:
        counts = [_estimate(tx, word) for word in words]
    most = _RARER * min(counts)
    return [word for word, count in zip(words, counts, strict=True) if count > most]


def _count(tx: Tx, word: str) -> float:
    """How often the word is in the index of SQLite, or infinity if that is too often to count."""
    count = 0
    for start in {form.lower() for form in _forms(word)}:
        (often,) = tx.one(
            "SELECT count(*) FROM"
            " (SELECT 1 FROM word_terms WHERE term >= :start AND term < :beyond LIMIT :most)",
            start=start,
            beyond=f"{start}\U0010ffff",
            most=_RANKED,
        )
        count += often
    return count if count < _RANKED else math.inf


def _estimate(tx: Tx, word: str) -> float:
    """In how many messages PostgreSQL expects the word. It cannot count some of them only."""
    ((plan,),) = tx.one(
        "EXPLAIN (FORMAT JSON) SELECT id FROM words WHERE vector @@ to_tsquery('simple', :query)",
        query=_tsquery([word]),
    )
    return plan["Plan"]["Plan Rows"]


def _fts5_query(words: list[str]) -> str:
    return " AND ".join(_either(" OR ", '"{}"*', word) for word in words)


def _tsquery(words: list[str]) -> str:
    return " & ".join(_either(" | ", "'{}':*", word) for word in words)


def _either(operator: str, prefix: str, word: str) -> str:
    return "(" + operator.join(prefix.format(form) for form in _forms(word)) + ")"


def queue(tx: Tx, no: int) -> None:
    """Record that the index lacks messages of this session."""
    tx.insert("unindexed", conflict="DO NOTHING", session_no=no)


@reads
def is_complete(tx: Tx) -> bool:
    """Whether the index has every message."""
    return tx.row("SELECT 1 FROM unindexed LIMIT 1") is None


@marks
def index_some(tx: Tx) -> bool:
    """Index some messages, those of the newest sessions first. Return False if there are none."""
    # A cross join, because SQLite then begins with the few sessions that are not indexed.
    # On PostgreSQL, a session that is written to now is indexed another time.
    skip = "FOR NO KEY UPDATE OF s SKIP LOCKED" if tx.for_update else ""
    rows = tx.rows(
        "SELECT s.no, s.indexed_seq, s.last_seq FROM unindexed u CROSS JOIN sessions s"
        f" WHERE s.no = u.session_no ORDER BY u.session_no DESC LIMIT :most {skip}",
        most=_BATCH,
    )
    ranges = list(_batch(rows))
    if tx.dialect is SqlDialect.SQLITE:
        insert = "INSERT INTO words (rowid, content) SELECT id, content"
    else:
        # PostgreSQL would take a path or an address for one word.
        words = f"translate(left(content, {_LONGEST}), {_PUNCTUATION}, repeat(' ', 32))"
        insert = f"INSERT INTO words (id, vector) SELECT id, to_tsvector('simple', {words})"
    tx.change_many(
        f"{insert} FROM messages WHERE id > :low AND id <= :high",
        [{"low": no << 32 | done, "high": no << 32 | upto} for no, done, upto in ranges],
    )
    tx.change_many(
        "UPDATE sessions SET indexed_seq = :upto WHERE no = :no",
        [{"no": no, "upto": upto} for no, _, upto in ranges],
    )
    tx.change_many(
        "DELETE FROM unindexed WHERE session_no = :no"
        " AND EXISTS (SELECT 1 FROM sessions WHERE no = :no AND indexed_seq >= last_seq)",
        [{"no": no} for no, _, _ in ranges],
    )
    return bool(ranges)


def _batch(rows: list[Row]) -> Iterator[tuple[int, int, int]]:
    """What to index in these sessions: up to which message, and from which on."""
    left = _BATCH
    for no, done, last in rows:
        if left <= 0:
            return
        upto = min(last, done + left)
        left -= max(upto - done, 1)
        yield no, done, upto


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


POLL_SECONDS = 15.0
"""Seconds between two looks for new messages. A search finds them without the index."""
PAUSE_SECONDS = 0.02
"""Seconds after each batch."""


async def keep_indexed(store: Transactions) -> None:
    """Index new messages until cancelled."""
    while True:
        await catch_up(store)
        await asyncio.sleep(POLL_SECONDS)


async def catch_up(store: Transactions) -> None:
    """Index all messages that are not indexed yet."""
    if await retries.until_stored("look at the search index", partial(is_complete, store)):
        return
    more = True
    while more:
        more = await retries.until_stored("search index", partial(index_some, store))
        await asyncio.sleep(PAUSE_SECONDS)
