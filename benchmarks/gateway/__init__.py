"""The gateway: handoff time, idle cost and throughput."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.figures import Figure, progress
from benchmarks.gateway import everywhere, handing, idling, loading, scheduling, serving, talking

_TOPICS = {
    "libraries": loading.measure,
    "ready and idle": idling.measure,
    "the page's server": serving.measure,
    "seven platforms": everywhere.measure,
    "jobs": scheduling.measure,
    "handoffs": handing.measure,
    "messages": talking.measure,
}


def measure(*, quick: bool) -> Iterator[Figure]:
    for topic, figures in _TOPICS.items():
        progress(f"gateway: {topic}")
        yield from figures(quick=quick)
