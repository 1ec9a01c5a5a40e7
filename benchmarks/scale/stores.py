"""Builds stores of any size by bulk SQL: sessions over three years, ten messages in each.

Every table grows with the number of sessions: titles and lineages, tool calls, ended sessions,
bindings and doors on every platform, inbox and outbox rows, handoffs, approvals and pages. The
public operations of the store then work on them as on any other.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import progress
from benchmarks.scale import texts
from segue import store
from segue.core.address import Platform
from segue.store import Store, Tx
from segue.store.base import SqlDialect

PER_SESSION = 10
"""Messages of a session."""
PER_OWNER = 1_000
"""Sessions of an owner, in a store of many owners."""
WAITING = 50
"""One message waits for one busy chat for so many sessions."""
ACCOUNT = "bot"
BUSY = "agent:main:whatsapp:dm:busy"
"""The address for which many messages wait."""

_SPAN = 3 * 365 * 86_400 * 1_000_000
_DAY = 86_400 * 1_000_000
_CHUNK = 50_000
"""Sessions that are inserted in one transaction."""
_CALL = '[{"id":"call_1","name":"read_file","arguments":"{\\"path\\": \\"notes/today.md\\"}"}]'

# Counts to :last inside either database.
_COUNTED = (
    "WITH RECURSIVE counted (i) AS"
    " (SELECT CAST(:first AS BIGINT) UNION ALL SELECT i + 1 FROM counted WHERE i < :last)"
)
_TIMES = "CAST(:began AS BIGINT) + i * CAST(:apart AS BIGINT)"
_PLATFORM = (
    "CASE WHEN i % 20 < 5 THEN 'local' WHEN i % 20 < 11 THEN 'telegram' WHEN i % 20 < 14 THEN 'web'"
    " WHEN i % 20 < 16 THEN 'discord' WHEN i % 20 = 16 THEN 'slack' WHEN i % 20 = 17 THEN 'matrix'"
    " WHEN i % 20 = 18 THEN 'whatsapp' ELSE 'signal' END"
)
_ADDRESS = (
    f"'agent:main:' || {_PLATFORM} || CASE WHEN i % 20 IN (11, 12, 13) THEN ':dm:me:'"
    " ELSE ':group:-100' || CAST(i % 40 AS TEXT) || ':' END || CAST(i AS TEXT)"
)
_IS_CHAT = "i % 20 >= 5"
_IS_TITLED = "i % 5 <> 4"
_IS_OPEN = "i % 8 = 0"
_OWNER = "'me' || CASE WHEN i / :share = 0 THEN '' ELSE CAST(i / :share AS TEXT) END"
_AT_ONCE = "CAST(:now AS BIGINT) - (i * 104729) % (6 * CAST(:day AS BIGINT))"
"""A time within the last six days: entries of the inbox and the outbox are kept for a week."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A store to build."""

    sessions: int
    has_many_owners: bool = False

    @property
    def owners(self) -> int:
        return max(1, self.sessions // PER_OWNER) if self.has_many_owners else 1

    @property
    def messages(self) -> int:
        return self.sessions * PER_SESSION

    @property
    def waiting(self) -> int:
        """How many messages wait for one chat."""
        return max(1, self.sessions // WAITING)

    @property
    def name(self) -> str:
        owners = f"{self.owners:,} owners" if self.has_many_owners else "one owner"
        return f"{self.sessions:,} sessions, {owners}"

    @property
    def file(self) -> str:
        return f"{self.sessions}-{self.owners}.db"


def owner(number: int) -> str:
    """The owner with this number. The first is the user of the machine."""
    return f"me{number}" if number else "me"


def title(number: int) -> str:
    """The title of the session with this number."""
    base = texts.titles()[number * 7_919 % texts.TITLES]
    lineage = number // texts.TITLES + 1
    return base if lineage == 1 else f"{base} #{lineage}"


async def build(url: str, size: Size) -> None:
    """Fill the empty store at `url`. Its first half is indexed for the full-text search."""
    async with await store.open(url) as s:
        for number in range(size.owners):
            await s.owners.ensure(owner(number))
        await s.write(_begin)
        for first in range(0, size.sessions, _CHUNK):
            last = min(first + _CHUNK, size.sessions) - 1
            await s.write(_sessions, size, first, last)
            await s.write(_messages, size, first, last)
            await s.write(_places, size, first, last)
            progress(f"scale: {size.name}: {last + 1:,} built")
        await s.write(_end)
        await index(s, size, 0, size.sessions // 2)
        await s.write(_analyze)


async def index(s: Store, size: Size, first: int, last: int) -> None:
    """Index the messages of the sessions numbered `first` to `last` (excluded), in bulk."""
    for low in range(first, last, _CHUNK):
        await s.write(_index, low, min(low + _CHUNK, last))
        progress(f"scale: {size.name}: {min(low + _CHUNK, last):,} indexed")


def share_out(size: Size, path: Path, other: Path) -> None:
    """Make of the store of one owner one of many, with the same contents."""
    shutil.copyfile(path, other)
    asyncio.run(_give_away(f"sqlite://{other}", size))


async def _give_away(url: str, size: Size) -> None:
    async with await store.open(url) as s:
        for number in range(size.owners):
            await s.owners.ensure(owner(number))
        sql = "UPDATE {} SET owner = 'me' || CAST({} / :share AS TEXT) WHERE {} >= :share"
        values = {"share": PER_OWNER}
        # The number of a session is one more than it is counted here.
        await _write(s, sql.format("sessions", "(no - 1)", "no - 1"), values)
        await _write(s, sql.format("pages", "CAST(key AS INTEGER)", "CAST(key AS INTEGER)"), values)


async def _write(s: Store, sql: str, values: dict[str, int]) -> None:
    def work(tx: Tx) -> None:
        tx.change(sql, **values)

    await s.write(work)


def _begin(tx: Tx) -> None:
    tx.change("CREATE TABLE built_titles (n BIGINT PRIMARY KEY, title TEXT)".replace("BIG", ""))
    tx.change("CREATE TABLE built_texts (n BIGINT PRIMARY KEY, text TEXT)".replace("BIG", ""))
    titles = [{"n": n, "title": title} for n, title in enumerate(texts.titles())]
    tx.change_many("INSERT INTO built_titles (n, title) VALUES (:n, :title)", titles)
    sentences = [{"n": n, "text": text} for n, text in enumerate(texts.sentences())]
    tx.change_many("INSERT INTO built_texts (n, text) VALUES (:n, :text)", sentences)


def _end(tx: Tx) -> None:
    tx.change("DROP TABLE built_titles")
    tx.change("DROP TABLE built_texts")


def _analyze(tx: Tx) -> None:
    # PostgreSQL's autovacuum would do this within a minute of this many changes. SQLite knows what
    # it has learned itself: nothing, unless the program asks for it.
    if tx.dialect is SqlDialect.POSTGRES:
        tx.change("ANALYZE")


def _shared(tx: Tx, size: Size) -> dict[str, int]:
    apart = _SPAN // size.sessions
    return {
        "began": tx.now - apart * size.sessions,
        "apart": apart,
        "day": _DAY,
        "now": tx.now,
        "share": PER_OWNER if size.has_many_owners else size.sessions,
    }


def _sessions(tx: Tx, size: Size, first: int, last: int) -> None:
    if tx.dialect is SqlDialect.SQLITE:
        moment = f"strftime('%Y%m%d_%H%M%S', ({_TIMES}) / 1000000, 'unixepoch')"
        digits = "printf('%08x', i * 2654435761 % 4294967296)"
    else:
        moment = (
            f"to_char(to_timestamp(({_TIMES}) / 1000000) AT TIME ZONE 'UTC', 'YYYYMMDD_HH24MISS')"
        )
        digits = "lpad(to_hex(i * 2654435761 % 4294967296), 8, '0')"
    number = f"CASE WHEN {_IS_TITLED} THEN i / {texts.TITLES} + 1 END"
    is_ended = f"NOT ({_IS_OPEN}) AND {_TIMES} < CAST(:now AS BIGINT) - CAST(:day AS BIGINT)"
    _change(
        tx,
        size,
        f"{_COUNTED} INSERT INTO sessions (id, owner, source, started, active, last_seq, title,"
        " lineage, lineage_no, cwd, model, input_tokens, output_tokens, ended, end_reason, epoch)"
        f" SELECT {moment} || '_' || {digits}, {_OWNER}, {_PLATFORM}, {_TIMES}, {_TIMES} + 600000000,"
        f" {PER_SESSION}, CASE WHEN NOT ({_IS_TITLED}) THEN NULL WHEN i < {texts.TITLES} THEN t.title"
        f" ELSE t.title || ' #' || CAST(i / {texts.TITLES} + 1 AS TEXT) END,"
        f" CASE WHEN {_IS_TITLED} THEN t.title END, {number}, '/home/me/work', 'openai/small',"
        f" 4000, 600, CASE WHEN {is_ended} THEN {_TIMES} + 90000000000 END,"
        f" CASE WHEN {is_ended} THEN 'idle' END, 1"
        f" FROM counted JOIN built_titles t ON t.n = i * 7919 % {texts.TITLES} ORDER BY i",
        first,
        last,
    )


def _messages(tx: Tx, size: Size, first: int, last: int) -> None:
    positions = " UNION ALL ".join(f"SELECT {j} AS j" for j in range(1, PER_SESSION + 1))
    no = "CAST(i + 1 AS BIGINT)"
    _change(
        tx,
        size,
        f"{_COUNTED} INSERT INTO messages (id, role, kind, content, tool_calls, tool_call_id,"
        " tool_name, tokens, at, provenance)"
        f" SELECT {no} * 4294967296 + j,"
        " CASE WHEN j IN (1, 5, 7) THEN 'user' WHEN j IN (3, 9) THEN 'tool' ELSE 'assistant' END,"
        " 'said', CASE WHEN j IN (1, 7) THEN a.text WHEN j = 5 THEN a.text || ' See ticket '"
        " || CAST(i AS TEXT) || '.' WHEN j IN (2, 8) THEN 'I will look at the file.'"
        " WHEN j IN (3, 9) THEN a.text || ' ' || b.text || ' ' || b.text ELSE a.text || ' ' || b.text"
        " END, CASE WHEN j IN (2, 8) THEN CAST(:call AS TEXT) END,"
        " CASE WHEN j IN (3, 9) THEN 'call_1' END, CASE WHEN j IN (3, 9) THEN 'read_file' END,"
        f" 40, {_TIMES} + j * 1000000, CASE WHEN j IN (1, 5, 7) THEN 'owner' WHEN j IN (3, 9)"
        " THEN 'tool' ELSE 'agent' END"
        f" FROM counted CROSS JOIN ({positions}) p"
        f" JOIN built_texts a ON a.n = (i * 31 + j * 17) % {texts.SENTENCES}"
        f" JOIN built_texts b ON b.n = (i * 7 + j * 131) % {texts.SENTENCES}"
        " ORDER BY i, j",
        first,
        last,
        call=_CALL,
    )


def _places(tx: Tx, size: Size, first: int, last: int) -> None:
    """Fill what belongs to the places of the sessions."""
    for sql in (
        "INSERT INTO bindings (address, session_no, origin, version, bound)"
        f" SELECT {_ADDRESS}, i + 1, CASE WHEN {_IS_OPEN} THEN 'handoff' ELSE 'message' END, 1,"
        f" {_TIMES} FROM counted WHERE {_IS_CHAT} AND i % 3 = 0",
        "INSERT INTO doors (address, session_no, platform, opened, seq)"
        f" SELECT {_ADDRESS}, i + 1, {_PLATFORM}, {_TIMES},"
        f" CASE WHEN i % 3 <> 0 THEN {PER_SESSION} END FROM counted WHERE {_IS_CHAT}",
        "INSERT INTO moves (session_no, seq, address, at)"
        f" SELECT i + 1, 0, {_ADDRESS}, {_TIMES} FROM counted WHERE {_IS_CHAT} AND i % 2 = 0",
        # The last update of every other chat stays for good, as prune leaves it.
        "INSERT INTO inbox (platform, account, update_id, address, body, received, finished,"
        " session_id, message_id)"
        f" SELECT {_PLATFORM}, '{ACCOUNT}', CAST(i AS TEXT), {_ADDRESS}, '{{\"text\":\"go on\"}}',"
        f" {_AT_ONCE}, {_AT_ONCE} + 1000000, s.id, CAST(i AS TEXT)"
        f" FROM counted JOIN sessions s ON s.no = i + 1 WHERE {_IS_CHAT} AND i % 2 = 0",
        "INSERT INTO outbox (key, platform, address, session_id, body, state, attempt, receipts,"
        " queued, finished, reported)"
        f" SELECT s.id || '/{PER_SESSION}', {_PLATFORM}, {_ADDRESS}, s.id, 'It is done.',"
        " CASE WHEN i % 1000 = 0 THEN 'failed' ELSE 'sent' END, 1,"
        f" '\n\"' || CAST(i AS TEXT) || '\"', {_AT_ONCE}, {_AT_ONCE} + 1000000, 1"
        f" FROM counted JOIN sessions s ON s.no = i + 1 WHERE {_IS_CHAT} AND i % 4 = 0",
        "INSERT INTO handoffs (session_no, key, platform, epoch, seq, state, claim_by, requested,"
        " finished, thread, process, claimed, attempt, fence)"
        f" SELECT i + 1, 'h' || CAST(i AS TEXT), {_PLATFORM}, 1, 4, 'completed', 0, {_TIMES},"
        f" {_TIMES} + 1000000, {_ADDRESS}, 'desk-1-00000000', {_TIMES}, 1, 1"
        f" FROM counted WHERE {_IS_CHAT} AND i % 10 = 8",
        "INSERT INTO approvals (session_no, call_id, fingerprint, what, address, asked, until,"
        " state, answer)"
        f" SELECT i + 1, 'call_1', '0badcafe', 'read notes', {_ADDRESS}, {_TIMES}, 0, 'used', 'once'"
        f" FROM counted WHERE {_IS_CHAT} AND i % 10 = 3",
        "INSERT INTO pages (id, owner, title, key, rev, active, session)"
        f" SELECT CAST(i AS TEXT), s.owner, 'page', CAST(i AS TEXT), 2, {_TIMES}, s.id"
        " FROM counted JOIN sessions s ON s.no = i + 1 WHERE i % 20 IN (11, 12, 13)",
        "INSERT INTO page_messages (page, key, rev, author, text, at, session, after_seq, seq)"
        f" SELECT CAST(i AS TEXT), 'm' || CAST(i AS TEXT), 1, 'agent', 'It is done.', {_TIMES},"
        f" s.id, {PER_SESSION}, {PER_SESSION}"
        " FROM counted JOIN sessions s ON s.no = i + 1 WHERE i % 20 IN (11, 12, 13)",
    ):
        _change(tx, size, f"{_COUNTED} {sql}", first, last)


def _change(
    tx: Tx, size: Size, sql: str, first: int, last: int, **more: int | str
) -> None:
    values = {**_shared(tx, size), "first": first, "last": last, **more}
    used = {name: value for name, value in values.items() if f":{name}" in sql}
    tx.change(sql, **used)


def _index(tx: Tx, first: int, last: int) -> None:
    low = (first + 1) << 32
    high = (last + 1) << 32
    if tx.dialect is SqlDialect.SQLITE:
        insert = "INSERT INTO words (rowid, content) SELECT id, content"
    else:
        insert = "INSERT INTO words (id, vector) SELECT id, to_tsvector('simple', content)"
    missing = "id NOT IN (SELECT id FROM words)" if tx.dialect is SqlDialect.POSTGRES else (
        "id NOT IN (SELECT id FROM words_docsize WHERE id >= :low AND id < :high)"
    )
    tx.change(
        f"{insert} FROM messages WHERE id >= :low AND id < :high AND {missing}", low=low, high=high
    )
    tx.change(
        "UPDATE sessions SET indexed_seq = last_seq WHERE no > :first AND no <= :last",
        first=first,
        last=last,
    )


def wait_in_line(tx: Tx, count: int) -> None:
    """Queue `count` messages for one busy chat."""
    _queue(tx, "waits", count)


def _queue(tx: Tx, key: str, count: int) -> None:
    tx.change(
        f"{_COUNTED} INSERT INTO outbox (key, platform, address, body, state, queued)"
        f" SELECT '{key}:' || CAST(i AS TEXT), '{Platform.WHATSAPP}', '{BUSY}', 'It is done.',"
        " 'queued', CAST(:now AS BIGINT) FROM counted",
        first=1,
        last=count,
        now=tx.now,
    )


def leave_line(tx: Tx) -> None:
    """Remove the messages for the busy chat."""
    tx.change(f"DELETE FROM outbox WHERE address = '{BUSY}'")


def indexed(tx: Tx) -> int:
    """How many messages the full-text index has."""
    if tx.dialect is SqlDialect.SQLITE:
        return tx.one("SELECT count(*) FROM words_docsize")[0]
    return tx.one("SELECT count(*) FROM words")[0]


Progress = Callable[[str], None]
