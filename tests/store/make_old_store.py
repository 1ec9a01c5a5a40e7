"""Make the stores of earlier versions in tests/store/old, which test_old_stores.py upgrades.

    .venv/bin/python -m tests.store.make_old_store        # those that are missing
    .venv/bin/python -m tests.store.make_old_store 24     # this one, again

A change that adds a migration runs the first command and commits the three files: `NN.db.gz` is an
SQLite store, `NN.sql.gz` a dump of a PostgreSQL store, and `NN.json` the conversations in both. If
the migration adds a table, put a row for it into `rows` first. A store that is not of the newest
version needs a clone with the whole history.

The code of that version writes the conversations: the working tree if the migration is its newest,
else the last commit of `git log --first-parent` with that migration as its newest. If several
migrations came in one commit, no program ever wrote a store of those between. Then the last version
before writes the store, and the program that introduced the migration upgrades it, as if it ended
there. SQL fills the other tables, as far as they and their columns exist in that version.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import psycopg

from segue.store import database
from tests.fakes import postgres
from tests.harness import stores

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "old"
MIGRATIONS = "src/segue/store/migrations"

Row = dict[str, Any]


def numbers() -> list[int]:
    """The migrations of the working tree."""
    return sorted({int(path.name[:4]) for path in (ROOT / MIGRATIONS).glob("*.sql")})


# What is put in

AT = 1_767_268_800_000_000
"""Noon on 1 January 2026, where the clock of the tests starts."""
TICKS = 1_000_000_000
DM = "agent:main:telegram:dm:42"
TOPIC = "agent:main:telegram:group:-100200:7"
CHANNEL = "agent:main:slack:channel:C024BE91L"
PAGE = "agent:main:web:dm:p1"
DEAD = "desk-1-00000000"
"""A process that has ended."""

_CALL = {"id": "call_1", "name": "shell", "arguments": '{"command":"ls \\"the garden\\""}'}
_RESULT = {"role": "tool", "tool_call_id": "call_1", "tool_name": "shell"}
_NOT_FINISHED = "[interrupted: this tool call did not finish, and what it did is not known]"
CONVERSATIONS: list[Row] = [
    {
        "owner": "me",
        "title": "roses",
        "messages": [
            {"role": "user", "content": "where are my roses?"},
            {"role": "assistant", "content": "", "tool_calls": [_CALL]},
            {**_RESULT, "content": "roses\n\n-- of which 3\n\\. red\n\ntulips — 🌷\n"},
            {"role": "assistant", "content": "In the garden, beside the tulips."},
            {"role": "system", "content": "The roses are in the garden.", "kind": "summary"},
            {"role": "user", "content": "and the tulips?"},
            {"role": "assistant", "content": "Beside them."},
        ],
    },
    {
        "owner": "me",
        "title": "roses",
        "messages": [
            {"role": "user", "content": "water them"},
            {"role": "assistant", "content": "I try.", "tool_calls": [_CALL]},
            {**_RESULT, "content": _NOT_FINISHED},
            {"role": "user", "content": "[The user forwarded this. It was written by x:]\n> hi"},
        ],
    },
    {
        "owner": "me",
        "title": None,
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "Hello."},
            {"role": "system", "content": "[undelivered]", "kind": "synthetic"},
        ],
        "undone": [
            {"role": "user", "content": "never mind"},
            {"role": "assistant", "content": "Never."},
        ],
    },
    {
        "owner": "you",
        "title": "Grüße",
        "messages": [{"role": "user", "content": "look\n\n[attached file: /tmp/x]"}],
    },
    {"owner": "you", "title": None, "messages": []},
]


def rows(version: int, ids: Sequence[str]) -> list[tuple[str, Row]]:
    """Rows for the tables beside those of the conversations. Those that `version` lacks count
    too: `_insert` leaves them out."""
    has_steps = version >= 10
    has_ticks = version >= 22
    return [
        ("identities", {"platform": "telegram", "user_id": "42", "owner": "me", "name": "Me"}
            | {"linked": AT}),
        ("homes", {"owner": "me", "platform": "telegram", "address": DM, "name": "home"}),
        ("bindings", {"address": TOPIC, "session_no": 1, "origin": "handoff", "version": 3}
            | {"bound": AT}),
        ("bindings", {"address": CHANNEL, "session_no": 4, "origin": "message", "version": 1}
            | {"bound": AT}),
        ("doors", {"address": TOPIC, "session_no": 1, "platform": "telegram", "opened": AT}),
        ("doors", {"address": CHANNEL, "session_no": 2, "platform": "slack", "opened": AT}
            | {"seq": 2}),
        *(("handoffs", row) for row in _handoffs(has_steps=has_steps)),
        *(("inbox", row) for row in _inbox(ids)),
        *(("outbox", row) for row in _outbox(ids, has_ticks=has_ticks)),
        ("uploads", {"key": "queued", "data": b"\x00\x01a file"}),
        ("bubbles", {"platform": "telegram", "address": DM, "key": "b", "body": "so far"}
            | {"receipt": "79", "session_id": ids[0]}),
        *(("approvals", row) for row in _approvals()),
        ("grants", {"session_no": 1, "fingerprint": "0badcafe", "granted": AT}),
        ("notes", {"owner": "me", "number": 1, "text": "likes roses", "written": AT}),
        ("pairings", {"digest": "00" * 32, "owner": "me", "until": TICKS}),
        ("gateways", {"process": DEAD, "name": "a gateway on desk", "started": AT, "until": TICKS}),
        ("gateway_platforms", {"platform": "telegram", "process": DEAD}),
        ("browsers", {"id": "b1", "digest": "11" * 32, "secret": "22" * 32, "made": AT, "seen": AT}
            | {"origin": "http://127.0.0.1:8080"}),
        ("pages", {"id": "p1", "owner": "me", "title": "roses", "key": PAGE, "active": AT}
            | {"session": ids[1]}),
        ("page_messages", {"page": "p1", "key": "m1", "rev": 1, "author": "person", "at": AT}
            | {"text": "water them"}),
        ("page_messages", {"page": "p1", "key": "m2", "rev": 2, "author": "agent", "at": AT}
            | {"text": "May I?", "buttons": '[["Yes","y"]]'}),
        ("page_updates", {"page": "p1", "key": "u1", "browser": "b1", "kind": "say", "message": 0}
            | {"text": "hello"}),
        ("page_links", {"id": "l1", "secret": "33" * 32, "owner": "me", "process": DEAD}
            | {"until": TICKS}),
        ("page_places", {"machine": "desk", "port": 8080, "addresses": "127.0.0.1"}),
        ("moves", {"session_no": 1, "seq": 4, "address": TOPIC, "at": AT}),
        ("wishes", {"session_no": 2, "key": "w", "process": DEAD, "home": DM, "new_thread": 0}
            | {"now": 0}),
        *_jobs(ids),
        ("contacts", {"platform": "telegram", "account": "bot", "at": AT}),
        ("last_updates", {"address": DM, "account": "bot", "platform": "telegram", "chat": DM}
            | {"no": 3, "update_id": "3", "received": AT}),
        ("delivery_events", {"address": DM, "receipt": "80", "outcome": "delivered"}
            | {"detail": "sent"}),
    ]  # fmt: skip


def _changes(version: int) -> list[str]:
    """What is changed in the sessions after that."""
    # For the sessions that `rows` binds.
    placed = [
        "UPDATE sessions SET platform = 'telegram' WHERE no = 1",
        "UPDATE sessions SET platform = 'slack' WHERE no = 4",
    ]
    return [_HOLD, *(placed if version >= 26 else [])]


def _handoffs(*, has_steps: bool) -> list[Row]:
    asked: Row = {"platform": "telegram", "epoch": 1, "seq": 4, "claim_by": TICKS, "requested": AT}
    taken: Row = asked | {"process": DEAD, "claimed": AT, "attempt": 1, "fence": 1}
    failed: Row = asked | {"session_no": 1, "state": "failed", "finished": AT}
    return [
        failed | {"key": "h1", "failure": "cancelled"}
        | {"error": "Cancelled. The session stayed where it was."},
        failed | {"key": "h2", "failure": "expired"}
        | {"error": "No gateway took it up in time. The session stayed where it was."},
        failed | {"key": "h3", "failure": "abandoned"}
        | {"error": "The gateway stopped in the middle of it, and none went on with it."},
        failed | {"key": "h4", "failure": "error", "error": "Telegram does not answer."},
        taken | {"session_no": 1, "key": "h5", "state": "completed", "finished": AT}
        | {"thread": TOPIC},
        asked | {"session_no": 3, "key": "h6", "state": "pending", "home": DM, "message": "go on"},
        taken | {"session_no": 5, "key": "h7", "state": "running", "lease_until": TICKS}
        | {"step": "opening" if has_steps else "opening a thread"},
    ]  # fmt: skip


def _inbox(ids: Sequence[str]) -> list[Row]:
    received: Row = {"platform": "telegram", "account": "bot", "address": DM, "received": AT}
    return [
        received | {"update_id": "1", "body": "hello"},
        received | {"update_id": "2", "body": "done", "finished": AT, "session_id": ids[0]},
        received | {"update_id": "3", "body": "bad", "finished": AT, "error": "It failed."},
    ]


def _outbox(ids: Sequence[str], *, has_ticks: bool) -> list[Row]:
    queued: Row = {"platform": "telegram", "address": DM, "body": "hi", "queued": AT}
    over: Row = queued | {"session_id": ids[0], "finished": AT}
    return [
        queued | {"key": "queued", "state": "queued", "not_before": TICKS}
        | {"asked": TICKS if has_ticks else 1},
        queued | {"key": "sending", "state": "sending", "process": DEAD, "until": TICKS}
        | {"attempt": 1},
        over | {"key": "sent", "state": "sent", "receipt": '7"7', "receipts": '"7\\"7"'},
        over | {"key": "failed", "state": "failed", "error": "The chat is gone."},
        over | {"key": "uncertain", "state": "uncertain"},
    ]  # fmt: skip


def _approvals() -> list[Row]:
    asked: Row = {"session_no": 1, "fingerprint": "0badcafe", "what": "rm roses", "address": TOPIC}
    asked |= {"asked": AT, "until": TICKS}
    return [
        asked | {"call_id": "1", "state": "waiting"},
        asked | {"call_id": "2", "state": "answered", "answer": "once"},
        asked | {"call_id": "3", "state": "used", "answer": "session"},
        asked | {"call_id": "4", "state": "void"},
        asked | {"call_id": "5", "state": "expired"},
    ]


def _jobs(ids: Sequence[str]) -> list[tuple[str, Row]]:
    job: Row = {"owner": "me", "prompt": "water", "zone": "UTC", "verbatim": 0, "deliver": "home"}
    job |= {"created": AT}
    run: Row = {"job_id": 1, "started": AT}
    return [
        ("jobs", job | {"name": "daily", "kind": "cron", "expression": "0 8 * * *", "due": AT}
            | {"state": "enabled", "session_id": ids[1]}),
        ("jobs", job | {"name": "hourly", "kind": "every", "at": AT, "period": 3_600_000_000}
            | {"state": "paused", "only_if": "file", "watched": "/tmp/x"}),
        ("jobs", job | {"name": "once", "kind": "once", "at": AT, "state": "done"}),
        ("runs", run | {"due": AT, "state": "reported", "finished": AT, "seq": 2}),
        ("runs", run | {"due": AT + 1, "state": "failed", "finished": AT, "error": "No model."}),
        ("runs", run | {"due": AT + 2, "state": "waiting"}),
        ("reports", {"run_id": 1, "target": "home", "address": DM, "body": "done", "made": AT}
            | {"state": "queued", "key": "sent"}),
    ]  # fmt: skip


# The code of a version


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _numbers_at(commit: str) -> list[int]:
    names = _git("ls-tree", "--name-only", commit, f"{MIGRATIONS}/").split()
    return sorted({int(Path(name).name[:4]) for name in names})


def _commit(version: int) -> tuple[str, bool]:
    """The commit that writes or upgrades a store of `version`, and whether that is its newest
    migration. An empty name stands for the working tree."""
    if numbers()[-1] == version:
        return "", True
    wanted = list(range(1, version + 1))
    last = "HEAD"
    introduced = ""
    for change in _git("log", "--first-parent", "--format=%H", "--", MIGRATIONS).split():
        found = _numbers_at(change)
        if found == wanted:
            return last, True
        # For a while, branches counted on their own.
        if found == list(range(1, len(found) + 1)) and len(found) > version:
            introduced = change
        last = f"{change}^1"
    return introduced, False


@contextmanager
def _source(commit: str, version: int) -> Generator[Path]:
    """The source of that commit, with its migrations up to `version`."""
    with tempfile.TemporaryDirectory(prefix="segue-") as name:
        if commit:
            archive = subprocess.run(
                ["git", "-C", str(ROOT), "archive", commit, "src"], check=True, capture_output=True
            )
            subprocess.run(["tar", "-x", "-C", name], input=archive.stdout, check=True)
            source = Path(name) / "src"
        else:
            source = ROOT / "src"
        if commit:
            _end_at(version, source)
        yield source


def _end_at(version: int, source: Path) -> None:
    for script in (source.parent / MIGRATIONS).glob("*.sql"):
        if int(script.name[:4]) > version:
            script.unlink()
    last = re.compile(r"(?m)^LATEST = \d+$")
    modules = [
        path for path in (source / "segue/store").glob("*.py") if last.search(path.read_text())
    ]
    (module,) = modules  # named otherwise in earlier commits
    module.write_text(last.sub(f"LATEST = {version}", module.read_text()))


_WRITE = """
import asyncio, functools, importlib, json, secrets, sys
import msgspec
import segue.store
from segue.core.address import Platform
from segue.core.transcript import Message
from segue.testing.clock import FakeClock

