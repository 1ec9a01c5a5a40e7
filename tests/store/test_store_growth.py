"""Lists and searches cost the same in a small store and in a larger one, on both engines.

Counted is what the database does: the rows that the plan of PostgreSQL touches, and the steps of
SQLite's virtual machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apsw
import pytest

from segue.core.address import Platform
from segue.core.errors import AmbiguousSession, SessionNotFound
from segue.core.transcript import Role
from segue.store import Store, Tx, deliveries, leases, owners, page_sessions, search, sessions
from segue.store.base import Row, SqlDialect
from segue.store.sqlite import SqliteTx
from segue.store.transcripts import append
from tests.store.conftest import OpenStore
from tests.store.samples import hold, on_postgres, said

SMALL = 2_400
LARGE = 9_600
MESSAGES = 2
WORK = 1.5
"""How much more work the larger store may take."""

_NUMBERS = (
    "WITH RECURSIVE n (i) AS"
    " (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < :count)"
)
_SESSIONS = f"""
INSERT INTO sessions (id, owner, source, platform, title, lineage, lineage_no, started, active,
    ended, end_reason, last_seq)
{_NUMBERS} SELECT '20250101_' || (100000 + i) || '_0badcafe',
    CASE WHEN i % 2 = 0 THEN 'me' ELSE 'you' END, 'local',
    CASE WHEN i < 40 THEN 'matrix' ELSE 'local' END,
    'Garden ' || (100000 + i), 'garden ' || (100000 + i), 1, i * 60000000, i * 60000000,
    CASE WHEN i < 40 THEN i END, CASE WHEN i < 40 THEN 'closed' END, {MESSAGES} FROM n
