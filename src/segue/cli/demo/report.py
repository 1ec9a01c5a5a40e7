"""The output of the demo: step by step as text, or a single JSON object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from segue.chat.output import folded, say, screen
from segue.core.text import one_line

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
    saw_earlier: bool = False
    """Whether the reply used what was said in the terminal."""

    def json(self) -> dict[str, Any]:
        return {
            "state": "failed" if self.error else "completed",
            "error": self.error,
            "model": self.model,
            "session": self.session,
            "steps": self.steps,
            "pickup_ms": self.pickup_ms,
            "handoff_ms": self.handoff_ms,
            "roles": self.roles,
            "reply": self.reply,
            "saw_earlier": self.saw_earlier,
        }


class DemoReport(Protocol):
    """Prints the progress of the demo."""

    def introduce(self, text: str) -> None: ...

    def line(self, text: str) -> None: ...

    def begins(self, number: int, what: str) -> None: ...

    def ends(self, ms: int) -> None: ...

    def said(self, who: str, text: str) -> None: ...

    def end(self, record: DemoRecord) -> None: ...


class DemoSilence:
    """Prints nothing, for --json."""

    def introduce(self, text: str) -> None: ...

    def line(self, text: str) -> None: ...

    def begins(self, number: int, what: str) -> None: ...

    def ends(self, ms: int) -> None: ...

    def said(self, who: str, text: str) -> None: ...

    def end(self, record: DemoRecord) -> None: ...


class DemoText:
    def __init__(self) -> None:
        self._width = min(screen() or _WIDTH, _WIDTH)

    def introduce(self, text: str) -> None:
        say(folded(one_line(text), self._width))

    def line(self, text: str) -> None:
        say(folded(one_line(text), self._width, _INDENT))

    def begins(self, number: int, what: str) -> None:
        say(f"\n{folded(what, self._width, _INDENT, f'{number}. ')}")

    def ends(self, ms: int) -> None:
        say(f"{_INDENT}({seconds(ms)})")

    def said(self, who: str, text: str) -> None:
        head = f"{_INDENT}{who:<5}  "
        say(folded(one_line(text, _MAX_SHOWN), self._width, " " * len(head), head))

    def end(self, record: DemoRecord) -> None:
        whole = seconds(sum(step.ms for step in record.steps))
        pickup, moved = record.pickup_ms, seconds(record.handoff_ms or 0)
        used = "used" if record.saw_earlier else "did not use"
        say(
            "\n"
            + folded(
                f"Done in {whole}. The handoff was picked up after {pickup} ms and completed after"
                f" {moved}. The reply on the page {used} what was said in the terminal. The demo"
                " left nothing behind.",
                self._width,
            )
        )


def seconds(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
