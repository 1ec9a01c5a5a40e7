"""The types that the page's scripts are checked with: the frames, and the elements of the page.

Type `.venv/bin/python -m tests.web.page_types` to write them again.
"""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import msgspec.inspect as mi

import segue
from segue.web import frames

WEB = Path(segue.__file__).parent / "web"
ASSETS = WEB / "assets"
_ICON = "i-"
_LEAVES: dict[type[mi.Type], str] = {
    mi.StrType: "string",
    mi.IntType: "number",
    mi.BoolType: "boolean",
    mi.NoneType: "null",
    mi.DateTimeType: "Time",
}
_FRAMES = """\
// The frames between the page and its server, for the checks of the page's scripts.
// Written by `.venv/bin/python -m tests.web.page_types` from frames.py, which explains them.

/** A time, as ISO 8601 writes it. */
export type Time = string;
"""
_ELEMENTS = """\
// The elements of the page that scripts refer to, for the checks of these scripts.
// Written by `.venv/bin/python -m tests.web.page_types` from assets/index.html.
"""


class Elements(HTMLParser):
    """All elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def written() -> dict[Path, str]:
    """The files of types, with their contents."""
    return {
        WEB / "frames.d.ts": _frames(),
        WEB / "elements.d.ts": _elements((ASSETS / "index.html").read_text()),
    }


def _frames() -> str:
    parts = [_FRAMES]
    sent = (frames.Greet, frames.Prove, *get_args(frames.Ask))
    declared: set[type] = set()
    for struct in sent:
        parts += _declared(struct, declared, is_sent=True)
    for struct in get_args(frames.Tell):
        parts += _declared(struct, declared, is_sent=False)
    parts.append(_union("Ask", get_args(frames.Ask)))
    parts.append(_union("Tell", get_args(frames.Tell)))
    return "\n".join(parts)


def _declared(struct: type, declared: set[type], *, is_sent: bool) -> list[str]:
    """The declarations of a struct and of those in its fields, unless they are declared."""
    if struct in declared:
        return []
    declared.add(struct)
    info = mi.type_info(struct)
    assert isinstance(info, mi.StructType)
    assert not struct.__struct_config__.omit_defaults
    before: list[str] = []
    lines: list[str] = []
    if info.tag_field:
        lines.append(f'  {info.tag_field}: "{info.tag}";')
    for field in info.fields:
        for inner in _structs(field.type):
            before += _declared(inner, declared, is_sent=is_sent)
        # The server sends every field.
        optional = "?" if is_sent and not field.required else ""
        lines.append(f"  {field.encode_name}{optional}: {_typed(field.type)};")
    return [*before, "\n".join([f"export interface {struct.__name__} {{", *lines, "}\n"])]


def _structs(kind: mi.Type) -> list[type]:
    match kind:
        case mi.StructType(cls=struct):
            return [struct]
        case mi.UnionType(types=types) | mi.TupleType(item_types=types):
            return [struct for one in types for struct in _structs(one)]
        case mi.VarTupleType(item_type=item):
            return _structs(item)
        case _:
            return []


def _typed(kind: mi.Type) -> str:
    match kind:
        case mi.StructType(cls=struct):
            return struct.__name__
        case mi.EnumType(cls=values):
            return _literals([value.value for value in values])
        case mi.LiteralType(values=values):
            return _literals(values)
        case mi.UnionType(types=types):
            return " | ".join(_typed(one) for one in types)
        case mi.TupleType(item_types=types):
            return f"[{', '.join(map(_typed, types))}]"
        case mi.VarTupleType(item_type=item):
            one = _typed(item)
            return f"({one})[]" if "|" in one else f"{one}[]"
        case _:
            return _LEAVES[type(kind)]


def _literals(values: Any) -> str:
    return " | ".join(f'"{value}"' for value in values)


def _union(name: str, structs: tuple[type, ...]) -> str:
    lines = "".join(f"\n  | {struct.__name__}" for struct in structs)
    return f"export type {name} ={lines};\n"


def _elements(html: str) -> str:
    found = Elements(html).found
    ids = [(attributes["id"], tag) for tag, attributes in found if "id" in attributes]
    lines = [
        f'  "{name}": HTMLElementTagNameMap["{tag}"];'
        for name, tag in ids
        if not name.startswith(_ICON)
    ]
    icons = [f'\n  | "{name[len(_ICON) :]}"' for name, _ in ids if name.startswith(_ICON)]
    elements = "\n".join(["export interface Elements {", *lines, "}\n"])
    return "\n".join([_ELEMENTS, elements, f"export type Icon ={''.join(icons)};\n"])


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text)
