"""Inline content: text and its marks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

from markdown_it.token import Token

from segue.platforms.markup.blocks import Line, Mark, MarkKind, Span

_OPENING = {"strong_open": MarkKind.BOLD, "em_open": MarkKind.ITALIC, "s_open": MarkKind.STRIKE}
_CLOSING = {"strong_close", "em_close", "s_close"}
_OPENS = re.compile(r"https?://[^\s/]|mailto:\S", re.IGNORECASE)
"""Links that may be clickable. Others, such as `tg://user?id=1`, are written out."""
_ADDRESS = re.compile(r"\w://|www\.", re.IGNORECASE)
_SPACES = re.compile(r"\s+")
_NEWLINE = re.compile("[\n\r\x0b\x0c\x85\u2028\u2029]")


def lines_of(tokens: Iterable[Token]) -> list[Line]:
    reader = _SpanReader()
    reader.take(tokens)
    return [tuple(line) for line in reader.lines]


def text_of(lines: Iterable[Line]) -> str:
    """The text on one line, with the URLs of its links written out."""
    written: list[str] = []
    for line in lines:
        for n, span in enumerate(line):
            written.append(span.text)
            after = line[n + 1].marks if n + 1 < len(line) else ()
            written += [
                written_out(mark.href) for mark in span.marks if mark.href and mark not in after
            ]
        written.append(" ")
    return _SPACES.sub(" ", "".join(written)).strip()


def written_out(href: str) -> str:
    """The URL as it is shown after a link's text."""
    return f" ({href.removeprefix('mailto:')})"


class _SpanReader:
    """Collects the lines of one block."""

    def __init__(self) -> None:
        self.lines: list[list[Span]] = [[]]
        self._open: list[Mark] = []
        self._opened: list[bool] = []
        """For each unclosed mark, outermost first: whether it is in `_open`. A mark nested in one
        of the same kind is not."""
        self._links: list[tuple[Mark, int]] = []
        """The open links, and where in the line each started."""

    def take(self, tokens: Iterable[Token]) -> None:
        for token in tokens:
            match token.type:
                case "softbreak" | "hardbreak":
                    self._break()
                case "code_inline":
                    self._add(token.content, Mark(MarkKind.CODE))
                case "link_open":
                    self._open_link(str(token.attrs.get("href", "")))
                case "link_close":
                    self._close_link()
                case "image":
                    self._image(token)
                case kind if kind in _OPENING:
                    self._open_mark(Mark(_OPENING[kind]))
                case kind if kind in _CLOSING:
                    self._close_mark()
                case _:
                    self._add(token.content)

    def _add(self, text: str, *marks: Mark) -> None:
        if text:
            # Only an entity can produce line breaks here.
            line = _NEWLINE.sub(" ", text)
            self.lines[-1].append(Span(line, (*self._open, *marks)))

    def _break(self) -> None:
        # Keep a link on one line.
        if self._is_open(MarkKind.LINK):
            self._add(" ")
        else:
            self.lines.append([])

    def _is_open(self, kind: MarkKind) -> bool:
        return any(mark.kind is kind for mark in self._open)

    def _open_mark(self, mark: Mark) -> None:
        self._opened.append(not self._is_open(mark.kind))
        if self._opened[-1]:
            self._open.append(mark)

    def _close_mark(self) -> None:
        if self._opened.pop():
            self._open.pop()

    def _image(self, token: Token) -> None:
        """Turn an image into a link to it. Within a link, show only its text."""
        linked = self._is_open(MarkKind.LINK)
        if not linked:
            self._open_link(str(token.attrs.get("src", "")))
        self._add(text_of(lines_of(token.children or ())))
        if not linked:
            self._close_link()

    def _open_link(self, href: str) -> None:
        mark = Mark(MarkKind.LINK, href)
        self._open_mark(mark)
        self._links.append((mark, len(self.lines[-1])))

    def _close_link(self) -> None:
        """Close the link. Its label is complete only now, and decides whether the link is
        clickable."""
        mark, start = self._links.pop()
        self._close_mark()
        if self._links:
            # A URL in angle brackets within a link: the outer link counts.
            return
        line = self.lines[-1]
        label = "".join(span.text for span in line[start:]).strip()
        if label and _OPENS.match(mark.href) and not _ADDRESS.search(label):
            return
        line[start:] = [
            Span(span.text, tuple(one for one in span.marks if one is not mark))
            for span in line[start:]
        ]
        if not label:
            self._add(mark.href)
        elif unquote(mark.href) not in ("", unquote(label)):
            self._add(written_out(mark.href))
