"""The docs list exactly the existing commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from segue.commands import Where, available

BAR = r"\|"
DOCS = Path(__file__).parents[2] / "docs"


def table(where: Where) -> str:
    rows = [f"| `{c.usage.replace('|', BAR)}` | {c.summary} |" for c in available(where)]
    return "\n".join(["| command | what it does |", "| --- | --- |", *rows])


@pytest.mark.parametrize(
    ("document", "where"), [("terminal.md", Where.TERMINAL), ("chats.md", Where.CHAT)]
)
def test_the_docs_have_the_table_of_commands(document: str, where: Where):
    text = (DOCS / document).read_text("utf-8")
    (written,) = re.findall(
        r"<!-- commands: begin -->\n(.*?)\n?<!-- commands: end -->", text, re.DOTALL
    )
    assert written.strip() == table(where)
