"""The seam between what the store does and the database that keeps it.

Every operation of the store is an ordinary function `work(tx, ...)`, written once, in SQL that
both databases read. An Engine runs it: in a thread, in one transaction, off the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from segue.core.lease import Ticks
from segue.store.wake import Bell

P = ParamSpec("P")
T = TypeVar("T")
Row = tuple[Any, ...]


class Dialect(StrEnum):
    SQLITE = "sqlite"
    POSTGRES = "postgres"


class Tx(Protocol):
    """One transaction under way. Parameters are written `:name`."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def process(self) -> str:
        """The name of this opening of the store."""
        ...

    @property
    def now(self) -> int:
        """The time of day in microseconds, for what people read."""
        ...

    @property
    def ticks(self) -> Ticks:
        """The time for leases and deadlines."""
        ...

    def rows(self, sql: str, **values: Any) -> list[Row]: ...

    def each(self, sql: str, **values: Any) -> Iterator[Row]:
        """The same, one after another: for many, of which none is kept as it is."""
        ...

    def row(self, sql: str, **values: Any) -> Row | None:
        """The first row, if any."""
        ...

    def one(self, sql: str, **values: Any) -> Row:
        """The row that must be there."""
        ...

    def change(self, sql: str, **values: Any) -> int:
        """How many rows an INSERT, UPDATE or DELETE changed: zero means lost."""
        ...

    def change_many(self, sql: str, values: Iterable[dict[str, Any]]) -> None: ...

    def lock(self, name: str) -> None:
        """Make every other transaction that locks `name` wait for the end of this one."""
        ...

    @property
    def for_update(self) -> str:
        """Ends a SELECT whose row this transaction goes on to change."""
        ...

    @property
    def for_share(self) -> str:
        """Ends a SELECT whose row must not be removed before this transaction ends."""
        ...

    def dead(self, process: str) -> bool:
        """Whether `process` is known to have ended. False means only that it is not known."""
        ...

    @property
    def was_cut_off(self) -> bool:
        """Whether this process had lost the database until a moment ago. Others may have, too, so
        their silence means nothing yet."""
        ...

    def nudge(self, topic: Topic) -> None:
        """Wake whoever listens to `topic`, once this transaction is committed."""
        ...


class Topic(StrEnum):
    """What a waiter can be woken for."""

    HANDOFFS = "handoffs"
    INBOX = "inbox"
    OUTBOX = "outbox"
    """There is something to send."""
    SENT = "sent"
    """Something was sent, or will not be."""
    PAGES = "pages"
    """Somebody did something on the built-in page."""
    LEASES = "leases"
    """Somebody lost a lease that they had not let go of."""
    OWNERS = "owners"
    """A platform user is no owner's any longer."""
    APPROVALS = "approvals"
    """Somebody answered a question, or it is void."""


class Engine(Protocol):
    """A database, open."""

    @property
    def process(self) -> str: ...

    @property
    def bell(self) -> Bell: ...

    def read(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        """Run `work` on one consistent view of the store."""
        ...

    def write(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        """Run `work` in one transaction. It may be run again if the database asks for it, so it
        must do nothing but use its `tx`. When the caller is cancelled before the work has
        begun, it is not begun; after that it is finished."""
        ...

    def mark(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        """Like `write`, for what says only which process is at work on what: everybody sees it at
        once, and it survives the process. But where one machine runs all of them, a power cut,
        which ends them all, may take it back; so nobody waits for the disk."""
        ...

    async def close(self) -> None: ...
