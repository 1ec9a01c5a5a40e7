"""Renders an answer while it arrives.

Finished lines are returned once, to be printed. The unfinished rest can be rendered many times.
rich and pygments are imported with the first block or the first call of `live`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from segue.terminal.render import cells
from segue.terminal.render.blocks import Block, Splitter
from segue.terminal.render.clean import Cleaner
from segue.terminal.render.screen import Screen

if TYPE_CHECKING:
    from segue.terminal.render.markdown import Highlighter

logger = logging.getLogger(__name__)

_SAMPLE = "# a\n\n- *b* `c` [d](e)\n\n| f |\n|---|\n| g |\n\n```python\nh = 1\n```\n"
_MAX_LIVE = 8000
"""Maximum characters of the unfinished rest that are rendered each time."""


def begin(screen: Screen) -> Stream:
    """Return a stream that renders Markdown if the screen has styles, or else plain text."""
    return MarkdownStream(screen) if screen.styled else PlainStream(screen)


def warm() -> None:
    """Import what Markdown needs, so that the first block does not wait. Runs in a thread."""
    from segue.terminal.render import markdown  # noqa: PLC0415

    markdown.render(_SAMPLE, Screen())


class PlainStream:
    """The text as written, cleaned, line by line. Its methods are those of MarkdownStream."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._cleaner = Cleaner()
        self._partial: list[str] = []

    def feed(self, delta: str) -> list[str]:
        first, *more = self._cleaner.feed(delta).split("\n")
        self._partial.append(first)
        if not more:
            return []
        done = "".join(self._partial)
        self._partial = [more[-1]]
        return [done, *more[:-1]]

    def live(self, most: int) -> list[str]:
        line = "".join(self._partial)[-most * self._screen.columns :]
        return cells.fold(line, self._screen.columns)[-most:] if line else []

    def end(self) -> list[str]:
        line = "".join(self._partial) + self._cleaner.end()
        self._partial = []
        return [line] if line else []

    def resize(self, screen: Screen) -> None:
        self._screen = screen


class MarkdownStream:
    """Markdown, rendered block by block.

    The result is the same as rendering the whole text at once, except for the colours of long code
    and for text that Markdown's rules do not cover. If a block cannot be rendered, it and
    everything after it is shown as written.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._cleaner = Cleaner()
        self._splitter = Splitter()
        self._code: Highlighter | None = None
        self._printed = False
        self._failed = False
        """Whether a block could not be rendered."""
        self._tail: tuple[int, list[str]] | None = None

    def feed(self, delta: str) -> list[str]:
        """Return the lines that are finished now. The cost does not depend on earlier text."""
        self._tail = None
        return self._shown(self._splitter.feed(self._cleaner.feed(delta)))

    def live(self, most: int) -> list[str]:
        """Return the end of the unfinished text in at most `most` lines, for each repaint."""
        if self._tail is None or self._tail[0] != most:
            self._tail = most, self._render_tail(most)
        return self._tail[1]

    def end(self) -> list[str]:
        """Return the remaining lines when the answer is complete."""
        self._tail = None
        rest = self._splitter.feed(self._cleaner.end())
        return self._shown([*rest, *self._splitter.end()])

    def resize(self, screen: Screen) -> None:
        """Render later lines for another screen size."""
        if screen != self._screen:
            self._tail = None
            self._screen = screen

    def _render_tail(self, most: int) -> list[str]:
        # Twice what fits, because markup takes characters that are not shown.
        block = self._splitter.rest(min(2 * most * self._screen.columns, _MAX_LIVE))
        return self._apart(block, self._lines(block, live=True))[-most:] if block else []

    def _shown(self, blocks: list[Block]) -> list[str]:
        shown: list[str] = []
        for block in blocks:
            lines = self._apart(block, self._lines(block, live=False))
            self._printed = self._printed or bool(lines)
            shown += lines
        return shown

    def _apart(self, block: Block, lines: list[str]) -> list[str]:
        """Add a blank line before the lines, unless they continue the previous block."""
        return ["", *lines] if lines and self._printed and not block.joined else lines

    def _lines(self, block: Block, *, live: bool) -> list[str]:
        if not self._failed:
            try:
                return self._rendered(block, live=live)
            except Exception:
                # An answer must be shown even if it triggers a bug in the parser or in our code.
                # Log once: an unfinished block would fail at every repaint.
                logger.exception("markdown not rendered lines=%d", len(block.lines))
                self._failed = True
        return cells.fold_lines(block.lines, self._screen.columns)

    def _rendered(self, block: Block, *, live: bool) -> list[str]:
        from segue.terminal.render import markdown  # noqa: PLC0415 - only when there is something

        if block.language is None:
            source = "\n".join(block.lines)
            return markdown.render(source, self._screen, number=block.number)
        code = self._code if block.joined and self._code else markdown.Highlighter(block.language)
        if live:
            return markdown.render_code(code.peek(block.lines), self._screen)
        self._code = code
        return markdown.render_code(code.take(block.lines), self._screen)


Stream = PlainStream | MarkdownStream
"""One answer. Its lines have no line breaks and are ready to be printed."""
