"""The database as a whole: the numbered scripts that bring it to the current schema, and its
health, as the database itself reports it.
"""

from __future__ import annotations

from pathlib import Path
from string import Template

from msgspec import Struct

from segue.core.errors import StoreError
from segue.store.base import SqlDialect, Tx, reads

LATEST = 27

_FOLDER = Path(__file__).parent / "migrations"
_WORDS = {
    SqlDialect.SQLITE: {
        "int": "INTEGER",
        "bytes": "BLOB",
        "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "key": "INTEGER PRIMARY KEY",
        "strict": "STRICT",
        "json": "json_quote",
        "binary": "",
    },
    SqlDialect.POSTGRES: {
        "int": "BIGINT",
        "bytes": "BYTEA",
        "serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "key": "BIGINT PRIMARY KEY",
        "strict": "",
        "json": "to_json",
        "binary": 'COLLATE "C"',
    },
}


def scripts(dialect: SqlDialect, version: int) -> list[str]:
    """The scripts that lead from `version` to LATEST, in order. Raise StoreError if it is later."""
    if version > LATEST:
        raise StoreError(
            f"The store was written by a newer version of Segue (schema {version}; this version"
            f" supports {LATEST}). Nothing was changed. Update Segue."
        )
    return [script for number, script in _numbered(dialect) if number > version]


def scripts_to(version: int) -> list[str]:
    """The scripts that lead from nothing to `version`, on PostgreSQL."""
    return [script for number, script in _numbered(SqlDialect.POSTGRES) if number <= version]


def _numbered(dialect: SqlDialect) -> list[tuple[int, str]]:
    # The common script of a number comes before the one for a single database.
    paths = sorted(_FOLDER.glob("*.sql"), key=lambda path: (path.name[:4], len(path.suffixes)))
    wanted = [p for p in paths if p.suffixes in ([".sql"], [f".{dialect}", ".sql"])]
    return [
        (int(path.name[:4]), Template(path.read_text()).substitute(_WORDS[dialect]))
        for path in wanted
    ]


CHECK_LIMIT = 200_000_000
"""The largest file to check, in bytes. Reading a larger one takes seconds."""


class StoreHealth(Struct, frozen=True, kw_only=True):
    size: int
    """Bytes on disk."""
    faults: tuple[str, ...] | None
    """What is damaged. None if not checked: the file is too large, or the database is a server."""


@reads
def health(tx: Tx) -> StoreHealth:
    """The size of the store and, where that is quick to check, its integrity."""
    if tx.dialect is SqlDialect.POSTGRES:
        (size,) = tx.one(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )
        return StoreHealth(size=size, faults=None)
    size = tx.one("PRAGMA page_count")[0] * tx.one("PRAGMA page_size")[0]
    if size > CHECK_LIMIT:
        return StoreHealth(size=size, faults=None)
    said = tuple(row[0] for row in tx.rows("PRAGMA quick_check(3)"))
    return StoreHealth(size=size, faults=() if said == ("ok",) else said)
