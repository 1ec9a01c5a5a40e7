"""How the store is, told by the database itself."""

from __future__ import annotations

from dataclasses import dataclass

from segue.store.base import Dialect, Tx

CHEAP = 200_000_000
"""A file of more bytes than this takes seconds to be read through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    size: int
    """Bytes on disk."""
    faults: tuple[str, ...] | None
    """What is damaged; None when nobody looked: it is too large, or the server's own affair."""


def look(tx: Tx) -> Health:
    if tx.dialect is Dialect.POSTGRES:
        (size,) = tx.one(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )
        return Health(size=size, faults=None)
    size = tx.one("PRAGMA page_count")[0] * tx.one("PRAGMA page_size")[0]
    if size > CHEAP:
        return Health(size=size, faults=None)
    said = tuple(row[0] for row in tx.rows("PRAGMA quick_check(3)"))
    return Health(size=size, faults=() if said == ("ok",) else said)
