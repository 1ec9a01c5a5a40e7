"""The interface between the functions of the store and the database.

Each is a plain function `work(tx, ...)`, written once, in SQL that both databases understand, and
marked with `reads`, `writes` or `marks`. An Engine runs it in a thread, in one transaction, off the
event loop. A transaction has two clocks: wall time for display, and ticks, which do not jump.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator
from datetime import UTC, datetime
from enum import Enum, StrEnum
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from segue.core.session import SECOND, Ticks
from segue.store.wake import Notifier

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    def now(self) -> datetime:
        """Wall time, for display."""
        ...

    def ticks(self) -> Ticks:
        """Microseconds that only increase, the same in every process on the machine."""
        ...

    def era(self) -> str:
        """An id that changes when ticks start again from zero, as they do at boot."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def ticks(self) -> Ticks:
        # Counts time in suspend where the OS can: a laptop that slept must not wake up with leases
        # that look fresh.
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return Ticks(time.clock_gettime_ns(clock) // 1000)

    def era(self) -> str:
        if _BOOT_ID.exists():
            return _BOOT_ID.read_text().strip()
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            answer = subprocess.run(command, capture_output=True, text=True, check=True)
            return answer.stdout.strip()
        return ""


P = ParamSpec("P")
T = TypeVar("T")
Row = tuple[Any, ...]


class SqlDialect(StrEnum):
    SQLITE = "sqlite"
    POSTGRES = "postgres"


class Tx(ABC):
    """A transaction in progress. Parameters are written `:name`."""

    dialect: ClassVar[SqlDialect]
    for_update: ClassVar[str]
    """SQL suffix for a SELECT whose row this transaction goes on to change."""
    for_share: ClassVar[str]
    """SQL suffix for a SELECT whose row must not be deleted before this transaction ends."""
    bytewise: ClassVar[str]
    """SQL suffix for a column that is compared byte by byte, as `starting` needs it."""

    def __init__(self, process: str, now: int, ticks: Ticks, *, was_cut_off: bool = False) -> None:
        self.process = process
        """The unique name of this opening of the store."""
        self.now = now
        """Wall time in microseconds, for display."""
        self.ticks = ticks
        """The current time for leases and deadlines."""
        self.was_cut_off = was_cut_off
        """Whether this process recently lost its connection to the database. Others may have lost
        theirs too, so a missed heartbeat means nothing yet."""
        self.nudges: set[Topic] = set()
        self.later: set[Topic] = set()

    @abstractmethod
    def rows(self, sql: str, **values: Any) -> list[Row]: ...

    @abstractmethod
    def each(self, sql: str, **values: Any) -> Iterator[Row]:
        """Iterate over the rows, for results that need not be in memory at once."""

    def row(self, sql: str, **values: Any) -> Row | None:
        """The first row, or None."""
        # Fetch all rows, so that an UPDATE … RETURNING runs to its end.
        rows = self.rows(sql, **values)
        return rows[0] if rows else None

    def one(self, sql: str, **values: Any) -> Row:
        """The first row, which must exist."""
        return self.rows(sql, **values)[0]

    @abstractmethod
    def change(self, sql: str, **values: Any) -> int:
        """Run an INSERT, UPDATE or DELETE and return how many rows it changed. For a guarded
        UPDATE, 0 means that another transaction won."""

    @abstractmethod
    def change_many(self, sql: str, values: Iterable[dict[str, Any]]) -> None: ...

    def insert(
        self, table: str, *, conflict: str = "", returning: str = "1", **columns: Any
    ) -> Row | None:
        """Insert a row and return its `returning` columns. `conflict` says what to do if it exists;
        return None if that changed nothing."""
        return self.row(_insertion(table, tuple(columns), conflict, returning), **columns)

    def starting(self, column: str) -> str:
        """An SQL condition: `column` starts with the text `:start`. `:beyond` is `beyond(start)`.
        An index finds it, if on PostgreSQL it has the collation of bytes."""
        name = f"{column}{self.bytewise}"
        return f"({name} >= :start AND {name} < :beyond)"

    @abstractmethod
    def lock(self, name: str) -> None:
        """Block other transactions that lock `name` until this one ends."""

    @abstractmethod
    def dead(self, process: str) -> bool:
        """Whether `process` is known to have ended. False means alive or unknown. Always False for
        the process that asks, even if it was cut off and others consider it dead."""

    def after(self, seconds: float) -> Ticks:
        """The time `seconds` from now, for leases and deadlines."""
        return Ticks(self.ticks + int(seconds * SECOND))

    def nudge(self, topic: Topic) -> None:
        """Wake the listeners of `topic` once this transaction is committed."""
        self.nudges.add(topic)

    def nudge_soon(self, topic: Topic) -> None:
        """The same for frequent changes, which need not be seen at once: those of a short time
        send one nudge. PostgreSQL commits transactions that notify one after another."""
        self.later.add(topic)


@functools.cache
def _insertion(table: str, columns: tuple[str, ...], conflict: str, returning: str) -> str:
    names = ", ".join(columns)
    values = ", ".join(f":{name}" for name in columns)
    rest = f"{f'ON CONFLICT {conflict}' if conflict else ''} RETURNING {returning}"
    return f"INSERT INTO {table} ({names}) VALUES ({values}) {rest}"


class Topic(StrEnum):
    """The kinds of change that a listener can be woken for."""

    HANDOFFS = "handoffs"
    INBOX = "inbox"
    OUTBOX = "outbox"
    """A message is ready to send."""
    SENT = "sent"
    """A send attempt ended, successfully or not."""
    PAGES = "pages"
    """The user did something on the web page."""
    LEASES = "leases"
    """A holder lost a lease that it had not released, or another process asks for its session."""
    OWNERS = "owners"
    """A platform user was unlinked from an owner."""
    SESSIONS = "sessions"
    """A session changed: its messages, its name, its place or its holder."""
    JOBS = "jobs"
    """A job has changed, or one of its runs."""
    APPROVALS = "approvals"
    """An approval was answered or voided."""


class Transactions(Protocol):
    """Runs functions of the store in transactions: an Engine, or the Store that has one."""

    def read(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Run `work` on one consistent snapshot of the store."""
        ...

    def write(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Run `work` in one transaction.

        The engine may run it again if the database requires a retry, so `work` must do nothing but
        use its `tx`. If the caller is cancelled before the work starts, it never starts; after that
        it runs to its end.
        """
        ...

    def mark(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Like `write`, for marks, which only say which process is working on what.

        Other processes see a mark at once, and it survives the process. On SQLite, where one
        machine runs all processes, the commit does not wait for the disk: a power cut may undo the
        mark, but it also ends every process.
        """
        ...


class Engine(Transactions, Protocol):
    """An open database."""

    @property
    def process(self) -> str: ...

    @property
    def notifier(self) -> Notifier: ...

    async def close(self) -> None: ...


class Work(Generic[P, T]):
    """A function of the store, made by `reads`, `writes` or `marks`.

    `function(tx, …)` takes part in a transaction, and `await function(store, …)` runs in one of its
    own.
    """

    def __init__(self, function: Callable[Concatenate[Tx, P], T], mode: _Mode) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._mode = mode

    @overload
    def __call__(self, where: Tx, /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def __call__(
        self, where: Transactions, /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    def __call__(
        self, where: Tx | Transactions, /, *args: P.args, **kwargs: P.kwargs
    ) -> T | Coroutine[Any, Any, T]:
        if isinstance(where, Tx):
            return self._function(where, *args, **kwargs)
        match self._mode:
            case _Mode.READ:
                return where.read(self._function, *args, **kwargs)
            case _Mode.WRITE:
                return where.write(self._function, *args, **kwargs)
            case _Mode.MARK:
                return where.mark(self._function, *args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: object) -> Work[P, T]: ...
    @overload
    def __get__(
        self, instance: Transactions, owner: object
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(
        self, instance: Transactions | None, owner: object
    ) -> Work[P, T] | Callable[P, Coroutine[Any, Any, T]]:
        """Listed in the class of an object that runs transactions, a function is its method."""
        return self if instance is None else partial(self, instance)


class _Mode(Enum):
    READ = "read"
    WRITE = "write"
    MARK = "mark"


def reads(function: Callable[Concatenate[Tx, P], T]) -> Work[P, T]:
    """Mark a function that changes nothing."""
    return Work(function, _Mode.READ)


def writes(function: Callable[Concatenate[Tx, P], T]) -> Work[P, T]:
    """Mark a function that changes what people have said or what the program has promised."""
    return Work(function, _Mode.WRITE)


def marks(function: Callable[Concatenate[Tx, P], T]) -> Work[P, T]:
    """Mark a function that only records which process is working on what. See `Engine.mark`."""
    return Work(function, _Mode.MARK)
