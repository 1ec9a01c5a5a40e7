"""Plots as SVG files, readable on a light and on a dark page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.figures import number

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #3d444d }
.title { font-weight: 600 }
.faint { fill: #59636e; font-size: 11px }
.axis { stroke: #8c959f; stroke-width: 1 }
.now { stroke: #0969da; fill: #0969da }
.before { stroke: #bc4c00; fill: #bc4c00; stroke-dasharray: 5 3 }
polyline { fill: none !important; stroke-width: 2 }
rect.now, rect.before, circle { stroke: none }
text.now, text.before { stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #d1d7e0 }
  .faint { fill: #9198a1 }
  .now { stroke: #58a6ff; fill: #58a6ff }
  .before { stroke: #f0883e; fill: #f0883e }
}
"""
_WIDE = 260
_HIGH = 190
_IN_ROW = 3
_LEFT = 52
_TOP = 34
_BOTTOM = 34
_BAR = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One small plot: named lines of points, with both axes in powers of ten."""

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    """By class: `before` or `now`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The value of a peer as a multiple of ours."""

    title: str
    times: float
    note: str


def panels(drawn: Sequence[Panel], *, x: str, y: str) -> str:
    """Small plots side by side. All have the same axes."""
    points = [point for panel in drawn for line in panel.lines.values() for point in line]
    xs = _span([point[0] for point in points])
    ys = _span([point[1] for point in points])
    rows = math.ceil(len(drawn) / _IN_ROW)
    parts = [
        f'<text x="{_LEFT}" y="16">Processor time in {escape(y)}, against {escape(x)}:</text>',
        '<text class="before" x="400" y="16">before</text>',
        '<text class="now" x="460" y="16">now</text>',
    ]
    for place, panel in enumerate(drawn):
        left = place % _IN_ROW * _WIDE
        top = 24 + place // _IN_ROW * _HIGH
        parts.append(f'<g transform="translate({left} {top})">')
        parts += _panel(panel, xs, ys)
        parts.append("</g>")
    return _svg(_IN_ROW * _WIDE + 20, rows * _HIGH + 30, parts)


def _span(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around the values."""
    low = math.floor(math.log10(min(values)) + 0.01)
    return low, max(low + 1, math.ceil(math.log10(max(values)) - 0.01))


def _panel(panel: Panel, xs: tuple[int, int], ys: tuple[int, int]) -> list[str]:
    wide = _WIDE - _LEFT - 12
    high = _HIGH - _TOP - _BOTTOM
    bottom = _TOP + high

    def at(point: tuple[float, float]) -> tuple[float, float]:
        across = (math.log10(point[0]) - xs[0]) / (xs[1] - xs[0])
        up = (math.log10(point[1]) - ys[0]) / (ys[1] - ys[0])
        return _LEFT + wide * across, bottom - high * up

    parts = [f'<text class="title" x="{_LEFT}" y="22">{escape(panel.title)}</text>']
    parts.append(f'<path class="axis" fill="none" d="M{_LEFT} {_TOP}V{bottom}H{_LEFT + wide}"/>')
    for power in range(xs[0], xs[1] + 1):
        across, _ = at((10.0**power, 10.0 ** ys[0]))
        parts.append(
            f'<text class="faint" text-anchor="middle" x="{across:.0f}" y="{bottom + 16}">'
            f"{_short(10.0**power)}</text>"
        )
    for power in range(ys[0], ys[1] + 1):
        _, up = at((10.0 ** xs[0], 10.0**power))
        parts.append(
            f'<text class="faint" text-anchor="end" x="{_LEFT - 6}" y="{up + 4:.0f}">'
            f"{_short(10.0**power)}</text>"
        )
    for name, points in panel.lines.items():
        places = [at(point) for point in points]
        joined = " ".join(f"{across:.1f},{up:.1f}" for across, up in places)
        parts.append(f'<polyline class="{name}" points="{joined}"/>')
        parts += [
            f'<circle class="{name}" cx="{across:.1f}" cy="{up:.1f}" r="3"/>'
            for across, up in places
        ]
    return parts


def _short(value: float) -> str:
    """Ten, a thousand and a million as people write them on an axis."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


def bars(drawn: Sequence[Bar], *, title: str) -> str:
    """Bars from one to their value, in powers of ten, with the value at their end."""
    most = math.log10(max(bar.times for bar in drawn))
    parts = [f'<text class="title" x="10" y="18">{escape(title)}</text>']
    for place, bar in enumerate(drawn):
        top = 32 + place * 2 * _BAR
        wide = max(2.0, 520 * math.log10(bar.times) / most)
        parts.append(f'<text x="10" y="{top + 12}">{escape(bar.title)}</text>')
        parts.append(f'<text class="faint" x="250" y="{top + 12}">{escape(bar.note)}</text>')
        parts.append(
            f'<rect class="now" x="10" y="{top + 18}" width="{wide:.0f}" height="{_BAR - 10}"/>'
        )
        parts.append(f'<text x="{16 + wide:.0f}" y="{top + 28}">{number(bar.times)} ×</text>')
    return _svg(640, 44 + len(drawn) * 2 * _BAR, parts)


def _svg(wide: int, high: int, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}"'
        f' width="{wide}" height="{high}">'
    )
    return "\n".join([head, f"<style>{_STYLE}</style>", *parts, "</svg>", ""])
