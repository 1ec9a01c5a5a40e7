"""The tables of docs/settings.md, made of the descriptions beside the settings.

Type `.venv/bin/python -m tests.config.settings_tables` to write them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from segue.config import schema
from segue.config.schema import Family, Leaf, Section, SectionMember
from segue.config.settings import VARIABLES

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"

_BEGIN = "<!-- Written by `.venv/bin/python -m tests.config.settings_tables` from the code. -->\n"
_END = "<!-- The end of what is written. -->\n"


class Row(NamedTuple):
    name: str
    variables: tuple[str, ...]
    meaning: str
    default: str


def rows(node: Section | Family, name: str = "") -> Iterator[Row]:
    """Yield a row for each setting. Entries with the same description have one row."""
    if isinstance(node, Section):
        for inner, member in node.members.items():
            full = f"{name}.{inner}" if name else inner
            yield from _rows(member, full)
        return
    entries = node.entries
    for inner in entries.described or [entries.placeholder]:
        for row in _rows(SectionMember(node.node(inner), inner), f"{name}.{inner}"):
            yield _inherited(row, inner, name) if entries.inherit else row


def _rows(member: SectionMember, name: str) -> Iterator[Row]:
    if isinstance(member.node, Leaf):
        yield _row(name, member.node, _default(member, member.node))
    else:
        yield from rows(member.node, name)


def _row(name: str, leaf: Leaf, default: str) -> Row:
    described = leaf.description
    meaning = described.meaning
    if leaf.kind is not bool and leaf.choices:
        *others, last = (f"`{choice}`" for choice in leaf.choices)
        meaning += f": {', '.join(others)} or {last}"
    return Row(name, described.variables, meaning, default)


def _inherited(row: Row, placeholder: str, family: str) -> Row:
    """Return the row of what an entry may leave out."""
    around = family.rpartition(".")[0]
    field = row.name.rpartition(".")[2]
    default = f"the value of `{around}.{field}`"
    return row._replace(meaning=f"the same for {placeholder}: see below", default=default)


def _default(member: SectionMember, leaf: Leaf) -> str:
    if leaf.description.default:
        return leaf.description.default
    value = leaf.description.unset if member.default is None else member.default
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return f"`{value.value}`"
    return f"{value:g}" if isinstance(value, int | float) else "none"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("|  |", "| |")


def written(text: str) -> str:
    """Return the text of docs/settings.md with the tables of today."""
    settings = _table(
        ("setting", "variable", "meaning", "default"),
        [
            (_code([row.name]), _code(row.variables), row.meaning, row.default)
            for row in rows(schema.root())
        ],
    )
    alone = _table(
        ("variable", "meaning", "default"),
        [(_code(it.variables), it.meaning, it.default) for it in VARIABLES],
    )
    tables = f"{_BEGIN}\n{settings}\nThese exist only as variables:\n\n{alone}\n{_END}"
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return before + tables + after


if __name__ == "__main__":
    DOCS.write_text(written(DOCS.read_text()))
