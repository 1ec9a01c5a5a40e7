"""Builds stores of any size by bulk SQL: sessions over three years, ten messages in each.

Every table grows with the number of sessions: titles and lineages, tool calls, ended sessions,
bindings and doors on every platform, inbox and outbox rows, handoffs, approvals and pages. The
public operations of the store then work on them as on any other.

The rows are those of the schema SCHEMA. Opening the store upgrades it, as that of a user, so that
later migrations fill what they derive from them.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import segue
from benchmarks.figures import progress
from benchmarks.scale import texts
from segue import store
from segue.core.address import Platform
from segue.store import Store, Tx
from segue.store.base import SqlDialect

SCHEMA = 25
"""The version whose rows are built."""
PER_SESSION = 10
"""Messages of a session."""
PER_OWNER = 1_000
"""Sessions of an owner, in a store of many owners."""
WAITING = 50
"""One message waits for one busy chat for so many sessions."""
ACCOUNT = "bot"
BUSY = "agent:main:whatsapp:dm:busy"
"""The address for which many messages wait."""

_ROOT = Path(__file__).parents[2]
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
_TIME = "(CAST(:began AS BIGINT) + i * CAST(:apart AS BIGINT))"
_LATELY = "(CAST(:now AS BIGINT) - (i * 104729000000) % (6 * CAST(:day AS BIGINT)))"
"""A time within the last six days: entries of the inbox and the outbox are kept for a week."""
_PLATFORM = (
    "CASE WHEN i % 20 < 5 THEN 'local' WHEN i % 20 < 11 THEN 'telegram' WHEN i % 20 < 14 THEN 'web'"
    " WHEN i % 20 < 16 THEN 'discord' WHEN i % 20 = 16 THEN 'slack' WHEN i % 20 = 17 THEN 'matrix'"
    " WHEN i % 20 = 18 THEN 'whatsapp' ELSE 'signal' END"
)
_IS_PAGE = "i % 20 IN (11, 12, 13)"
_IS_CHAT = "i % 20 >= 5"
_IS_TITLED = "i % 5 <> 4"
_IS_OPEN = "i % 8 = 0"


def _words(number: str) -> str:
    return f"CAST({number} AS TEXT)"


# A colon after a quote would begin a parameter.
_ADDRESS = (
    f"'agent:main:' || {_PLATFORM} || ':' || CASE WHEN {_IS_PAGE} THEN 'dm:me:'"
    f" ELSE 'group:-100' || {_words('i % 40')} || ':' END || {_words('i')}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A store to build."""

    sessions: int
    has_many_owners: bool = False

    @property
    def owners(self) -> int:
        return -(-self.sessions // PER_OWNER) if self.has_many_owners else 1

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


def build(url: str, size: Size) -> None:
    """Build a store in the empty database at `url`. The full-text index has its first half."""
    with tempfile.TemporaryDirectory(prefix="segue-source-") as name:
        shutil.copytree(Path(segue.__file__).parent, Path(name) / "segue")
        _end_at(SCHEMA, Path(name) / "segue" / "store")
        command = [sys.executable, "-m", "benchmarks.scale.builder", url, str(size.sessions)]
        if size.has_many_owners:
            command.append("--owners")
        # The upgrade of a store on PostgreSQL puts a copy of it there.
        environment = {**os.environ, "XDG_DATA_HOME": name}  # noqa: TID251
        source = {"PYTHONPATH": name}
        subprocess.run(command, check=True, cwd=_ROOT, env=environment | source)
        subprocess.run([*command, "--upgrade"], check=True, cwd=_ROOT, env=environment)
    if url.startswith("sqlite:"):  # the upgrade made a copy of the store
        backups = urlsplit(url).path + "-backups"
        shutil.rmtree(backups, ignore_errors=True)


async def upgrade(url: str) -> None:
    """Open the store with the program's code of today."""
    async with await store.open(url):
        pass


def _end_at(version: int, source: Path) -> None:
    """Remove later migrations from a copy of the store's code."""
    for script in (source / "migrations").glob("*.sql"):
        if int(script.name[:4]) > version:
            script.unlink()
    module = source / "database.py"
    code = module.read_text("utf-8")
    (latest,) = re.findall(r"(?m)^LATEST = (\d+)$", code)
    ends = min(version, int(latest))
    module.write_text(re.sub(r"(?m)^LATEST = \d+$", f"LATEST = {ends}", code), "utf-8")


async def fill(url: str, size: Size) -> None:
    """Put the rows into an empty database. The program's code has to be that of SCHEMA."""
    async with await store.open(url) as s:
        await s.write(_owners, size)
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
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists():
        shutil.copyfile(wal, other.with_name(f"{other.name}-wal"))
    asyncio.run(_give_away(f"sqlite://{other}", size))


async def _give_away(url: str, size: Size) -> None:
    async with await store.open(url) as s:
        await s.write(_owners, size)
        sql = "UPDATE {} SET owner = 'me' || CAST({} / :share AS TEXT) WHERE {} >= :share"
        values = {"share": PER_OWNER}
        # The number of a session is one more than it is counted here.
        await _write(s, sql.format("sessions", "(no - 1)", "no - 1"), values)
        await _write(s, sql.format("pages", "CAST(key AS INTEGER)", "CAST(key AS INTEGER)"), values)


async def _write(s: Store, sql: str, values: dict[str, int]) -> None:
    def work(tx: Tx) -> None:
        tx.change(sql, **values)

    await s.write(work)


def _owners(tx: Tx, size: Size) -> None:
    tx.change_many(
        "INSERT INTO owners (id, name, created) VALUES (:id, :id, :now) ON CONFLICT DO NOTHING",
        [{"id": owner(number), "now": tx.now} for number in range(size.owners)],
    )


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


def _sessions(tx: Tx, size: Size, first: int, last: int) -> None:
    if tx.dialect is SqlDialect.SQLITE:
        moment = f"strftime('%Y%m%d_%H%M%S', ({_TIME}) / 1000000, 'unixepoch')"
        digits = "printf('%08x', i * 2654435761 % 4294967296)"
    else:
        clock = f"to_timestamp(({_TIME}) / 1000000) AT TIME ZONE 'UTC'"
        moment = f"to_char({clock}, 'YYYYMMDD_HH24MISS')"
        digits = "lpad(to_hex(i * 2654435761 % 4294967296), 8, '0')"
    number = f"i / {texts.TITLES} + 1"
    title = f"CASE WHEN {number} = 1 THEN t.title ELSE t.title || ' #' || {_words(number)} END"
    is_ended = f"NOT ({_IS_OPEN}) AND {_TIME} < CAST(:now AS BIGINT) - CAST(:day AS BIGINT)"
    columns = {
        "id": f"{moment} || '_' || {digits}",
        "owner": f"'me' || CASE WHEN i < :share THEN '' ELSE {_words('i / :share')} END",
        "source": _PLATFORM,
        "started": _TIME,
        "active": f"{_TIME} + 600000000",
        "last_seq": str(PER_SESSION),
        "title": f"CASE WHEN {_IS_TITLED} THEN {title} END",
        "lineage": f"CASE WHEN {_IS_TITLED} THEN t.title END",
        "lineage_no": f"CASE WHEN {_IS_TITLED} THEN {number} END",
        "cwd": "'/home/me/work'",
        "model": "'openai/small'",
        "input_tokens": "4000",
        "output_tokens": "600",
        "ended": f"CASE WHEN {is_ended} THEN {_TIME} + 90000000000 END",
        "end_reason": f"CASE WHEN {is_ended} THEN 'idle' END",
        "epoch": "1",
    }
    source = f"counted JOIN built_titles t ON t.n = i * 7919 % {texts.TITLES} ORDER BY i"
    _insert(tx, size, first, last, "sessions", source, columns)


def _messages(tx: Tx, size: Size, first: int, last: int) -> None:
    """A user asks three times; the agent reads a file twice."""
    positions = " UNION ALL ".join(f"SELECT {j} AS j" for j in range(1, PER_SESSION + 1))
    is_user = "j IN (1, 5, 7)"
    is_call = "j IN (2, 8)"
    is_result = "j IN (3, 9)"
    columns = {
        "id": "CAST(i + 1 AS BIGINT) * 4294967296 + j",
        "role": f"CASE WHEN {is_user} THEN 'user' WHEN {is_result} THEN 'tool'"
        " ELSE 'assistant' END",
        "kind": "'said'",
        "content": "CASE WHEN j IN (1, 7) THEN a.text"
        f" WHEN j = 5 THEN a.text || ' See ticket ' || {_words('i')} || '.'"
        f" WHEN {is_call} THEN 'I will look at the file.'"
        f" WHEN {is_result} THEN a.text || ' ' || b.text || ' ' || b.text"
        " ELSE a.text || ' ' || b.text END",
        "tool_calls": f"CASE WHEN {is_call} THEN CAST(:call AS TEXT) END",
        "tool_call_id": f"CASE WHEN {is_result} THEN 'call_1' END",
        "tool_name": f"CASE WHEN {is_result} THEN 'read_file' END",
        "tokens": "40",
        "at": f"{_TIME} + j * 1000000",
        "provenance": f"CASE WHEN {is_user} THEN 'owner' WHEN {is_result} THEN 'tool'"
        " ELSE 'agent' END",
    }
    source = (
        f"counted CROSS JOIN ({positions}) p"
        f" JOIN built_texts a ON a.n = (i * 31 + j * 17) % {texts.SENTENCES}"
        f" JOIN built_texts b ON b.n = (i * 7 + j * 131) % {texts.SENTENCES} ORDER BY i, j"
    )
    _insert(tx, size, first, last, "messages", source, columns)


def _places(tx: Tx, size: Size, first: int, last: int) -> None:
    """Fill what belongs to the places of the sessions."""

    def fill(table: str, where: str, columns: dict[str, str]) -> None:
        source = f"counted JOIN sessions s ON s.no = i + 1 WHERE {where}"
        _insert(tx, size, first, last, table, source, columns)

    at = {"session_no": "s.no", "address": _ADDRESS}
    opened = at | {"platform": _PLATFORM, "opened": _TIME}
    bound = at | {"version": "1", "bound": _TIME}
    bound["origin"] = f"CASE WHEN {_IS_OPEN} THEN 'handoff' ELSE 'message' END"
    fill("bindings", f"{_IS_CHAT} AND i % 3 = 0", bound)
    opened["seq"] = f"CASE WHEN i % 3 <> 0 THEN {PER_SESSION} END"
    fill("doors", _IS_CHAT, opened)
    fill("moves", f"{_IS_CHAT} AND i % 2 = 0", at | {"seq": "0", "at": _TIME})
    there = {"platform": _PLATFORM, "address": _ADDRESS, "session_id": "s.id"}
    there["finished"] = f"{_LATELY} + 1000000"
    received = there | {
        "account": f"'{ACCOUNT}'",
        "update_id": _words("i"),
        "message_id": _words("i"),
        "body": '\'{"text": "go on"}\'',
        "received": _LATELY,
    }
    fill("inbox", f"{_IS_CHAT} AND i % 2 = 0", received)
    sent = there | {
        "key": f"s.id || '/{PER_SESSION}'",
        "body": "'It is done.'",
        "state": "CASE WHEN i % 1000 = 0 THEN 'failed' ELSE 'sent' END",
        "attempt": "1",
        "receipts": f"'\n\"' || {_words('i')} || '\"'",
        "queued": _LATELY,
        "reported": "1",
    }
    fill("outbox", f"{_IS_CHAT} AND i % 4 = 0", sent)
    moved = {
        "session_no": "s.no",
        "key": f"'h' || {_words('i')}",
        "platform": _PLATFORM,
        "thread": _ADDRESS,
        "epoch": "1",
        "seq": "4",
        "state": "'completed'",
        "claim_by": "0",
        "requested": _TIME,
        "claimed": _TIME,
        "finished": f"{_TIME} + 1000000",
        "process": "'desk-1-00000000'",
        "attempt": "1",
        "fence": "1",
    }
    fill("handoffs", f"{_IS_CHAT} AND i % 10 = 8", moved)
    asked = at | {
        "call_id": "'call_1'",
        "fingerprint": "'0badcafe'",
        "what": "'read notes'",
        "asked": _TIME,
        "until": "0",
        "state": "'used'",
        "answer": "'once'",
    }
    fill("approvals", f"{_IS_CHAT} AND i % 10 = 3", asked)
    page = {
        "id": _words("i"),
        "owner": "s.owner",
        "title": "'page'",
        "key": _words("i"),
        "rev": "2",
        "active": _TIME,
        "session": "s.id",
    }
    fill("pages", _IS_PAGE, page)
    shown = {
        "page": _words("i"),
        "key": f"'m' || {_words('i')}",
        "rev": "1",
        "author": "'agent'",
        "text": "'It is done.'",
        "at": _TIME,
        "session": "s.id",
        "after_seq": str(PER_SESSION),
        "seq": str(PER_SESSION),
    }
    fill("page_messages", _IS_PAGE, shown)


def _insert(
    tx: Tx,
    size: Size,
    first: int,
    last: int,
    table: str,
    source: str,
    columns: Mapping[str, str],
) -> None:
    """Insert rows for the sessions numbered `first` to `last`. The values of the columns are SQL,
    in which `i` is the number."""
    sql = (
        f"{_COUNTED} INSERT INTO {table} ({', '.join(columns)})"
        f" SELECT {', '.join(columns.values())} FROM {source}"
    )
    apart = _SPAN // size.sessions
    values = {
        "first": first,
        "last": last,
        "began": tx.now - apart * size.sessions,
        "apart": apart,
        "now": tx.now,
        "day": _DAY,
        "share": PER_OWNER if size.has_many_owners else size.sessions,
        "call": _CALL,
    }
    used = {name: value for name, value in values.items() if f":{name}" in sql}
    tx.change(sql, **used)


def _index(tx: Tx, first: int, last: int) -> None:
    low = (first + 1) << 32
    high = (last + 1) << 32
    if tx.dialect is SqlDialect.SQLITE:
        insert = "INSERT INTO words (rowid, content) SELECT id, content"
    else:
        insert = "INSERT INTO words (id, vector) SELECT id, to_tsvector('simple', content)"
    known = "words" if tx.dialect is SqlDialect.POSTGRES else "words_docsize"
    missing = f"id NOT IN (SELECT id FROM {known} WHERE id >= :low AND id < :high)"
    tx.change(
        f"{insert} FROM messages WHERE id >= :low AND id < :high AND {missing}", low=low, high=high
    )
    tx.change(
        "UPDATE sessions SET indexed_seq = last_seq WHERE no > :first AND no <= :last",
        first=first,
        last=last,
    )
    if _has_table(tx, "unindexed"):
        sql = "DELETE FROM unindexed WHERE session_no > :first AND session_no <= :last"
        tx.change(sql, first=first, last=last)


def _has_table(tx: Tx, name: str) -> bool:
    if tx.dialect is SqlDialect.SQLITE:
        return tx.row("SELECT 1 FROM sqlite_master WHERE name = :name", name=name) is not None
    return tx.one("SELECT to_regclass(:name) IS NOT NULL", name=name)[0]


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
