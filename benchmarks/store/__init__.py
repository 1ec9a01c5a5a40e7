"""The cost of storing and finding conversations."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.figures import Figure, progress
from benchmarks.store import (
    append,
    claiming,
    finding,
    floor,
    loading,
    opening,
    pending,
    places,
    scheduling,
)

_TOPICS = {
    "the floor": floor.measure,
    "append": append.measure,
    "load": loading.measure,
    "find a chat": finding.measure,
    "list pending": pending.measure,
    "claim": claiming.measure,
    "jobs": scheduling.measure,
    "open": opening.measure,
}


def measure(*, quick: bool) -> Iterator[Figure]:
    with places.all_of_them() as everywhere:
        for place in everywhere:
            for topic, figures in _TOPICS.items():
                progress(f"store: {place.name}: {topic}")
                yield from figures(place, quick=quick)
