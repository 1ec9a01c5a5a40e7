"""Extracts the readable text of a web page.

This file is also a program that `isolation.run_isolated` runs, because some pages are small to send
but take forever to parse. So it imports only the standard library.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser

_SILENT = frozenset({"script", "style", "template", "svg"})
_HELD = "\0"
"""Stands for a space to preserve, as in source code. No text contains this character."""
_CELLS = frozenset({"td", "th"})
_BLOCKS = frozenset(
    {
        *("title", "body", "header", "footer", "main", "nav", "aside", "section", "article"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "div", "p", "pre", "blockquote", "hr", "br"),
        *("ul", "ol", "li", "dl", "dt", "dd", "table", "caption", "tr", "figure", "figcaption"),
        *("form", "fieldset", "option"),
    }
)


def html_text(html: str) -> str:
    """The text, with one line for each block that is not empty."""
    reader = _Reader()
    try:
        reader.feed(html)
        reader.close()
    except ValueError:
        # A character reference had too many digits for Python. The text before it is still useful.
        pass
    lines = (" ".join(line.split()) for line in "".join(reader.parts).splitlines())
    return "\n".join(line for line in lines if line).replace(_HELD, " ")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._silent = ""
        """The element whose content is skipped. `_depth` is its nesting level."""
        self._depth = 0
        self._as_it_is = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._silent == "svg" and tag in _BLOCKS and tag != "title":
            self._silent = ""  # it was never closed; browsers resume here too
            self._depth = 0
        if tag == self._silent or (not self._silent and tag in _SILENT):
            self._silent = tag
            self._depth += 1
        self._as_it_is += tag == "pre"
        self._space(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._silent:
            self._depth -= 1
            self._silent = tag if self._depth else ""
        self._as_it_is -= tag == "pre" and self._as_it_is > 0
        self._space(tag)

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if self._as_it_is:
            self.parts.append(data.expandtabs().replace(" ", _HELD))
        else:
            self.parts.append(re.sub(r"\s+", " ", data))

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """Treat `<![…>` as a comment, as HTML does. Python would raise for most of them."""
        return self.parse_bogus_comment(i, report=bool(report))

    def _space(self, tag: str) -> None:
        if tag in _BLOCKS:
            self.parts.append("\n")
        elif tag in _CELLS:
            self.parts.append(" ")


if __name__ == "__main__":
    page = sys.stdin.buffer.read().decode("utf-8", "replace")
    sys.stdout.buffer.write(html_text(page).encode("utf-8", "replace"))
