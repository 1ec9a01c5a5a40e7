"""The startup time of a process that uses the store."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.figures import Figure, median, milliseconds
from benchmarks.store.places import Place

# The clock starts after the interpreter itself has started.
_PROGRAM = """
import time
began = time.perf_counter()
import asyncio, json, sys
ready = time.perf_counter()
from segue import store
imported = time.perf_counter()
async def main():
    s = await store.open(sys.argv[1])
    opened = time.perf_counter()
    await s.close()
    return opened
opened = asyncio.run(main())
print(json.dumps([imported - ready, opened - imported, opened - began]))
"""


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    times = 2 if quick else 12
    imports: list[float] = []
    created: list[tuple[float, float]] = []
    again: list[tuple[float, float]] = []
    for _ in range(times):
        with place.empty() as url:
            for opened in (created, again):
                importing, opening, whole = _opened(url)
                imports.append(importing)
                opened.append((opening, whole))
    yield milliseconds(f"{place.name} import segue.store", median(imports))
    for what, opened in (("create a store", created), ("open a store", again)):
        yield milliseconds(f"{place.name} {what}", median([opening for opening, _ in opened]))
        yield milliseconds(
            f"{place.name} {what} in a new process", median([whole for _, whole in opened])
        )


def _opened(url: str) -> tuple[float, float, float]:
    """Seconds in a new process to import, to open, and for both including asyncio's own import."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, url], check=True, capture_output=True, timeout=60
    )
    importing, opening, whole = json.loads(done.stdout)
    return importing, opening, whole
