"""Parse Markdown into blocks, and the text in them into spans. Importing this module imports the
Markdown library, so import it late.

As in the terminal: HTML is text, and line breaks are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from segue.core import markdown
from segue.core.text import whole
from segue.platforms.markup.blocks import (
    Block,
    Code,
    Heading,
    Line,
    Listing,
    ListItem,
    Mark,
    MarkKind,
    Paragraph,
    QuoteBlock,
    Rule,
    Span,
    Table,
    written_out,
)

_OPENING = {"strong_open": MarkKind.BOLD, "em_open": MarkKind.ITALIC, "s_open": MarkKind.STRIKE}
_CLOSING = {"strong_close", "em_close", "s_close"}
_OPENS = re.compile(r"https?://[^\s/]|mailto:\S", re.IGNORECASE)
"""Links that may be clickable. Others, such as `tg://user?id=1`, are written out."""
_ADDRESS = re.compile(r"\w://|www\.", re.IGNORECASE)
_SPACES = re.compile(r"\s+")
_LINE_END = re.compile("[\n\r\x0b\x0c\x85\u2028\u2029]")
_TASK = re.compile(r"\[([ xX])\](?:\s+|$)")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,20}(?!\S)")
_NEWLINE = re.compile("\r\n?|[\x85\u2028\u2029]")
_HALF = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"[\x0b\x0c]")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")


def read(text: str) -> tuple[Block, ...]:
    source = clean(text)
    lines = source.split("\n")
    tokens = _parser().parse(source)
    blocks = [_top(group, lines) for group in _children(tokens)]
    return tuple(block for block in blocks if block is not None)


def as_written(text: str) -> tuple[Block, ...]:
    """The text as one paragraph, with its Markdown characters."""
    return (Paragraph(tuple(_plain_lines(clean(text).strip("\n")))),)


def code_blocks(source: str) -> Iterator[tuple[int, int, Code]]:
    """The fenced code of a clean text, but not that in lists and quotes. Each with its first line
    and the line after it."""
    for group in _children(_parser().parse(source)):
        fence = group[0]
        if fence.type != "fence" or fence.map is None:
            continue
        code = _code(fence)
        if code is not None:
            begin, end = fence.map
            yield begin, end, code


@cache
def _parser() -> MarkdownIt:
    return markdown.parser()


def clean(text: str) -> str:
    """Remove lone surrogates and control characters."""
    if _HALF.search(text):
        text = whole(text)
    text = _NEWLINE.sub("\n", text)
    text = _SPACE.sub(" ", text)
    return _CONTROL.sub("", text)


def _children(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The tokens of each block in turn."""
    start = 0
    depth = 0
    for end, token in enumerate(tokens, start=1):
        depth += token.nesting
        if depth == 0:
            yield tokens[start:end]
            start = end


def _top(group: Sequence[Token], lines: Sequence[str]) -> Block | None:
    if markdown.is_cut(group):
        first, end = group[0].map or (0, len(lines))
        return Paragraph(tuple(_plain_lines("\n".join(lines[first:end]))))
    return _block(group)


def _blocks(tokens: Sequence[Token]) -> tuple[Block, ...]:
    found = (_block(group) for group in _children(tokens))
    return tuple(block for block in found if block is not None)


def _block(group: Sequence[Token]) -> Block | None:
    """The block of these tokens. None if it is empty."""
    head = group[0]
    inner = group[1:-1]
    match head.type:
        case "paragraph_open":
            lines = _lines(inner)
            return Paragraph(lines) if lines else None
        case "heading_open":
            lines = _lines(inner)
            return Heading(int(head.tag[1:]), lines) if lines else None
        case "fence" | "code_block":
            return _code(head)
        case "blockquote_open":
            blocks = _blocks(inner)
            return QuoteBlock(blocks) if blocks else None
        case "bullet_list_open":
            return Listing(_items(inner), None)
        case "ordered_list_open":
            return Listing(_items(inner), int(head.attrs.get("start", 1)))
        case "table_open":
            return _table(inner)
        case "hr":
            return Rule()
        case _:
            line = (Span(head.content),)
            return Paragraph((line,)) if head.content.strip() else None


def _lines(inner: Sequence[Token]) -> tuple[Line, ...]:
    """The lines of a block, without empty lines at its start and end."""
    lines: list[Line] = []
    for token in inner:
        lines += lines_of(token.children or ())
    filled = [n for n, line in enumerate(lines) if line]
    if not filled:
        return ()
    return tuple(lines[filled[0] : filled[-1] + 1])


def _plain_lines(text: str) -> Iterator[Line]:
    for line in text.split("\n"):
        stripped = line.strip(" ")
        yield (Span(stripped),) if stripped else ()


def _code(token: Token) -> Code | None:
    text = token.content.strip("\n").rstrip()
    if not text:
        return None
    language = _LANGUAGE.match(token.info.strip())
    return Code(text) if language is None else Code(text, language[0])


def _items(inner: Sequence[Token]) -> tuple[ListItem, ...]:
    return tuple(_item(item[1:-1]) for item in _children(inner))


def _item(tokens: Sequence[Token]) -> ListItem:
    blocks = _blocks(tokens)
    if not blocks or not isinstance(blocks[0], Paragraph):
        return ListItem(blocks)
    (first, *spans), *lines = blocks[0].lines
    task = _TASK.match(first.text)
    if not task or first.marks:
        return ListItem(blocks)
    rest = Span(first.text[task.end() :])
    text = Paragraph(((rest, *spans), *lines))
    return ListItem((text, *blocks[1:]), task[1] != " ")


def _table(inner: Sequence[Token]) -> Table:
    rows: list[list[Sequence[Token]]] = []
    for part in _children(inner):  # the head and the body
        rows += [list(_children(row[1:-1])) for row in _children(part[1:-1])]
    right = tuple("right" in str(cell[0].attrs.get("style", "")) for cell in rows[0])
    return Table(tuple(map(_texts, rows)), right)


def _texts(row: Iterable[Sequence[Token]]) -> tuple[str, ...]:
    return tuple(text_of(_lines(cell[1:-1])) for cell in row)


# Spans


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
            ended = [mark for mark in span.marks if mark.href and mark not in after]
            written += [written_out(mark.href) for mark in ended]
        written.append(" ")
    return _SPACES.sub(" ", "".join(written)).strip()


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
            line = _LINE_END.sub(" ", text)
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
        line[start:] = [_unmarked(span, mark) for span in line[start:]]
        if not label:
            self._add(mark.href)
        elif unquote(mark.href) not in ("", unquote(label)):
            self._add(written_out(mark.href))


def _unmarked(span: Span, mark: Mark) -> Span:
    return Span(span.text, tuple(one for one in span.marks if one is not mark))
