"""Measured figures with their targets, and the output of a run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

_BEGAN = time.monotonic()


class Better(StrEnum):
    """Whether a lower or a higher value is better."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value."""

    name: str
    value: float
    unit: str
    target: float | None = None
    """None for a figure that is only for comparison with the others."""
    better: Better = Better.LOWER

    @property
    def meets(self) -> bool | None:
        if self.target is None:
            return None
        if self.better is Better.LOWER:
            return self.value <= self.target
        return self.value >= self.target


def milliseconds(name: str, seconds: float, target: float | None = None) -> Figure:
    """A duration. `target` is in milliseconds."""
    return Figure(name=name, value=seconds * 1000, unit="ms", target=target)


def rate(name: str, unit: str, per_second: float, target: float | None = None) -> Figure:
    return Figure(
        name=name, value=per_second, unit=f"{unit}/s", target=target, better=Better.HIGHER
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
        "target": figure.target,
        "better": figure.better.value,
        "meets": figure.meets,
    }


def as_table(figures: Sequence[Figure]) -> str:
    """The figures in columns, followed by those that miss their target."""
    header = ("figure", "value", "unit", "target", "")
    rows = [header, *map(_cells, figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = [_line(row, widths) for row in rows]
    missed = [figure for figure in figures if figure.meets is False]
    with_target = sum(figure.meets is not None for figure in figures)
    lines += ["", f"{with_target - len(missed)} of {with_target} targets met."]
    lines += [f"Missed: {f.name}: {_number(f.value)} {f.unit}, {_aim(f)}" for f in missed]
    return "\n".join(lines)


def _cells(figure: Figure) -> tuple[str, str, str, str, str]:
    verdict = {True: "ok", False: "MISSED", None: ""}[figure.meets]
    return figure.name, _number(figure.value), figure.unit, _aim(figure), verdict


def _line(row: tuple[str, ...], widths: Sequence[int]) -> str:
    name, value, unit, target, verdict = row
    cells = (
        name.ljust(widths[0]),
        value.rjust(widths[1]),
        unit.ljust(widths[2]),
        target.rjust(widths[3]),
        verdict,
    )
    return "  ".join(cells).rstrip()


def _aim(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'≤' if figure.better is Better.LOWER else '≥'} {_number(figure.target)}"


def _number(value: float) -> str:
    """Format a number with three significant digits, or as an integer from 100 up."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
