"""Migrations: numbered scripts that bring a database to the current schema."""

from __future__ import annotations

from pathlib import Path
from string import Template

from segue.core.errors import StoreError
from segue.store.base import SqlDialect

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
