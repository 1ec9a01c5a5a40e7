"""The only place that speaks SQL.

    async with await store.open("sqlite:///home/me/segue.db") as s:
        session = await s.sessions.create("me", Platform.LOCAL)

Read `store` for what it offers, `handoffs` for its heart, `base` for how an operation meets a
database, then `sqlite` and `postgres`.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from segue.core.errors import BadStoreUrl
from segue.store.base import Topic, Tx
from segue.store.clock import Clock, SystemClock
from segue.store.store import Store
from segue.store.values import shown
from segue.store.wake import Waiter

__all__ = ["Clock", "Store", "Topic", "Tx", "Waiter", "open", "parse", "shown"]


async def open(url: str, *, clock: Clock | None = None) -> Store:  # noqa: A001 - reads as a sentence
    """The store at `sqlite:///absolute/path.db` or `postgresql://user@host/database`.

    A new one is made where there is none; one that is newer, damaged, foreign or out of reach is
    refused with a StoreError and left as it is.
    """
    scheme, path = parse(url)
    if scheme == "sqlite":
        from segue.store.sqlite import open_sqlite  # noqa: PLC0415 - only what is used

        return Store(await open_sqlite(Path(path), clock or SystemClock()))
    from segue.store.postgres import open_postgres  # noqa: PLC0415 - only what is used

    return Store(await open_postgres(url, clock))


def parse(url: str) -> tuple[str, str]:
    """The kind of store that `url` names, and its path; BadStoreUrl for anything else."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise BadStoreUrl(url=shown(url)) from None
    path = unquote(parts.path)
    if url.startswith("sqlite:///"):
        fits = not (parts.query or parts.fragment or "\0" in path or path.endswith("/"))
    else:
        fits = url.startswith(("postgresql://", "postgres://")) and path.strip("/") != ""
    if not fits:
        raise BadStoreUrl(url=shown(url))
    return parts.scheme, "/" + path.lstrip("/")
