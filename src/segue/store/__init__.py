"""The only package that runs SQL.

    async with await store.open("sqlite:///home/me/segue.db") as s:
        session = await sessions.create(s, "me", Platform.LOCAL)

Each module has the functions of one subject. Start with `sessions` for an example, and `handoffs`
for the core. `base` shows how a function runs on a database; `sqlite` and `postgres` are the two
engines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

from segue.store import errors
from segue.store.base import Clock, Engine, SystemClock, Topic, Tx
from segue.store.lease_keeper import LeaseKeeper
from segue.store.values import shown
from segue.store.wake import Waiter

__all__ = ["Clock", "Store", "Topic", "Tx", "Waiter", "open", "parse", "shown"]


class Store:
    """All persistent state, and the only thing that the terminal and the gateway share.

    `await sessions.create(store, …)` runs a function in a transaction of its own. `read`, `write`
    and `mark` run several in one: see `segue.store.base.Transactions`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._closed = False
        self.process = engine.process
        """The unique name of this opening of the store."""
        self.read = engine.read
        self.write = engine.write
        self.mark = engine.mark
        self.listen = engine.notifier.listen
        """Use as `async with store.listen(Topic.HANDOFFS) as wake: await wake.wait()`."""
        self.keeper = LeaseKeeper(engine)

    async def close(self) -> None:
        """Finish pending work and close the store. Idempotent."""
        if not self._closed:
            self._closed = True
            await self._engine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def open(url: str, *, clock: Clock | None = None) -> Store:  # noqa: A001 - reads as a sentence
    """Open the store at `sqlite:///absolute/path.db` or `postgresql://user@host/database`.

    Create it if it does not exist. Raise a StoreError, and change nothing, if the store is newer
    than this program, damaged, unreachable, or belongs to another program.
    """
    return Store(await open_engine(url, clock=clock))


async def open_engine(url: str, *, clock: Clock | None = None) -> Engine:
    """Open the database of a store, for an object that is more than a Store. Like `open`."""
    scheme, path = parse(url)
    if scheme == "sqlite":
        from segue.store.sqlite import open_sqlite  # noqa: PLC0415 - only what is used

        return await open_sqlite(Path(path), clock or SystemClock())
    from segue.store.postgres import open_postgres  # noqa: PLC0415 - only what is used

    return await open_postgres(url, clock)


def parse(url: str) -> tuple[str, str]:
    """Return the scheme and path of `url`. Raise StoreError if it is not a store URL."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise errors.bad_url(shown(url)) from None
    path = unquote(parts.path)
    if url.startswith("sqlite:///"):
        fits = not (parts.query or parts.fragment or "\0" in path or path.endswith("/"))
    else:
        fits = url.startswith(("postgresql://", "postgres://")) and path.strip("/") != ""
    if not fits:
        raise errors.bad_url(shown(url))
    return parts.scheme, "/" + path.lstrip("/")
