"""The docs describe the options that the commands have."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from segue.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"


def command(line: str) -> click.Command:
    """The command that a line in a document runs."""
    found: click.Command = main
    for word in line.split()[1:]:
        with click.Context(found) as ctx:
            more = found.get_command(ctx, word) if isinstance(found, click.Group) else None
        if more is None:
            break
        found = more
    return found


def listed(document: str, sentence: str) -> list[str]:
    """The commands in the block or table above the sentence."""
    before, found, _ = (DOCS / document).read_text("utf-8").partition(sentence)
    assert found, sentence
    above = before.rstrip().removesuffix("```").rstrip().split("\n\n")[-1]
    return re.findall(r"^(?:\| `)?(segue [^`#|]+)", above, re.MULTILINE)


@pytest.mark.parametrize(
    ("document", "sentence", "without"),
    [
        ("terminal.md", "All of them take `--json`.", []),
        ("gateway.md", "All except `run` take `--json`.", ["run"]),
        ("gateway.md", "When you revoke your last account", []),
    ],
)
def test_every_command_that_is_documented_with_json_accepts_it(
    document: str, sentence: str, without: list[str]
):
    commands = [command(line) for line in listed(document, sentence)]
    assert len(commands) > 1
    refused = [c.name for c in commands if "--json" not in {o for p in c.params for o in p.opts}]
    assert sorted({name or "" for name in refused}) == without
