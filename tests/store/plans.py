"""Finds statements whose work grows with the store, by asking the planner of the database.

`Recorder` collects every statement that the store's operations run, and the line that runs it.
`calls` lists the lines that run statements, from the source. `sqlite_scans` and `postgres_scans`
say what is wrong with the plan of a statement.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import segue.store
from segue.store.base import Tx

STORE = Path(segue.store.__file__).parent
MOST = 1_000
"""A statement may read so many rows of a table that grows."""
_METHODS = {"rows", "row", "one", "change", "change_many", "each", "insert"}
_ENGINES = {"base.py", "sqlite.py", "postgres.py"}


@dataclass(frozen=True, order=True)
class Call:
    """A call in the source that runs a statement."""

    file: str
    function: str
    first: int = field(compare=False)
    last: int = field(compare=False)
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.first} in {self.function}: {self.text}"


def calls() -> list[Call]:
    """All calls of the methods of a transaction in the store's modules."""
    found: list[Call] = []
    for path in sorted(STORE.glob("*.py")):
        if path.name in _ENGINES:
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                found += (
                    Call(path.name, function.name, it.lineno, it.end_lineno or 0, ast.unparse(it))
                    for it in ast.walk(function)
                    if isinstance(it, ast.Call) and _is_statement(it)
                )
    return found


def _is_statement(call: ast.Call) -> bool:
    method = call.func
    return (
        isinstance(method, ast.Attribute)
        and method.attr in _METHODS
        and isinstance(method.value, ast.Name)
        and method.value.id == "tx"
    )


class Recorder:
    """The statements that were run, each with the values of its first run."""

    def __init__(self) -> None:
        self.statements: dict[str, Mapping[str, Any]] = {}
        self.lines: set[tuple[str, int]] = set()

    def add(self, sql: str, values: Mapping[str, Any]) -> None:
        frame = sys._getframe(2)
        while Path(frame.f_code.co_filename).name in _ENGINES and frame.f_back is not None:
            frame = frame.f_back
        path = Path(frame.f_code.co_filename)
        if path.parent == STORE:
            self.lines.add((path.name, frame.f_lineno))
            if not self.statements.get(sql):
                self.statements[sql] = values

    def has_run(self, call: Call) -> bool:
        return any((call.file, line) in self.lines for line in range(call.first, call.last + 1))


@contextmanager
def recording(transaction: type[Tx]) -> Generator[Recorder]:
    """Record what transactions of this engine run. They run it all the same."""
    recorder = Recorder()

    def recorded(name: str) -> Any:
        run = getattr(transaction, name)

        @functools.wraps(run)
        def method(tx: Tx, sql: str, *many: Any, **values: Any) -> Any:
            if many:
                rows = list(many[0])
                recorder.add(sql, rows[0] if rows else {})
                return run(tx, sql, rows)
            recorder.add(sql, values)
            return run(tx, sql, **values)

        return method

    with pytest.MonkeyPatch.context() as patch:
        for name in ("rows", "each", "change", "change_many"):
            patch.setattr(transaction, name, recorded(name))
        yield recorder


# SQLite

_SCAN = re.compile(r"SCAN (?:TABLE )?(?P<table>\S+)(?: USING (?:COVERING )?INDEX (?P<index>\S+))?")
_SEARCH = re.compile(
    r"SEARCH (?P<table>\S+) USING (?:COVERING )?"
    r"(?:INDEX (?P<index>\S+)|(?P<key>INTEGER PRIMARY KEY)) \((?P<terms>.*?)\)"
)


Stats = Mapping[str, list[int]]
"""For each index, how many rows there are, and how many have the same value in its first column, in
its first two columns, and so on."""


def sqlite_stats(connection: apsw.Connection) -> Stats:
    connection.execute("ANALYZE")
    found = connection.execute("SELECT idx, stat FROM sqlite_stat1 WHERE idx IS NOT NULL")
    return {index: [int(it) for it in stat.split() if it.isdigit()] for index, stat in found}


def sqlite_scans(
    connection: apsw.Connection, sql: str, values: Mapping[str, Any], stats: Stats
) -> Iterator[str]:
    """What SQLite reads for this statement without knowing where, or much of. Each finding begins
    with the name of the index, or of the table if there is none."""
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", dict(values)).fetchall()
    details = [str(detail) for _, _, _, detail in rows]
    schemas = "SELECT name FROM sqlite_schema UNION SELECT name FROM sqlite_temp_schema"
    tables = {name for (name,) in connection.execute(schemas)}
    names = {name: table for name, table in _table_names(sql).items() if table in tables}
    is_bounded = " LIMIT " in sql and not any("TEMP B-TREE FOR ORDER" in it for it in details)
    for detail in details:
        if scan := _SCAN.match(detail):
            table = names.get(scan["table"], "")
            if table:
                yield f"{scan['index'] or table}: {detail}"
        elif (search := _SEARCH.match(detail)) and not is_bounded:
            table = names.get(search["table"], search["table"])
            found = _rows_found(stats, search["index"], search["terms"])
            if found > MOST:
                yield f"{search['index'] or table}: {detail} finds about {found} rows"


def _table_names(sql: str) -> dict[str, str]:
    """The table that each name in the statement stands for."""
    found = re.findall(r"(?:FROM|JOIN|UPDATE|INTO|,)\s+([a-z_]+)(?:\s+(?:AS\s+)?([a-z]+)\b)?", sql)
    tables = {table: table for table, _ in found}
    return tables | {alias: table for table, alias in found if alias}


def _rows_found(stats: Stats, index: str | None, terms: str) -> int:
    """How many rows have the same values in the columns that the search names, on average. A range
    with two ends is a short one."""
    equal = sum(
        "=?" in term and "<" not in term and ">" not in term for term in terms.split(" AND ")
    )
    if terms.count(">") and terms.count("<"):
        return 1
    if index is None or index.startswith("sqlite_autoindex_"):
        return 1 if equal else MOST + 1
    return stats[index][equal] if index in stats else 0


# PostgreSQL


def postgres_scans(
    connection: psycopg.Connection[Any], sql: bytes, values: Mapping[str, Any]
) -> Iterator[str]:
    """The same for PostgreSQL."""
    rows = connection.execute(b"EXPLAIN (FORMAT JSON) " + sql, dict(values)).fetchall()
    ((found,),) = rows
    plans = json.loads(found) if isinstance(found, str) else found
    yield from _nodes(plans[0]["Plan"], is_bounded=False)


def _nodes(node: Mapping[str, Any], *, is_bounded: bool) -> Iterator[str]:
    kind = node["Node Type"]
    if kind == "Limit":
        is_bounded = True
    if kind in {"Sort", "Aggregate", "Hash", "Materialize"}:
        is_bounded = False
    if "Scan" in kind and "Index Name" in node:
        index, read = node["Index Name"], node["Plan Rows"]
        if "Index Cond" not in node and not is_bounded:
            yield f"{index}: {kind} of all of it"
        elif read > MOST and not is_bounded:
            yield f"{index}: {kind} finds about {read} rows"
    elif kind == "Seq Scan":
        yield f"{node['Relation Name']}: {kind}, filter {node.get('Filter')}"
    for child in node.get("Plans", ()):
        yield from _nodes(child, is_bounded=is_bounded)
