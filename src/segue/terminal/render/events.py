"""Renders the events of a turn as lines, except the text of the answer, which is streamed."""

from __future__ import annotations

from segue.core import approval as approvals
from segue.core.approval import Description, Excerpt
from segue.core.events import (
    ApprovalNeeded,
    Compressing,
    Event,
    MessageAdded,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnFailed,
    TurnInterrupted,
    TurnPaused,
    UsageAdded,
)
from segue.core.text import count
from segue.core.transcript import ToolCall
from segue.terminal.render import cells
from segue.terminal.render.cells import pasteable
from segue.terminal.render.clean import clean
from segue.terminal.render.screen import Screen, Style

SHOWN = 4
"""How many lines of a tool's output are shown."""
_AROUND = 8
"""Screen rows for the frame of an approval, its question, the status line, and what comes before.
"""


class Activity:
    """Renders the activity in one conversation.

    It remembers which call was shown last, so that a result never appears under another call.
    """

    def __init__(self) -> None:
        self._shown = ""

    def lines(self, event: Event, screen: Screen) -> list[str]:
        """Return the lines for `event`; empty if it is displayed elsewhere."""
        match event:
            case ToolStarted(call):
                self._shown = call.id
                return [started(call, screen)]
            case ToolFinished(call, result, ok):
                above = [] if self._shown == call.id else [started(call, screen)]
                self._shown = ""
                return [*above, *finished(result, screen, ok=ok)]
            case ApprovalNeeded(call, what):
                self._shown = ""
                return approval(call, what, screen)
            case TextDelta() | MessageAdded() | UsageAdded() | TurnDone() | TurnPaused():
                return []
            case Compressing():
                said = "The conversation is too long for the model, so it is summarised first."
                return _said(screen.glyphs.dot, said, screen, Style.DIM)
            case TurnInterrupted():
                return _said(screen.glyphs.stopped, "Interrupted.", screen, Style.YELLOW)
            case TurnFailed(error):
                return failure(str(error), screen)


def started(call: ToolCall, screen: Screen) -> str:
    """Return a line such as `⏺ shell  git status`."""
    name = _one_line(call.name)
    head = f"{screen.glyphs.tool} {name}"
    room = screen.columns - cells.width(head) - 2
    if room < 1:
        return cells.fit(head, screen.columns, screen.glyphs.more)
    about = cells.fit(_about(call), room, screen.glyphs.more)
    painted = f"{screen.paint(screen.glyphs.tool, Style.CYAN)} {screen.paint(name, Style.BOLD)}"
    return f"{painted}  {about}" if about else painted


def finished(result: str, screen: Screen, *, ok: bool, shown: int = SHOWN) -> list[str]:
    """Return the first lines of a call's result, and how many more there are."""
    lines = clean(result).strip("\n").split("\n")
    if lines == [""]:
        lines = ["no output" if ok else "failed"]
    more = len(lines) - shown if len(lines) > shown + 1 else 0
    seen = lines[: len(lines) - more]
    glyphs = screen.glyphs
    if more:
        seen.append(f"{glyphs.more} {more:,} more lines")
    style = Style.DIM if ok else Style.RED
    marks = [glyphs.bar if ok or n else glyphs.failed for n in range(len(seen))]
    return [
        screen.paint(cells.fit(f"  {mark} {line}", screen.columns, glyphs.more), style)
        for mark, line in zip(marks, seen, strict=True)
    ]


def excerpt(what: Description, screen: Screen) -> Excerpt:
    """Return as much of a call as the screen can show at once above the question."""
    rows = max(approvals.LEAST_ROWS, screen.height - _AROUND)
    return approvals.excerpt(_writable(what, screen), rows=rows, columns=screen.columns - 2)


def approval(call: ToolCall, what: Description, screen: Screen) -> list[str]:
    """Return the call in a frame that fits on the screen."""
    shown = excerpt(what, screen)
    size = "" if shown.is_whole else f" ({count(shown.lines, 'line')})"
    return _in_frame(f"{_one_line(call.name)} needs your approval{size}", shown.text, screen)


def whole_call(call: ToolCall, what: Description, screen: Screen) -> list[str]:
    """Return the whole call in a frame."""
    lines = approvals.whole_lines(_writable(what, screen))
    title = f"{_one_line(call.name)}, all {count(len(lines), 'line')}"
    return _in_frame(title, "\n".join(lines), screen)


def failure(sentence: str, screen: Screen) -> list[str]:
    """Return the lines of an error message."""
    return _said(screen.glyphs.failed, pasteable(sentence), screen, Style.RED)


def _about(call: ToolCall) -> str:
    return "  ".join(map(_one_line, approvals.identifying_arguments(call)))


def _one_line(text: str) -> str:
    return " ".join(clean(text, newlines=False).split())


def _said(mark: str, sentence: str, screen: Screen, style: Style) -> list[str]:
    lines = cells.wrap(_one_line(sentence), screen.readable - 2)
    return [screen.paint(f"{' ' if n else mark} {line}", style) for n, line in enumerate(lines)]


def _writable(what: Description, screen: Screen) -> Description:
    """Return `what` in characters that the screen can show."""
    return what if screen.unicode else Description(_in_ascii(what.head), _in_ascii(what.rest))


def _in_ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


def _in_frame(title: str, text: str, screen: Screen) -> list[str]:
    """Return `text` in a frame, which marks lines that were too long for the screen."""
    return [
        _edge(screen.glyphs.corner_top, title, screen),
        *(row for line in text.split("\n") for row in _framed(line, screen)),
        _edge(screen.glyphs.corner_bottom, "", screen),
    ]


def _edge(corner: str, title: str, screen: Screen) -> str:
    glyphs = screen.glyphs
    head = f"{corner}{glyphs.rule} {title} " if title else corner
    head = cells.fit(head, screen.columns, glyphs.more)
    return screen.paint(head + glyphs.rule * (screen.columns - cells.width(head)), Style.WARNING)


def _framed(line: str, screen: Screen) -> list[str]:
    bar = screen.glyphs.bar
    folded = screen.glyphs.folded
    return [
        f"{screen.paint(folded if n else bar, Style.WARNING)} {part}"
        for n, part in enumerate(cells.fold(line, screen.columns - 2))
    ]