"""
_GARDENS = "(SELECT no, active FROM sessions WHERE title LIKE 'Garden 1%') AS gardens"
_MESSAGES = f"""
INSERT INTO messages (id, role, kind, content, tokens, at)
SELECT (no << 32) + seq, 'user', 'said', 'a line about the roses', 5, active
FROM {_GARDENS} CROSS JOIN (SELECT 1 AS seq UNION ALL SELECT {MESSAGES}) AS two
"""


_numbers = itertools.count()


def fill(tx: Tx, count: int) -> None:
    tx.change(_SESSIONS, count=count)
    tx.change(_MESSAGES)
    tx.change(f"INSERT INTO unindexed (session_no) SELECT no FROM {_GARDENS}")
    tx.change("DELETE FROM session_counts")
    tx.change(
        "INSERT INTO session_counts (shard, sessions)"
        " SELECT no & 15, count(*) FROM sessions GROUP BY no & 15"
    )
    if tx.dialect is SqlDialect.POSTGRES:
        tx.change("ANALYZE sessions")
        tx.change("ANALYZE messages")


def empty(tx: Tx) -> None:
    """Delete everything that `fill` and the index have made."""
    if tx.dialect is SqlDialect.SQLITE:
        tx.change("INSERT INTO words (words) VALUES ('delete-all')")
    else:
        tx.change("DELETE FROM words")
    for table in ("unindexed", "messages", "session_counts", "sessions"):
        tx.change(f"DELETE FROM {table}")


class CountingTx(Tx):
    """A transaction that adds up the work of its statements."""

    def __init__(self, tx: Tx) -> None:
        super().__init__(tx.process, tx.now, tx.ticks)
        self._tx = tx
        self.dialect = tx.dialect  # pyright: ignore[reportAttributeAccessIssue]
        self.for_update = tx.for_update  # pyright: ignore[reportAttributeAccessIssue]
        self.statements = 0
        self.work = 0
        self.plans: list[str] = []

    def rows(self, sql: str, **values: Any) -> list[Row]:
        self.statements += 1
        if self.dialect is SqlDialect.POSTGRES:
            explain = f"EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, FORMAT JSON) {sql}"
            # Analyzing runs the statement. One that writes must run only once.
            if sql.lstrip().startswith(("SELECT", "WITH")):
                ((plan,),) = self._tx.rows(explain, **values)
                self.work += touched(plan[0]["Plan"])
                self.plans.append(str(plan))
            return self._tx.rows(sql, **values)
        assert isinstance(self._tx, SqliteTx)
        connection = self._tx._connection
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._count)
        try:
            # Another text each time: SQLite adds up the steps of a statement that is run again.
            return self._tx.rows(f"{sql} -- counted {next(_numbers)}", **values)
        finally:
            connection.trace_v2(0, None)

    def _count(self, event: dict[str, Any]) -> None:
        if "-- counted" in event["sql"]:  # not one of the index, whose steps add up
            self.work += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def each(self, sql: str, **values: Any) -> Iterator[Row]:
        return iter(self.rows(sql, **values))

    def change(self, sql: str, **values: Any) -> int:
        if self.dialect is SqlDialect.SQLITE:
            self.rows(sql, **values)
            return 1
        self.statements += 1
        return self._tx.change(sql, **values)

    def change_many(self, sql: str, values: Iterable[dict[str, Any]]) -> None:
        for each in values:
            self.change(sql, **each)

    def lock(self, name: str) -> None:
        self._tx.lock(name)

    def dead(self, process: str) -> bool:
        return self._tx.dead(process)


def touched(plan: dict[str, Any]) -> int:
    """How many rows the nodes of a plan return or reject."""
    each = sum(
        plan.get(name, 0)
        for name in ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter")
    )
    return int(each * plan["Actual Loops"]) + sum(map(touched, plan.get("Plans", ())))


def unknown(tx: Tx) -> None:
    with pytest.raises(SessionNotFound):
        sessions.find(tx, "me", "lilies")


def many(tx: Tx) -> None:
    with pytest.raises(AmbiguousSession):
        sessions.find(tx, "me", "2025")


OPERATIONS: dict[str, Callable[[Tx], object]] = {
    "find by title": lambda tx: sessions.find(tx, "me", "Garden 100100"),
    "find by id prefix": lambda tx: sessions.find(tx, "me", "20250101_100100_0"),
    "find by a short prefix": many,
    "find nothing": unknown,
    "find latest": lambda tx: sessions.find(tx, "me", "latest"),
    "list": lambda tx: sessions.list_sessions(tx, "me"),
    "list platform": lambda tx: sessions.list_sessions(tx, "me", platform=Platform.MATRIX),
    "list empty platform": lambda tx: sessions.list_sessions(tx, "me", platform=Platform.SIGNAL),
    "list ended": lambda tx: sessions.list_sessions(tx, "me", ended=True),
    "list open": lambda tx: sessions.list_sessions(tx, "me", ended=False),
    "count": sessions.count,
    "page": lambda tx: page_sessions.list_entries(tx, "me", limit=31),
    "page, a title": lambda tx: page_sessions.list_entries(tx, "me", limit=9, words="garden"),
    "page, an old title": lambda tx: page_sessions.list_entries(
        tx, "me", limit=9, words="garden 100100"
    ),
    "page, no title": lambda tx: page_sessions.list_entries(tx, "me", limit=9, words="lilies"),
    "search": lambda tx: search.find(tx, "me", "roses", limit=20, without=None),
    "search nothing": lambda tx: search.find(tx, "me", "lilies", limit=20, without=None),
    "index": search.index_some,
}


def measure(tx: Tx) -> dict[str, tuple[int, int]]:
    """The statements and the work of each operation."""
    done: dict[str, tuple[int, int]] = {}
    for name, operation in OPERATIONS.items():
        counting = CountingTx(tx)
        operation(counting)
        done[name] = counting.statements, counting.work
    return done


async def test_lists_and_searches_do_not_grow_with_the_store(store: Store):
    await owners.ensure(store, "you")
    await store.write(fill, SMALL)
    small = await store.write(measure)

    await store.write(empty)
    await store.write(fill, LARGE)
    large = await store.write(measure)
    grown = {n: (small[n], large[n]) for n in small if large[n][1] > WORK * small[n][1]}
    assert grown == {}
    assert {n: s for n, (s, _) in small.items()} == {n: s for n, (s, _) in large.items()}


async def test_an_append_does_not_grow_with_the_store(store: Store):
    await owners.ensure(store, "you")
    made = await sessions.create(store, "me", Platform.LOCAL)
    lease = await hold(store, made.id)

    def work(tx: Tx) -> tuple[int, int]:
        counting = CountingTx(tx)
        append(counting, lease, [said("a line")])
        return counting.statements, counting.work

    await store.write(work)
    small = await store.write(work)
    await store.write(fill, LARGE)
    assert await store.write(work) == small


def wait_in_line(tx: Tx, state: str, first: int, last: int) -> None:
    sql = (
        f"{_NUMBERS} INSERT INTO outbox (key, platform, address, body, state, queued, finished)"
        " SELECT 'k' || i, 'telegram', 'agent:main:telegram:dm:42', 'hello',"
        " CAST(:state AS TEXT), i, CASE WHEN CAST(:state AS TEXT) = 'sent' THEN i END FROM n"
        " WHERE i >= :first"
    )
    tx.change(sql, count=last, first=first, state=state)


async def test_a_claim_does_not_grow_with_the_messages_that_wait_for_one_chat(store: Store):
    def work(tx: Tx) -> int:
        if tx.dialect is SqlDialect.POSTGRES:
            # They read the whole table, which is cheaper if it is so small.
            for way in ("seqscan", "hashjoin", "mergejoin"):
                tx.change(f"SET LOCAL enable_{way} = off")
        counting = CountingTx(tx)
        assert len(deliveries._newest(counting, [Platform.TELEGRAM])) == deliveries._WINDOW
        assert len(deliveries._lanes(counting, Platform.TELEGRAM, "")) == 1
        return counting.work

    def analyze(tx: Tx) -> None:
        if tx.dialect is SqlDialect.POSTGRES:
            tx.change("ANALYZE outbox")

    await store.write(wait_in_line, "sent", 1, 2_000)
    await store.write(analyze)  # before they wait: it knows of none
    await store.write(wait_in_line, "queued", 2_001, 2_300)
    few = await store.write(work)
    await store.write(wait_in_line, "queued", 2_301, 5_000)
    assert await store.write(work) <= WORK * few


async def test_an_old_match_is_found_in_the_index(store: Store, open_store: OpenStore):
    await owners.ensure(store, "you")
    old = await sessions.create(store, "me", Platform.LOCAL)
    await leases.release(store, await hold(store, old.id, said("only the lilies")))
    await store.write(fill, SMALL)
    while await search.index_some(store):
        pass
    (hit,) = await search.messages(store, "me", "lil")
    assert (hit.session_id, hit.seq, hit.role) == (old.id, 1, Role.USER)


@on_postgres
async def test_a_word_in_no_message_is_looked_up_in_the_index(store: Store):
    await owners.ensure(store, "you")
    await store.write(fill, LARGE)
    while await search.index_some(store):
        pass

    def plan(tx: Tx) -> str:
        tx.change("ANALYZE words")
        tx.change("SET LOCAL enable_seqscan = off")  # which is cheaper in so small a table
        counting = CountingTx(tx)
        assert search._indexed(counting, "me", ["lilies"], 20, "") == set()
        return counting.plans[0]

    plan_of_search = await store.write(plan)
    assert "words_by_vector" in plan_of_search
    assert "words_pkey" not in plan_of_search
