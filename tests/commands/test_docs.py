"""The documents name the commands that there are, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from segue.commands import COMMANDS

BAR = r"\|"
DOCS = Path(__file__).parents[2] / "docs" / "terminal.md"


def table() -> str:
    rows = [f"| `{c.usage.replace('|', BAR)}` | {c.summary} |" for c in COMMANDS]
    return "\n".join(["| command | what it does |", "| --- | --- |", *rows])


def test_the_table_of_commands_is_the_one_in_the_document():
    text = DOCS.read_text("utf-8")
    (written,) = re.findall(
        r"<!-- commands: begin -->\n(.*?)\n?<!-- commands: end -->", text, re.DOTALL
    )
    assert written.strip() == table()
