"""Measured figures with their targets, and the output of a run.

A figure is judged by its ratio to a base that was measured by turns with it in the same run: a bare
driver, a bare interpreter, a smaller store. So the verdict says something about the program, and
little about the machine or what else it does. A figure without a base has a target only if it is a
count, or otherwise the same on every machine.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

_BEGAN = time.monotonic()
_HEADER = ("figure", "value", "unit", "base", "ratio", "target", "")


class Better(StrEnum):
    """Whether a lower or a higher value is better."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What a figure is judged against, in the figure's unit."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value."""

    name: str
    value: float
    unit: str
    base: Base | None = None
    target: float | None = None
    """The ratio to the base to reach or, without a base, the value. None for a figure that is only
    for comparison with the others."""
    better: Better = Better.LOWER

    @property
    def ratio(self) -> float | None:
        """The value as a multiple of its base."""
        if self.base is None or not self.base.value:
            return None
        return self.value / self.base.value

    @property
    def meets(self) -> bool | None:
        judged = self.value if self.base is None else self.ratio
        if self.target is None or judged is None:
            return None
        if self.better is Better.LOWER:
            return judged <= self.target
        return judged >= self.target


def milliseconds(
    name: str, seconds: float, base: Base | None = None, target: float | None = None
) -> Figure:
    """A duration. The base is in seconds, too."""
    if base is not None:
        base = Base(name=base.name, value=base.value * 1000)
    return Figure(name=name, value=seconds * 1000, unit="ms", base=base, target=target)


def rate(
    name: str, unit: str, per_second: float, base: Base | None = None, target: float | None = None
) -> Figure:
    return Figure(
        name=name,
        value=per_second,
        unit=f"{unit}/s",
        base=base,
        target=target,
        better=Better.HIGHER,
    )


def growth(name: str, small: float, large: float, target: float = 2.0) -> Figure:
    """The ratio of `large` to `small`. Near 1 means no growth."""
    return Figure(name=name, value=large / small, unit="×", target=target)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def median(values: Sequence[float]) -> float:
    return percentile(values, 50)


def progress(text: str) -> None:
    """Print the current step to standard error. It is not part of the result."""
    print(f"{time.monotonic() - _BEGAN:5.1f} s  {text}", file=sys.stderr, flush=True)


def as_json(figures: Iterable[Figure]) -> str:
    return json.dumps([_plain(figure) for figure in figures], indent=2, ensure_ascii=False)


def _plain(figure: Figure) -> dict[str, str | float | bool | None]:
    return {
        "name": figure.name,
        "value": float(f"{figure.value:.6g}"),
        "unit": figure.unit,
        "base": None if figure.base is None else float(f"{figure.base.value:.6g}"),
        "against": None if figure.base is None else figure.base.name,
        "ratio": None if figure.ratio is None else float(f"{figure.ratio:.6g}"),
        "target": figure.target,
        "better": figure.better.value,
        "meets": figure.meets,
    }


def as_table(figures: Sequence[Figure]) -> str:
    """The figures in columns, followed by those that miss their target."""
    missed = [figure for figure in figures if figure.meets is False]
    with_target = sum(figure.meets is not None for figure in figures)
    lines = columns([_HEADER, *map(_cells, figures)])
    lines += ["", f"{with_target - len(missed)} of {with_target} targets met."]
    lines += [f"Missed: {f.name}: {_judged(f)}, {_aim(f)}" for f in missed]
    return "\n".join(lines)


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows, the header first, as lines of text: names and units to the left, numbers to the
    right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    is_left = [not n or title in ("unit", "base", "") for n, title in enumerate(rows[0])]
    lines: list[str] = []
    for row in rows:
        cells = [
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(row, widths, is_left, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _cells(figure: Figure) -> tuple[str, ...]:
    verdict = {True: "ok", False: "MISSED", None: ""}[figure.meets]
    base = ""
    if figure.base is not None:
        base = f"{number(figure.base.value)}, {figure.base.name}"
    ratio = "" if figure.ratio is None else f"{number(figure.ratio)} ×"
    return figure.name, number(figure.value), figure.unit, base, ratio, _aim(figure), verdict


def _judged(figure: Figure) -> str:
    if figure.base is None or figure.ratio is None:
        return f"{number(figure.value)} {figure.unit}"
    return f"{number(figure.ratio)} × {figure.base.name}"


def _aim(figure: Figure) -> str:
    if figure.target is None:
        return ""
    times = "" if figure.base is None else " ×"
    return f"{'≤' if figure.better is Better.LOWER else '≥'} {number(figure.target)}{times}"


def number(value: float) -> str:
    """Format a number with three significant digits, or as an integer from 100 up."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