def function(store, module, name):
    # Older programs group the functions at the store.
    if group := getattr(store, module, None):
        return getattr(group, name)
    return functools.partial(getattr(importlib.import_module(f"segue.store.{module}"), name), store)

async def main(url, conversations):
    clock = FakeClock()
    made = []
    async with await segue.store.open(url, clock=clock) as store:
        for conversation in conversations:
            owner = conversation["owner"]
            await function(store, "owners", "ensure")(owner, owner.title())
            secrets.token_hex = lambda size: f"{len(made) + 1:0{2 * size}x}"
            session = await function(store, "sessions", "create")(
                owner, Platform.LOCAL, title=conversation["title"], cwd="/home/me"
            )
            lease = await function(store, "leases", "acquire")(session.id, "the terminal")
            at = clock.now().isoformat()
            messages = [{"at": at, **m} for m in conversation["messages"]]
            undone = [{"at": at, **m} for m in conversation.get("undone", ())]
            appended = msgspec.convert(messages + undone, list[Message])
            if appended:
                await function(store, "transcripts", "append")(lease, appended)
            if undone:
                await function(store, "transcripts", "undo")(lease)
            await function(store, "leases", "release")(lease)
            clock.advance(60)
            made.append({"id": session.id, "title": session.title, "messages": messages})
    print(json.dumps(made))

