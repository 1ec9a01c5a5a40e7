"""The import time of each provider, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.figures import Figure, median, milliseconds

PROVIDERS = ("openai", "anthropic", "gemini")
_BEYOND = 1.5
"""The maximum ratio of the import time of a provider to that of httpx2 alone."""


def measure(*, quick: bool) -> Iterator[Figure]:
    runs = 5 if quick else 15
    bare = _seconds("pass", runs)
    httpx2 = _seconds("import httpx2", runs) - bare
    yield milliseconds("import httpx2 alone", httpx2)
    for provider in PROVIDERS:
        took = _seconds(f"import segue.agent.models.{provider}", runs) - bare
        target = httpx2 * 1000 * _BEYOND
        yield milliseconds(f"import of the provider {provider}", took, target)


def _seconds(program: str, runs: int) -> float:
    """The median runtime of an interpreter with that program. The first run only fills caches."""
    return median([_once(program) for _ in range(runs + 1)][1:])


def _once(program: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return time.perf_counter() - began
