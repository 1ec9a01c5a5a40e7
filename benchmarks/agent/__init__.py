"""The agent: what it costs, beside the model's own time, to take a turn."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.agent import clients, imports
from benchmarks.figures import Figure, progress

_TOPICS = {
    "imports": imports.measure,
    "clients": clients.measure,
}


def measure(*, quick: bool) -> Iterator[Figure]:
    for topic, figures in _TOPICS.items():
        progress(f"agent: {topic}")
        yield from figures(quick=quick)
