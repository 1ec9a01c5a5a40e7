"""Renders Markdown as lines of text, with highlighted code, also where the code arrives in parts.

It imports rich, markdown-it and pygments, so import this module only where you use it. URLs are
written out, because a model's text never becomes a clickable link. HTML is shown as written, and
line breaks are kept.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate

from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String
from rich.box import ASCII2, SIMPLE_HEAD
from rich.color import ColorSystem
from rich.console import Console, JustifyMethod
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from segue.core import markdown
from segue.core.markdown import is_cut, parser
from segue.terminal.render import cells
from segue.terminal.render.blocks import LONGEST
from segue.terminal.render.clean import clean
from segue.terminal.render.screen import Screen

_parser = cache(parser)

_NARROW = 10
"""Columns. With less room, nothing is indented further."""
_NARROW_COLUMN = 10
_CODE_INDENT = "  "

_PLAIN = Style()
_DIM = Style(dim=True)
_HEADINGS = {"h1": Style(bold=True, underline=True), "h2": Style(bold=True)}
_LOWER_HEADING = Style(bold=True, italic=True)
_INLINE = {
    "strong": Style(bold=True),
    "em": Style(italic=True),
    "s": Style(strike=True),
    "code_inline": Style(color="cyan"),
}
_LINK = Style(underline=True)
_ADDRESS = Style(color="cyan")


def render(source: str, screen: Screen, *, number: int | None = None) -> list[str]:
    """Return the lines that show `source`. `number` is the number of the first item of a list."""
    if len(source) > LONGEST:
        return cells.fold_lines(source.split("\n"), screen.columns)
    tokens = _parser().parse(source)
    if is_cut(tokens):
        return _ansi(_wrap(Text(source), screen.readable), screen)
    root = SyntaxTreeNode(tokens)
    return _ansi(_Page(screen, number).blocks(root.children, screen.columns), screen)


def parse_blocks(source: str) -> list[Token]:
    """Return the tokens of the blocks in `source`, without its inline text."""
    tokens: list[Token] = []
    _parser().block.parse(source, _parser(), {}, tokens)
    return tokens


def render_code(lines: Sequence[Text], screen: Screen) -> list[str]:
    return _ansi(_code(lines, screen.columns), screen)


@cache
def _console() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, legacy_windows=False, _environ={})


class _Page:
    """Lays out the blocks of one text."""

    def __init__(self, screen: Screen, number: int | None) -> None:
        self._glyphs = screen.glyphs
        self._unicode = screen.unicode
        self._readable = screen.readable
        self._number = number

    def blocks(self, nodes: Iterable[SyntaxTreeNode], width: int) -> list[Text]:
        """Return the lines of the blocks, with a blank line between blocks."""
        lines: list[Text] = []
        for node in nodes:
            if block := self._block(node, width):
                lines += [Text(), *block] if lines else block
        return lines

    def _block(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        match node.type:
            case "paragraph":
                return self._prose(self._inline(node), width)
            case "heading":
                style = _HEADINGS.get(node.tag, _LOWER_HEADING)
                return self._prose(self._inline(node, style), width)
            case "fence" | "code_block":
                info = node.info if node.type == "fence" else ""
                lines = tuple(node.content.rstrip().split("\n"))
                return _code(Highlighter(info).take(lines), width) if node.content.strip() else []
            case "blockquote":
                bar = Text(f"{self._glyphs.bar} ", _DIM)
                return _beside(bar, bar, lambda w: self.blocks(node.children, w), width)
            case "bullet_list" | "ordered_list":
                return self._list(node, width)
            case "hr":
                return [Text.assemble((self._glyphs.rule * min(width, self._readable), _DIM))]
            case "table":
                return self._table(node, width)
            case _:
                return self._prose(Text(clean(node.content)), width)

    def _prose(self, text: Text, width: int) -> list[Text]:
        return _wrap(text, min(width, self._readable))

    def _list(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        number = self._number
        self._number = None
        if number is None:
            number = int(node.attrs.get("start", 1))
        lines: list[Text] = []
        for n, item in enumerate(node.children, number):
            sign = f"{n}. " if node.type == "ordered_list" else f"{self._glyphs.bullet} "
            marker = Text(sign, _ADDRESS)
            space = Text(" " * len(sign))
            lines += _beside(marker, space, lambda w, item=item: self._item(item, w), width)
        return lines

    def _item(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        """Return the lines of a list item. Only further paragraphs are set off by a blank line."""
        lines: list[Text] = []
        for child in node.children:
            apart = lines and child.type not in ("bullet_list", "ordered_list", "fence")
            lines += [*([Text()] if apart else []), *self._block(child, width)]
        return lines or [Text()]

    # Tables

    def _table(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        header, *rows = [row.children for part in node.children for row in part.children]
        names = [self._inline(cell) for cell in header]
        values = [[self._inline(cell) for cell in row] for row in rows]
        if width < len(header) * _NARROW_COLUMN:
            return _records(names, values, width)
        table = Table(
            box=SIMPLE_HEAD if self._unicode else ASCII2,
            show_edge=False,
            pad_edge=False,
            border_style=_DIM,
            header_style=Style(bold=True),
        )
        for name, cell in zip(names, header, strict=True):
            table.add_column(name, justify=_justify(cell), overflow="fold")
        for row in values:
            table.add_row(*row)
        options = _console().options.update(width=width)
        return [_text(line) for line in _console().render_lines(table, options, pad=False)]

    # Inline text

    def _inline(self, node: SyntaxTreeNode, style: Style = _PLAIN) -> Text:
        text = Text()
        for child in node.children:
            self._write(text, child, style)
        return text

    def _write(self, text: Text, node: SyntaxTreeNode, style: Style) -> None:
        match node.type:
            case "text" | "code_inline":
                # Clean it here, because entities have become characters only now.
                shown = clean(node.content, newlines=False)
                text.append(shown, style + _INLINE.get(node.type, _PLAIN))
            case "softbreak" | "hardbreak":
                text.append("\n")
            case "link" | "image":
                address = node.attrs.get("href" if node.type == "link" else "src", "")
                self._write_link(text, node, str(address), style)
            case _:
                text.append_text(self._inline(node, style + _INLINE.get(node.type, _PLAIN)))

    def _write_link(self, text: Text, node: SyntaxTreeNode, address: str, style: Style) -> None:
        label = self._inline(node, style + _LINK)
        address = clean(address, newlines=False)
        text.append_text(label)
        if address not in ("", label.plain, f"mailto:{label.plain}"):
            text.append(" (" if label else "(", style)
            text.append(address, style + _ADDRESS)
            text.append(")", style)


def _beside(
    first: Text, others: Text, inner: Callable[[int], list[Text]], width: int
) -> list[Text]:
    """Return the lines of `inner`, rendered to the right of the markers."""
    room = width - cells.width(first.plain)
    if room < _NARROW:
        return inner(width)
    return [Text.assemble(others if n else first, line) for n, line in enumerate(inner(room))]


def _wrap(text: Text, width: int) -> list[Text]:
    return list(text.wrap(_console(), width, overflow="fold"))


def _code(lines: Sequence[Text], width: int) -> list[Text]:
    """Split code lines at the column limit, not between words, so that nothing is added or lost."""
    indent = _CODE_INDENT if width > _NARROW else ""
    room = width - len(indent)
    return [
        Text.assemble(indent, part)
        for line in lines
        for part in line.divide(list(accumulate(map(len, cells.fold(line.plain, room)[:-1]))))
    ]


def _records(names: Sequence[Text], rows: Sequence[Sequence[Text]], width: int) -> list[Text]:
    """Return a table that is too wide as records, one line per cell."""
    lines: list[Text] = []
    for row in rows or [[Text()] * len(names)]:
        lines += [Text()] if lines else []
        for name, value in zip(names, row, strict=True):
            name = name.copy()
            name.stylize(Style(bold=True))
            lines += _wrap(Text.assemble(name, ": ", value), width)
    return lines


def _justify(cell: SyntaxTreeNode) -> JustifyMethod:
    style = str(cell.attrs.get("style", ""))
    return "right" if "right" in style else "center" if "center" in style else "left"


def _text(line: Iterable[Segment]) -> Text:
    return Text.assemble(*((segment.text, segment.style or "") for segment in line))


def _ansi(lines: Iterable[Text], screen: Screen) -> list[str]:
    return [
        "".join(_painted(part, screen) for part in _stripped(line).render(_console()))
        for line in lines
    ]


def _stripped(line: Text) -> Text:
    line.rstrip()
    line.end = ""
    return line


def _painted(segment: Segment, screen: Screen) -> str:
    if (style := segment.style) is None:
        return segment.text
    style = style if screen.coloured else style.without_color
    return style.render(segment.text, color_system=ColorSystem.STANDARD)


_LONGEST_LINE = 2000
_LONGEST = 20_000
"""Characters. Longer text is data, and some lexers are very slow on it."""
_MAX_BEFORE = 2000
"""Characters that are lexed again with each part."""
_ENOUGH = 4
"""Lines that must match to show that lexing from the middle of the code gives correct colours."""
_TRIES = 3

_LANGUAGE = re.compile(r"\w[\w+#.-]*")

_Kind = tuple[str, ...]
# ANSI colours that themes keep readable, without black, white and similar ones.
_KINDS: Mapping[str, Sequence[_Kind]] = {
    "italic dim": (Comment,),
    "magenta": (Comment.Preproc, Keyword, Operator.Word, Name.Tag),
    "cyan": (
        *(Keyword.Type, Name.Builtin, Name.Decorator, Name.Exception, Name.Attribute),
        *(Name.Variable, String.Interpol, String.Escape, Generic.Subheading),
    ),
    "bold": (Name.Class, Name.Function, Generic.Heading),
    "yellow": (Number,),
    "green": (String, Generic.Inserted),
    "red": (Generic.Deleted,),
    "dim": (Generic.Prompt,),
}
_STYLES: Mapping[_Kind, Style] = {
    kind: Style.parse(style) for style, kinds in _KINDS.items() for kind in kinds
}
_Token = tuple[Style | None, str]


class Highlighter:
    """Highlights one block of code, part by part.

    Each part is lexed together with enough of the code before it, so that a string or a comment
    across two parts has one colour.
    """

    def __init__(self, language: str) -> None:
        found = _LANGUAGE.search(language)
        self._lexer = _lexer(found[0].lower()) if found else None
        self._before = ""

    def take(self, lines: tuple[str, ...]) -> list[Text]:
        """Return the next lines, highlighted."""
        start = len(self._before)
        text = self._before + _joined(lines)
        tokens = self._tokens(text)
        if self._lexer:
            self._before = self._needed(text, tokens)
        return _lines(tokens, start)

    def peek(self, lines: tuple[str, ...]) -> list[Text]:
        """Return the lines highlighted without consuming them, because they may still change."""
        return _lines(self._tokens(self._before + _joined(lines)), len(self._before))

    def _tokens(self, text: str) -> list[_Token]:
        if self._lexer is None or len(text) > _LONGEST or _has_long_line(text):
            return [(None, text)]
        return [
            (_style(kind), value) for _, kind, value in self._lexer.get_tokens_unprocessed(text)
        ]

    def _needed(self, text: str, tokens: list[_Token]) -> str:
        """Return the end of `text` that the next part must be lexed with.

        It starts at a line from which lexing gives the same colours without the text before it.
        """
        colours = _spread(tokens)
        for start in _beginnings(text):
            if _spread(self._tokens(text[start:])) == colours[start:]:
                return text[start:]
        return text if len(text) < _MAX_BEFORE else ""


def _joined(lines: tuple[str, ...]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _has_long_line(text: str) -> bool:
    return any(len(line) > _LONGEST_LINE for line in text.split("\n"))


def _beginnings(text: str) -> Iterator[int]:
    """Yield the last places where a new construct may begin.

    These are lines without indentation after an empty line, far enough from the end to judge.
    """
    ends = [m.end() for m in re.finditer(r"\n\n(?=\S)", text)]
    fits = [end for end in ends if text.count("\n", end) >= _ENOUGH]
    return reversed(fits[-_TRIES:])


def _spread(tokens: list[_Token]) -> list[Style | None]:
    """Return the colour of each character."""
    return [style for style, value in tokens for _ in value]


def _lines(tokens: list[_Token], start: int) -> list[Text]:
    """Return the lines of the text from `start`."""
    lines = [Text()]
    for style, value in tokens:
        skipped = min(start, len(value))
        start = max(0, start - len(value))
        first, *more = value[skipped:].split("\n")
        lines[-1].append(first, style)
        lines.extend(Text(piece, style or "") for piece in more)
    return lines[:-1]


_lexer = lru_cache(maxsize=64)(markdown.lexer)


@cache
def _style(kind: _Kind) -> Style | None:
    """Return the style of the token, or of the nearest more general one."""
    kinds = (kind[:n] for n in range(len(kind), 0, -1))
    return next((_STYLES[kind] for kind in kinds if kind in _STYLES), None)
