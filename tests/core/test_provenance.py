"""Whose words a text has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import segue
from segue.core import provenance
from segue.core.provenance import Author
from segue.core.transcript import Message


def test_a_text_made_of_several_has_the_authors_of_all():
    parts = (provenance.OWNER, provenance.OWNER | provenance.FILE, provenance.NOTHING)
    assert provenance.union(parts) == {Author.OWNER, Author.FILE}
    assert provenance.union(()) == provenance.NOTHING


@pytest.mark.parametrize("author", Author)
def test_the_least_trusted_author_decides(author: Author):
    is_private = author not in (Author.OWNER, Author.AGENT, Author.PROGRAM, Author.PAGE)
    assert provenance.is_private(frozenset({author})) is is_private
    assert provenance.is_private(frozenset({author, Author.OWNER, Author.PAGE})) is is_private


def test_what_is_written_is_read_again():
    every = frozenset(Author)
    assert provenance.encode(provenance.STRANGER | provenance.OWNER) == "owner,stranger"
    assert provenance.parse(provenance.encode(every)) == every


@pytest.mark.parametrize("stored", ["", "nobody", "owner,nobody", "OWNER"])
def test_an_author_that_is_not_known_is_unknown(stored: str):
    assert Author.UNKNOWN in provenance.parse(stored)
    assert provenance.is_private(provenance.parse(stored))


def made_messages() -> Iterator[tuple[str, ast.Call]]:
    """Every place in the program that makes a message of a transcript."""
    for path in Path(segue.__path__[0]).rglob("*.py"):
        source = path.read_text("utf-8")
        if "Message(" not in source:
            continue
        tree = ast.parse(source)
        names = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "segue.core.transcript"
            for alias in node.names
        }
        is_its_own = path.name == "transcript.py"
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name("Message")) if "Message" in names or is_its_own:
                    yield f"{path.name}:{node.lineno}", node
                case _:
                    pass


def test_every_place_that_makes_a_message_states_its_authors():
    fields = Message.__struct_fields__.index("provenance") + 1
    made = dict(made_messages())
    assert len(made) > 5
    silent = [
        place
        for place, call in made.items()
        if len(call.args) < fields and "provenance" not in [k.arg for k in call.keywords]
    ]
    assert silent == []
