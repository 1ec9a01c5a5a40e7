"""The limits of disk and driver in this run, for comparison with the other figures."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from benchmarks.figures import Figure, median, milliseconds, rate
from benchmarks.store import samples
from benchmarks.store.places import Place

_PAGE = 4096
_PAGES = 1000
_TABLES = (
    "CREATE TABLE said (id INTEGER PRIMARY KEY, content TEXT)",
    "CREATE TABLE counter (id INTEGER PRIMARY KEY, last INTEGER)",
    "INSERT INTO counter VALUES (1, 0)",
)


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    seconds = 0.7 if quick else 3.0
    with place.empty() as url:
        if place.name == "sqlite":
            path = Path(urlsplit(url).path)
            took = _disk(path.with_name("pages"), seconds)
            yield milliseconds("disk floor, write 4 KB + fdatasync, p50", median(took))
            yield rate("bare sqlite3, insert + update + commit", "msg", _sqlite(path, seconds))
        else:
            yield rate("bare psycopg, insert + update + commit", "msg", _psycopg(url, seconds))


def _disk(path: Path, seconds: float) -> list[float]:
    """Write like a write-ahead log: the same pages in order, over and over."""
    page = b"x" * _PAGE
    took: list[float] = []
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.write(fd, page * _PAGES)
        os.fsync(fd)
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            os.pwrite(fd, page, len(took) % _PAGES * _PAGE)
            os.fdatasync(fd)
            took.append(time.perf_counter() - began)
    finally:
        os.close(fd)
    return took


def _sqlite(path: Path, seconds: float) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA synchronous = FULL")
        for table in _TABLES:
            connection.execute(table)

        def commit() -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO said (content) VALUES (?)", (samples.TEXT,))
            connection.execute("UPDATE counter SET last = last + 1 WHERE id = ?", (1,))
            connection.execute("COMMIT")

        return _per_second(commit, seconds)
    finally:
        connection.close()


def _psycopg(url: str, seconds: float) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        for table in _TABLES:
            connection.execute(table.replace("INTEGER P", "SERIAL P").encode())

        def commit() -> None:
            connection.execute("BEGIN")
            connection.execute("INSERT INTO said (content) VALUES (%s)", (samples.TEXT,))
            connection.execute("UPDATE counter SET last = last + 1 WHERE id = %s", (1,))
            connection.execute("COMMIT")

        return _per_second(commit, seconds)


def _per_second(commit: Callable[[], None], seconds: float) -> float:
    began, count = time.perf_counter(), 0
    while time.perf_counter() < began + seconds:
        commit()
        count += 1
    return count / (time.perf_counter() - began)
