"""The agent's overhead per turn, without the model's own time."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.agent import clients, imports, taking
from benchmarks.figures import Figure, progress

_TOPICS = {
    "imports": imports.measure,
    "clients": clients.measure,
    "a whole turn": taking.measure,
}


def measure(*, quick: bool) -> Iterator[Figure]:
    for topic, figures in _TOPICS.items():
        progress(f"agent: {topic}")
        yield from figures(quick=quick)
