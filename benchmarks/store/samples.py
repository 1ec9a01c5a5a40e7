"""The contents of the measured stores: messages of about 850 bytes, and any number of sessions."""

from __future__ import annotations

from datetime import UTC, datetime

from segue.core.address import Address, ChatType, Platform
from segue.core.transcript import Message, Role
from segue.store import Store, Tx, owners
from segue.store import sessions as stored_sessions
from segue.store.base import SqlDialect

OWNER = "me"
SCHEDULER = "a scheduler"
"""The owner of the jobs: the benchmark may make others of its own."""
TEXT = ("The quick brown fox jumps over the lazy dog, and nobody minds. " * 14)[:850]
TOKENS = 212
NOBODY_YET = 3_600_000_000
"""Ticks until a pending handoff is void: longer than any run."""

# Counts to :last inside either database, so that 100,000 rows do not need a round trip each.
_COUNTED = (
    "WITH RECURSIVE counted (i) AS"
    " (SELECT CAST(:first AS BIGINT) UNION ALL SELECT i + 1 FROM counted WHERE i < :last)"
)
_CALL = '[{"id":"call_1","name":"read_file","arguments":"{\\"path\\": \\"notes/today.md\\"}"}]'


def message() -> Message:
    return Message(Role.USER, TEXT, datetime.now(UTC), tokens=TOKENS)


def chat(number: int) -> Address:
    return Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id=str(number))


async def new_session(store: Store) -> str:
    await owners.ensure(store, OWNER)
    return (await stored_sessions.create(store, OWNER, Platform.LOCAL)).id


async def conversation(store: Store, length: int) -> str:
    """Create a session with `length` messages: one in four calls a tool, one in four is a
    result."""
    session_id = await new_session(store)
    await store.write(_say, session_id, length)
    return session_id


async def sessions(store: Store, first: int, last: int) -> None:
    """Create the sessions numbered `first` to `last`."""
    await owners.ensure(store, OWNER)
    await store.write(_begin, first, last)


async def chats(store: Store, first: int, last: int) -> None:
    """Create the sessions numbered `first` to `last`, each bound to the `chat` of its number."""
    await sessions(store, first, last)
    await store.write(_bind, first, last)


async def handoffs(store: Store, state: str, first: int, last: int) -> None:
    """Create a `pending` or `completed` handoff for each of the sessions `first` to `last`."""
    await store.write(_hand_off, state, first, last)


async def jobs(store: Store, first: int, last: int) -> None:
    """Create the jobs numbered `first` to `last`, each due in an hour or later, with a run that is
    over and its report."""
    await owners.ensure(store, SCHEDULER)
    await store.write(_schedule, first, last)


def _say(tx: Tx, session_id: str, length: int) -> None:
    tx.change(
        f"{_COUNTED} INSERT INTO messages (id, role, kind, content, tool_calls, tool_call_id,"
        " tool_name, tokens, at)"
        " SELECT s.no * 4294967296 + i,"
        " CASE i % 4 WHEN 1 THEN 'user' WHEN 3 THEN 'tool' ELSE 'assistant' END, 'said',"
        " CAST(:text AS TEXT), CASE i % 4 WHEN 2 THEN CAST(:call AS TEXT) END,"
        " CASE i % 4 WHEN 3 THEN 'call_1' END, CASE i % 4 WHEN 3 THEN 'read_file' END,"
        " :tokens, :now FROM counted, sessions s WHERE s.id = :id",
        first=1,
        last=length,
        text=TEXT,
        call=_CALL,
        tokens=TOKENS,
        now=tx.now,
        id=session_id,
    )
    tx.change("UPDATE sessions SET last_seq = :length WHERE id = :id", length=length, id=session_id)
    _settle(tx, "messages")


def _begin(tx: Tx, first: int, last: int) -> None:
    tx.change(
        f"{_COUNTED} INSERT INTO sessions (id, owner, source, started, active)"
        " SELECT '20260101_120000_' || CAST(10000000 + i AS TEXT), :owner, 'telegram', :now, :now"
        " FROM counted",
        first=first,
        last=last,
        owner=OWNER,
        now=tx.now,
    )
    _settle(tx, "sessions")


def _bind(tx: Tx, first: int, last: int) -> None:
    tx.change(
        f"{_COUNTED} INSERT INTO bindings (address, session_no, origin, version, bound)"
        " SELECT CAST(:prefix AS TEXT) || CAST(i AS TEXT), s.no, 'message', 1, :now"
        f" FROM counted JOIN sessions s ON {_THIS_ONE}",
        first=first,
        last=last,
        prefix=chat(0).key.removesuffix("0"),
        now=tx.now,
    )
    _settle(tx, "bindings")


def _hand_off(tx: Tx, state: str, first: int, last: int) -> None:
    tx.change(
        f"{_COUNTED} INSERT INTO handoffs (session_no, key, platform, epoch, seq, state,"
        " claim_by, requested, finished)"
        " SELECT s.no, CAST(:state AS TEXT) || CAST(i AS TEXT), 'telegram', 0, 0,"
        " CAST(:state AS TEXT), :claim_by, :now,"
        " CASE WHEN :state = 'completed' THEN CAST(:now AS BIGINT) END"
        f" FROM counted JOIN sessions s ON {_THIS_ONE}",
        first=first,
        last=last,
        state=state,
        claim_by=tx.ticks + NOBODY_YET,
        now=tx.now,
    )
    _settle(tx, "handoffs")


def _schedule(tx: Tx, first: int, last: int) -> None:
    tx.change(
        f"{_COUNTED} INSERT INTO jobs (owner, name, prompt, kind, at, period, zone, verbatim,"
        " deliver, state, due, created)"
        " SELECT :owner, 'job', 'Look at it.', 'every', CAST(:now AS BIGINT),"
        " CAST(:hour AS BIGINT), 'UTC', 1, 'local', 'enabled', :now + :hour + i, :now FROM counted",
        first=first,
        last=last,
        owner=SCHEDULER,
        now=tx.now,
        hour=NOBODY_YET,
    )
    tx.change(
        "INSERT INTO runs (job_id, due, state, started, finished)"
        " SELECT id, :now, 'reported', :now, :now FROM jobs j WHERE owner = :owner"
        " AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.job_id = j.id)",
        owner=SCHEDULER,
        now=tx.now,
    )
    tx.change(
        "INSERT INTO reports (run_id, target, body, state, made)"
        " SELECT id, 'local', 'It is there.', 'kept', :now FROM runs u"
        " WHERE NOT EXISTS (SELECT 1 FROM reports r WHERE r.run_id = u.id)",
        now=tx.now,
    )
    for table in ("jobs", "runs", "reports"):
        _settle(tx, table)


_THIS_ONE = "s.id = '20260101_120000_' || CAST(10000000 + i AS TEXT)"


def _settle(tx: Tx, table: str) -> None:
    # PostgreSQL's autovacuum would do this within a minute of this many changes.
    if tx.dialect is SqlDialect.POSTGRES:
        tx.change(f"ANALYZE {table}")
