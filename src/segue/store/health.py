"""The health of the store, as reported by the database."""

from __future__ import annotations

from msgspec import Struct

from segue.store.base import SqlDialect, Tx, reads

CHECK_LIMIT = 200_000_000
"""The largest file to check, in bytes. Reading a larger one takes seconds."""


class StoreHealth(Struct, frozen=True, kw_only=True):
    size: int
    """Bytes on disk."""
    faults: tuple[str, ...] | None
    """What is damaged. None if not checked: the file is too large, or the database is a server."""


@reads
def look(tx: Tx) -> StoreHealth:
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
