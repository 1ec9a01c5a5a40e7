"""Parse Markdown into blocks. Importing this module imports the Markdown library, so import it
late.

As in the terminal: HTML is text, and line breaks are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

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
    Paragraph,
    QuoteBlock,
    Rule,
    Span,
    Table,
)
from segue.platforms.markup.spans import lines_of, text_of

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
    return tuple(
        block for group in _children(tokens) for block in (_top(group, lines),) if block is not None
    )


def as_written(text: str) -> tuple[Block, ...]:
    """The text as one paragraph, with its Markdown characters."""
    return (Paragraph(tuple(_plain_lines(clean(text).strip("\n")))),)


def code_blocks(source: str) -> Iterator[tuple[int, int, Code]]:
    """The fenced code of a clean text, but not that in lists and quotes. Each with its first line
    and the line after it."""
    for group in _children(_parser().parse(source)):
        if group[0].type == "fence" and group[0].map and (code := _code(group[0])):
            begin, end = group[0].map
            yield begin, end, code


@cache
def _parser() -> MarkdownIt:
    return markdown.parser()


def clean(text: str) -> str:
    """Remove lone surrogates and control characters."""
    text = whole(text) if _HALF.search(text) else text
    return _CONTROL.sub("", _SPACE.sub(" ", _NEWLINE.sub("\n", text)))


def _children(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The tokens of each block in turn."""
    start = depth = 0
    for i, token in enumerate(tokens):
        depth += token.nesting
        if depth == 0:
            yield tokens[start : i + 1]
            start = i + 1


def _top(group: Sequence[Token], lines: Sequence[str]) -> Block | None:
    if markdown.is_cut(group):
        first, end = group[0].map or (0, len(lines))
        return Paragraph(tuple(_plain_lines("\n".join(lines[first:end]))))
    return _block(group)


def _blocks(tokens: Sequence[Token]) -> tuple[Block, ...]:
    found = (_block(group) for group in _children(tokens))
    return tuple(block for block in found if block is not None)


def _block(group: Sequence[Token]) -> Block | None:
    """None for an empty block."""
    head, inner = group[0], group[1:-1]
    match head.type:
        case "paragraph_open":
            return Paragraph(lines) if (lines := _lines(inner)) else None
        case "heading_open":
            return Heading(int(head.tag[1:]), lines) if (lines := _lines(inner)) else None
        case "fence" | "code_block":
            return _code(head)
        case "blockquote_open":
            blocks = _blocks(inner)
            return QuoteBlock(blocks) if blocks else None
        case "bullet_list_open":
            return Listing(tuple(_item(item[1:-1]) for item in _children(inner)), None)
        case "ordered_list_open":
            start = int(head.attrs.get("start", 1))
            return Listing(tuple(_item(item[1:-1]) for item in _children(inner)), start)
        case "table_open":
            return _table(inner)
        case "hr":
            return Rule()
        case _:
            return Paragraph(((Span(head.content),),)) if head.content.strip() else None


def _lines(inner: Sequence[Token]) -> tuple[Line, ...]:
    """The lines of a block, without empty lines at its start and end."""
    lines: list[Line] = []
    for token in inner:
        lines += lines_of(token.children or ())
    filled = [n for n, line in enumerate(lines) if line]
    return tuple(lines[filled[0] : filled[-1] + 1]) if filled else ()


def _plain_lines(text: str) -> Iterator[Line]:
    for line in text.split("\n"):
        stripped = line.strip(" ")
        yield (Span(stripped),) if stripped else ()


def _code(token: Token) -> Code | None:
    text = token.content.strip("\n").rstrip()
    language = _LANGUAGE.match(token.info.strip())
    return Code(text, language[0] if language else "") if text else None


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
    cells = [
        list(_children(row[1:-1])) for part in _children(inner) for row in _children(part[1:-1])
    ]
    return Table(
        tuple(tuple(text_of(_lines(cell[1:-1])) for cell in row) for row in cells),
        tuple("right" in str(cell[0].attrs.get("style", "")) for cell in cells[0]),
    )