asyncio.run(main(sys.argv[1], json.load(sys.stdin)))
"""
_UPGRADE = """
import asyncio, sys
import segue.store
from segue.testing.clock import FakeClock

async def main(url):
    await (await segue.store.open(url, clock=FakeClock())).close()

asyncio.run(main(sys.argv[1]))
"""


def _run(program: str, source: Path, url: str, given: object = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, url],
        input=json.dumps(given),
        env={"PYTHONPATH": str(source)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def _write(version: int, url: str) -> list[Row]:
    """Make a store of `version` there, and return the conversations in it."""
    writer = version
    while not (found := _commit(writer))[1]:
        writer -= 1
    with _source(found[0], writer) as source:
        made = json.loads(_run(_WRITE, source, url, CONVERSATIONS))
    if writer != version:
        introduced, _ = _commit(version)
        with _source(introduced, version) as source:
            _run(_UPGRADE, source, url)
    return [
        {**session, "owner": conversation["owner"]}
        for session, conversation in zip(made, CONVERSATIONS, strict=True)
    ]


# The stores

_HOLD = f"""
UPDATE sessions SET epoch = epoch + 1, holder = 'a terminal on desk', process = '{DEAD}',
    lease_until = {TICKS} WHERE no = 2
"""


def _insert(table: str, row: Row, columns: Mapping[str, set[str]], mark: str) -> tuple[str, Row]:
    known = {name: value for name, value in row.items() if name in columns[table]}
    marks = ", ".join(mark.format(name) for name in known)
    return f"INSERT INTO {table} ({', '.join(known)}) VALUES ({marks})", known


def make_sqlite(version: int, folder: Path) -> tuple[bytes, list[Row]]:
    path = folder / "segue.db"
    found = _write(version, f"sqlite://{path}")
    connection = apsw.Connection(str(path))
    connection.pragma("foreign_keys", True)
    columns: dict[str, set[str]] = {}
    sql = "SELECT m.name, p.name FROM sqlite_schema m JOIN pragma_table_info(m.name) p"
    for table, column in connection.execute(sql):
        columns.setdefault(table, set()).add(column)
    for table, row in rows(version, [session["id"] for session in found]):
        if table in columns:
            connection.execute(*_insert(table, row, columns, ":{}"))
    for change in _changes(version):
        connection.execute(change)
    whole = folder / "whole.db"
    connection.execute("VACUUM INTO ?", (str(whole),))
    connection.close()
    return whole.read_bytes(), found


_COLUMNS = "SELECT table_name, column_name FROM information_schema.columns"


def make_postgres(version: int, url: str) -> tuple[bytes, list[Row]]:
    found = _write(version, stores.drop(url))
    with psycopg.connect(url, options="-c search_path=segue") as connection:
        columns: dict[str, set[str]] = {}
        for table, column in connection.execute(f"{_COLUMNS} WHERE table_schema = 'segue'"):
            columns.setdefault(table, set()).add(column)
        for table, row in rows(version, [session["id"] for session in found]):
            if table in columns:
                statement, values = _insert(table, row, columns, "%({})s")
                connection.execute(statement.encode(), values)
        for change in _changes(version):
            connection.execute(change.encode())
        connection.execute("DELETE FROM commits")  # it names processes of this machine
    command = [postgres._binaries() / "pg_dump", "--schema=segue", "--no-owner", "--inserts", url]
    dump = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return _without_psql(dump).encode(), found


def _without_psql(dump: str) -> str:
    """The dump without what only its own server and psql understand: the comment with the server's
    version, the settings that not every server has, and commands of psql. All of them stand before
    the first or after the last statement, so that texts stay as they are."""
    start = dump.index("CREATE SCHEMA segue;")
    end = dump.rindex("--\n-- PostgreSQL database dump complete\n--")
    return f"SET search_path = '';\n{dump[start:end]}"


def names(version: int) -> list[Path]:
    """The files of the store of `version`."""
    return [FOLDER / f"{version:02}{end}" for end in (".db.gz", ".sql.gz", ".json")]


def main() -> None:
    missing = [n for n in numbers() if not all(path.exists() for path in names(n))]
    versions = [int(word) for word in sys.argv[1:]] or missing
    assert numbers()[-1] == database.LATEST
    with postgres.running() as server, server.database() as url:
        for version in versions:
            with tempfile.TemporaryDirectory(prefix="segue-") as folder:
                file, found = make_sqlite(version, Path(folder))
            dump, same = make_postgres(version, url)
            assert found == same
            file_path, dump_path, json_path = names(version)
            file_path.write_bytes(gzip.compress(file, mtime=0))
            dump_path.write_bytes(gzip.compress(dump, mtime=0))
            json_path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
            print(f"made the stores of version {version}")


if __name__ == "__main__":
    main()
