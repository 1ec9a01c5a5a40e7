"""What figures are judged against: drivers, interpreters and programs that do nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

import apsw
import psycopg

from benchmarks import workers
from benchmarks.figures import Base
from benchmarks.workers import Line

INTERPRETER = (sys.executable, "-c", "pass")
TEXT = "x" * 850
RELAY = "two bare commits and a datagram"

_TABLES = (
    "CREATE TABLE said (id INTEGER PRIMARY KEY, content TEXT)",
    "CREATE TABLE counter (id INTEGER PRIMARY KEY, last INTEGER)",
    "INSERT INTO counter VALUES (1, 0)",
)

Commit = Callable[[int], None]
"""Inserts so many rows, updates a counter and commits."""


def interpreter(seconds: float) -> Base:
    return Base(name="bare interpreter", value=seconds)


# Durable commits


def driver(url: str) -> str:
    """The name of the bare driver for a store."""
    return "bare sqlite3" if url.startswith("sqlite:") else "bare psycopg"


def beside(url: str) -> str:
    """Where the bare driver of a store has its tables: in a file beside it, or in the same
    database."""
    if url.startswith("sqlite:"):
        path = Path(urlsplit(url).path)
        return f"sqlite://{path.with_name('bare.db')}"
    return url


def prepare(url: str) -> None:
    """Create the tables, at an address that `beside` returned."""
    if url.startswith("sqlite:"):
        with contextlib.closing(_sqlite(url)) as connection:
            for table in _TABLES:
                connection.execute(table)
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            for table in _TABLES:
                connection.execute(table.replace("INTEGER P", "SERIAL P").encode())


@contextlib.contextmanager
def committing(url: str) -> Generator[Commit]:
    """Yield a function that commits durably, as the driver does without us."""
    if url.startswith("sqlite:"):
        with contextlib.closing(_sqlite(url)) as connection:
            yield _commits(connection.execute, "?", "BEGIN IMMEDIATE")
    else:
        with psycopg.connect(url, autocommit=True) as connection:

            def execute(sql: str, values: tuple[object, ...] = ()) -> object:
                return connection.execute(sql.encode(), values)

            yield _commits(execute, "%s", "BEGIN")


def _sqlite(url: str) -> sqlite3.Connection:
    path = urlsplit(url).path
    connection = sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _commits(execute: Callable[..., object], mark: str, begin: str) -> Commit:
    def commit(rows: int) -> None:
        execute(begin)
        for _ in range(rows):
            execute(f"INSERT INTO said (content) VALUES ({mark})", (TEXT,))
        execute(f"UPDATE counter SET last = last + {rows} WHERE id = {mark}", (1,))
        execute("COMMIT")

    return commit


# Queries


class Fetch(Protocol):
    def __call__(self, sql: str, /, **values: Any) -> list[tuple[Any, ...]]:
        """Run a query, with its `:name` values by name, and return all rows."""
        ...


@contextlib.contextmanager
def querying(url: str) -> Generator[Fetch]:
    """Yield a function that queries a store by its driver alone."""
    if url.startswith("sqlite:"):
        connection = apsw.Connection(urlsplit(url).path)

        def fetch(sql: str, /, **values: Any) -> list[tuple[Any, ...]]:
            return cast("Any", connection).execute(sql, values).fetchall()

        try:
            yield fetch
        finally:
            connection.close()
    else:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute("SET search_path = segue, public")

            def fetch_there(sql: str, /, **values: Any) -> list[tuple[Any, ...]]:
                return server.execute(_named(sql, values), values).fetchall()

            yield fetch_there


def _named(sql: str, values: dict[str, Any]) -> bytes:
    for name in values:
        sql = sql.replace(f":{name}", f"%({name})s")
    return sql.encode()


# Two processes


@contextlib.contextmanager
def relay(url: str) -> Generator[Callable[[], float]]:
    """Yield how to commit here, wake another process, and let it commit, in seconds.

    That is the least that a request which another process carries out can take.
    """
    at = beside(url)
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder) / "wake")
        with (
            workers.started(1, _answer, at, address) as [line],
            committing(at) as commit,
            contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as sender,
        ):
            line.hear()
            sender.connect(address)

            def once() -> float:
                began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                commit(1)
                sender.send(b".")
                return (line.hear() - began) / 1e9

            yield once
            sender.send(b"")


def _answer(line: Line, url: str, address: str) -> None:
    with (
        contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as receiver,
        committing(url) as commit,
    ):
        receiver.bind(address)
        line.tell(workers.READY)
        while receiver.recv(1):
            commit(1)
            line.tell(time.clock_gettime_ns(time.CLOCK_MONOTONIC))


# A client and a server


@contextlib.asynccontextmanager
async def echo() -> AsyncGenerator[Callable[[], Any]]:
    """Yield a round trip of a bare asyncio client to an echo server in another process."""
    with workers.started(1, _echo) as [line]:
        port: int = line.hear()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def once() -> None:
            writer.write(TEXT.encode() + b"\n")
            await reader.readline()

        yield once
        writer.close()
        await writer.wait_closed()


def _echo(line: Line) -> None:
    asyncio.run(_serve(line))


async def _serve(line: Line) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while said := await reader.readline():
            writer.write(said)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    line.tell(server.sockets[0].getsockname()[1])
    await asyncio.sleep(workers.PATIENCE * 10)


# A program that waits

POLL = 0.5
_WAITS = f"""
import asyncio, sqlite3
async def main():
    connection = sqlite3.connect(":memory:")
    while True:
        connection.execute("PRAGMA data_version").fetchone()
        await asyncio.sleep({POLL})
asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def waiting() -> AsyncGenerator[int]:
    """Yield the process id of a bare asyncio program that looks twice a second whether something
    has changed."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _WAITS)
    try:
        yield process.pid
    finally:
        process.terminate()
        await process.wait()
