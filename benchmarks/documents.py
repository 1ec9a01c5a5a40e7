"""The table and the plots in docs/performance.md, from the figures of a run.

The values are kept in docs/performance/before.json and now.json. A run of `make bench scale` with
`--docs` replaces the latter, and one with `--against REV --docs` replaces both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks import scale
from benchmarks.against import Found
from benchmarks.drawing import Bar, Panel, bars, panels
from benchmarks.figures import Figure, median, number

_DOCS = Path(__file__).parents[1] / "docs"
_FOLDER = _DOCS / "performance"
_PAGE = _DOCS / "performance.md"
_START = "<!-- the table that `make bench scale` writes -->\n"
_END = "<!-- its end -->\n"
_ONE_OWNER = " sessions, one owner"

Values = Mapping[str, float]
"""Milliseconds by the name of the figure: an operation, a colon and a store."""

_DRAWN = {
    "search, common word": "search, common word",
    "resume by title": "resume by title",
    "resume by an unknown name": "resume by an unknown name",
    "inbox.newest, at every connection": "newest updates, to connect",
    "list sessions of one platform": "list one platform",
    "page: search in titles, nothing found": "page: titles, nothing found",
    "a reaction": "a reaction",
    "prune the inbox": "prune the inbox",
    scale.WAITING: "send to a busy chat",
}
"""The operations that are drawn, with a title that fits."""
_PEER = (
    Bar(title="find a chat's session, CPU", times=1_808, note="452 ms, 0.25 ms"),
    Bar(title="request → claimed, p50", times=89, note="1,151 ms, 13 ms at most"),
    Bar(title="handoff, Telegram's library", times=19, note="2.3 s, 124 ms at most"),
    Bar(title="--version, CPU", times=5.8, note="376 ms, 65 ms"),
    Bar(title="chat message → first word", times=5.0, note="1,366 ms, 272 ms"),
    Bar(title="tokens of the first request", times=4.3, note="11,867, 2,780"),
    Bar(title="installed, with Telegram", times=3.5, note="282 MB, 80 MB"),
    Bar(title="load 10,000 messages, CPU", times=3.4, note="108 ms, 31 ms"),
    Bar(title="append, 4 processes", times=3.2, note="178/s, 568/s"),
    Bar(title="gateway ready, CPU", times=2.9, note="1.67 s, 0.57 s"),
    Bar(title="append, 1 caller", times=2.5, note="224/s, 568/s"),
    Bar(title="gateway's memory, fresh", times=2.3, note="136 MB, 60 MB"),
)
"""Measured on one loaded machine, by turns; the smallest ratio where it is a range."""


def write(figures: Iterable[Figure]) -> None:
    """Put the figures of a run of `scale` into the document, if there are any."""
    values = {figure.name: figure.value for figure in figures}
    if values:
        _save("now", values)
    _draw()


def write_change(found: Found) -> None:
    """Put the figures of both sides of a comparison into the document."""
    for side in ("before", "now"):
        values = {
            key.name: median(each)
            for key, it in found.items()
            if (each := it.before if side == "before" else it.after)
        }
        _save(side, values)
    _draw()


def _save(side: str, values: Values) -> None:
    rounded = {name: float(f"{value:.3g}") for name, value in values.items()}
    (_FOLDER / f"{side}.json").write_text(json.dumps(rounded, indent=1) + "\n", "utf-8")


def _load(side: str) -> Values:
    path = _FOLDER / f"{side}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def _draw() -> None:
    before = _load("before")
    now = _load("now")
    drawn = [Panel(title=_DRAWN[name], lines=_lines(name, before, now)) for name in _DRAWN]
    plots = [panel for panel in drawn if panel.lines]
    if plots:
        plot = panels(plots, x="the number of sessions", y="ms")
        (_FOLDER / "scale.svg").write_text(plot, "utf-8")
    title = "What the peer takes, as a multiple of ours (the peer's figure, ours; logarithmic)"
    (_FOLDER / "peer.svg").write_text(bars(_PEER, title=title), "utf-8")
    head, _, rest = _PAGE.read_text("utf-8").partition(_START)
    _, _, tail = rest.partition(_END)
    _PAGE.write_text(head + _START + table(before, now) + _END + tail, "utf-8")


def _lines(name: str, before: Values, now: Values) -> dict[str, list[tuple[float, float]]]:
    found = {"before": _points(name, before), "now": _points(name, now)}
    return {side: points for side, points in found.items() if len(points) > 1}


def _points(name: str, values: Values) -> list[tuple[float, float]]:
    """The cost of an operation in the stores of one owner, by their size."""
    return [
        (float(_size(store)), value)
        for figure, value in values.items()
        for operation, _, store in [figure.rpartition(": ")]
        if operation == name and store.endswith(_ONE_OWNER)
    ]


def _size(store: str) -> int:
    return int(store.partition(" ")[0].replace(",", ""))


def table(before: Values, now: Values) -> str:
    """The costs in a small and the largest store before and now, in Markdown."""
    lines = [
        "| processor time, ms | before: small | large | ratio | now: small | large | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    operations = dict.fromkeys(name.rpartition(": ")[0] for name in (*before, *now))
    for operation in operations:
        cells = [*_cells(_points(operation, before)), *_cells(_points(operation, now))]
        lines.append(f"| {operation} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cells(points: list[tuple[float, float]]) -> list[str]:
    if len(points) < 2:
        return ["", "", ""]
    full = [point for point in points if point[0] >= scale.FULL]
    (_, small), *_, (_, large) = sorted(full if len(full) > 1 else points)
    return [number(small), number(large), f"{number(large / small)} ×"]
