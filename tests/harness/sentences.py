"""What users read when something goes wrong, found in the source: an error says the sentence that
it is made with, or else the docstring of its class."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import NamedTuple

import segue

SOURCE = Path(segue.__file__).parent


class Sentence(NamedTuple):
    place: str
    error: str
    """The name of its class."""
    text: str
    """With the code of each value in braces."""


class Source(NamedTuple):
    bases: dict[str, list[str]]
    """The error classes, with the names of their bases."""
    docstrings: dict[str, str]
    nodes: dict[str, list[ast.AST]]
    """All nodes of each module, by its path."""


@functools.cache
def source() -> Source:
    nodes = {
        str(path.relative_to(SOURCE)): list(ast.walk(ast.parse(path.read_text())))
        for path in sorted(SOURCE.rglob("*.py"))
    }
    classes = [node for found in nodes.values() for node in found if isinstance(node, ast.ClassDef)]
    bases = {"SegueError": ["Exception"]}
    docstrings: dict[str, str] = {}
    while True:
        known = len(docstrings)
        for node in classes:
            named = [_name(base) for base in node.bases]
            if node.name == "SegueError" or not bases.keys().isdisjoint(named):
                bases[node.name] = named
                docstrings[node.name] = " ".join((ast.get_docstring(node) or "").split())
        if len(docstrings) == known:
            return Source(bases, docstrings, nodes)


def caught() -> set[str]:
    """The names of all classes that the source catches or tells apart by their type."""
    return {
        _name(part)
        for nodes in source().nodes.values()
        for node in nodes
        for chosen in _types(node)
        for part in ast.walk(chosen)
        if isinstance(part, ast.Name | ast.Attribute)
    }


def _types(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.ExceptHandler(type=ast.expr() as chosen) | ast.MatchClass(cls=chosen):
            return [chosen]
        case ast.Call(func=ast.Name("isinstance"), args=[_, chosen]):
            return [chosen]
        case ast.Call(func=ast.Name("suppress") | ast.Attribute(attr="suppress"), args=chosen):
            return chosen
        case _:
            return []


def is_a(error: str, base: str) -> bool:
    """Whether the class `error` is `base`, or derived from it."""
    return error == base or any(is_a(it, base) for it in source().bases.get(error, ()))


def calls() -> list[tuple[str, str, ast.Call]]:
    """Every error that is made: where, the name of its class, and the call."""
    return [
        (f"{path}:{node.lineno}", _name(node.func), node)
        for path, nodes in source().nodes.items()
        for node in nodes
        if isinstance(node, ast.Call) and _name(node.func) in source().bases
    ]


def sentences() -> list[Sentence]:
    """The sentences that errors are made with."""
    return [
        Sentence(place, error, _template(call.args[0]))
        for place, error, call in calls()
        if call.args
    ]


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _template(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_template, node.values))
    value = node.value if isinstance(node, ast.FormattedValue) else node
    return "{" + ast.unparse(value) + "}"
