"""The output of the demo: step by step as text, or a single JSON object."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from segue.core.text import one_line
from segue.terminal.output import folded, say, screen

_WIDTH = 80
_INDENT = "   "
_MAX_SHOWN = 400
"""How many characters of an answer are shown."""


@dataclass(frozen=True, slots=True)
class DemoStep:
    name: str
    ms: int


@dataclass(slots=True, kw_only=True)
class DemoRecord:
    """The results so far."""

    error: str | None = None
    model: str | None = None
    session: str | None = None
    steps: list[DemoStep] = field(default_factory=list[DemoStep])
    pickup_ms: int | None = None
    """From the request to the gateway's claim."""
    handoff_ms: int | None = None
    """From the request to the completed handoff."""
    roles: list[str] = field(default_factory=list[str])
    """The roles of the transcript's messages, as the terminal finds it at the end."""
    reply: str | None = None
    """The agent's reply on the page."""
    kept: list[str] = field(default_factory=list[str])
    """What the demo downloaded, which stays for later."""
    saw_earlier: bool = False
    """Whether the reply used what was said in the terminal."""

    def json(self) -> dict[str, Any]:
        return {"state": "failed" if self.error else "completed", **asdict(self)}


class DemoReport:
    """Prints the progress of the demo, or nothing if it is `silent`, for --json."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self._width = min(screen() or _WIDTH, _WIDTH)

    def introduce(self, text: str) -> None:
        self._say(one_line(text), "")

    def line(self, text: str) -> None:
        self._say(one_line(text), _INDENT)

    def begins(self, number: int, what: str) -> None:
        self._say(what, _INDENT, f"{number}. ", gap="\n")

    def ends(self, ms: int) -> None:
        self._say(f"({seconds(ms)})", _INDENT)

    def said(self, who: str, text: str) -> None:
        head = f"{_INDENT}{who:<5}  "
        self._say(one_line(text, _MAX_SHOWN), " " * len(head), head)

    def end(self, record: DemoRecord) -> None:
        whole = seconds(sum(step.ms for step in record.steps))
        pickup, moved = record.pickup_ms, seconds(record.handoff_ms or 0)
        used = "used" if record.saw_earlier else "did not use"
        self._say(
            f"Done in {whole}. The handoff was picked up after {pickup} ms and completed after"
            f" {moved}. The reply on the page {used} what was said in the terminal. {left(record)}",
            "",
            gap="\n",
        )

    def _say(self, text: str, indent: str, first: str | None = None, gap: str = "") -> None:
        if not self._silent:
            say(gap + folded(text, self._width, indent, first))


def left(record: DemoRecord) -> str:
    """Return a sentence about what stays of the demo."""
    if not record.kept:
        return "The demo left nothing behind."
    return f"The demo left nothing behind but {' and '.join(record.kept)}."


def seconds(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
