"""The limit of the disk in this run, for comparison with the other figures."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.figures import Figure, median, milliseconds
from benchmarks.store.places import Place

_PAGE = 4096
_PAGES = 1000


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    if place.name != "sqlite":
        return
    with place.empty() as url:
        path = Path(urlsplit(url).path).with_name("pages")
        took = _disk(path, 0.7 if quick else 3.0)
        yield milliseconds("disk floor, write 4 KB + fdatasync, p50", median(took))


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
