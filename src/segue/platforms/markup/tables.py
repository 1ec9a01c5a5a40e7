"""Tables as text: in columns where the platform has code blocks, otherwise row by row."""

from __future__ import annotations

from collections.abc import Sequence

from segue.platforms.markup.blocks import Block, Code, Line, Mark, MarkKind, Paragraph, Span, Table

_WIDEST = 80
"""Width in characters. Wider tables are unreadable in columns on a phone."""


def laid_out(table: Table, *, in_code: bool) -> tuple[Block, ...]:
    """The table as other blocks."""
    widths = [max(map(_width, column)) for column in zip(*table.rows, strict=True)]
    if sum(widths) + 2 * (len(widths) - 1) > _WIDEST:
        return tuple(_record(table.rows[0], row) for row in table.rows[1:] or table.rows)
    if not in_code:
        return (Paragraph(tuple((Span(" | ".join(row)),) for row in table.rows)),)
    header, *rows = (_row(row, widths, table.right) for row in table.rows)
    rule = "  ".join("─" * width for width in widths)
    return (Code("\n".join((header, rule, *rows))),)


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        f"{' ' * (width - _width(cell))}{cell}" if at_right else cell + " " * (width - _width(cell))
        for cell, width, at_right in zip(cells, widths, right, strict=True)
    )
    return "  ".join(padded).rstrip()


def _record(names: Sequence[str], values: Sequence[str]) -> Paragraph:
    """`Name: value` on a line each; empty values are left out."""
    if values is names:
        return Paragraph(tuple((Span(name),) for name in names if name))
    return Paragraph(tuple(_entry(*pair) for pair in zip(names, values, strict=True) if pair[1]))


def _entry(name: str, value: str) -> Line:
    return (Span(f"{name}:", (Mark(MarkKind.BOLD),)), Span(f" {value}")) if name else (Span(value),)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - only for who needs it

    return cell_len(text)
