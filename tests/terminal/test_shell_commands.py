"""The commands that the program names can be pasted into a shell."""

from __future__ import annotations

import ast
import asyncio
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import segue
from segue.cli.main import main
from segue.terminal import output
from segue.terminal.render import cells
from segue.terminal.render.cells import pasteable
from tests.harness.command_line import Command
from tests.harness.terminal import Person

CODE = Path(segue.__file__).parent
CLONE = Path(sys.prefix).parent
PROGRAM = f"{Path(sys.prefix).name}/bin/segue"
NOT_INSTALLED = {"PATH": "/usr/bin:/bin", "PWD": str(CLONE)}
_NAMES = "|".join(main.list_commands(main.make_context("segue", ["demo"], resilient_parsing=True)))
_UNMARKED = re.compile(rf"(?<![`'\w/])segue ({_NAMES})\b")


def texts(path: Path) -> Iterator[str]:
    """The texts in a module: string literals, except docstrings that are not an error's message."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    docs: set[ast.AST] = set()
    for node in nodes:
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            docs |= {part.value for part in node.body[:1] if isinstance(part, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs:
            yield node.value


def test_every_message_marks_its_commands():
    """`pasteable` finds a command by its backtick or quote."""
    paths = [p for p in CODE.rglob("*.py") if "testing" not in p.parts]
    assert [(p.name, t) for p in paths for t in texts(p) if _UNMARKED.search(t)] == []


def test_commands_printed_by_the_cli_can_be_pasted(tmp_path: Path):
    gateway = Command("gateway", {"SEGUE_STORE": f"sqlite://{tmp_path}/segue.db"})
    assert f"Type `{PROGRAM} gateway start`." in gateway.refused("stop", **NOT_INSTALLED)
    assert "Type `segue gateway start`." in gateway.refused("stop")


def test_commands_in_usage_hints_can_be_pasted(monkeypatch: pytest.MonkeyPatch):
    for name, value in NOT_INSTALLED.items():
        monkeypatch.setenv(name, value)
    assert (
        pasteable("Try 'segue pair --help' for help.") == f"Try '{PROGRAM} pair --help' for help."
    )


async def test_commands_printed_in_a_conversation_can_be_pasted(person: Person):
    async with person.opens(environment=NOT_INSTALLED) as shown:
        await shown.ready()
        shown.say("hello")
        await shown.shows("what I hear: hello")
        await shown.ready()
        shown.say("/resume nothing")
        await shown.shows(f"`{PROGRAM} sessions`")
        shown.press("c-d")
        await shown.end()
        await shown.shows(f"To come back: {PROGRAM} resume hello")
    said = await asyncio.to_thread(
        subprocess.run,
        [*shlex.split(f"{PROGRAM} sessions show"), "hello"],
        cwd=CLONE,
        env=person.environment,
        capture_output=True,
        check=True,
        text=True,
    )
    assert "what I hear:" in said.stdout


@pytest.mark.parametrize("columns", range(36, 90, 7))
def test_no_line_breaks_within_a_command(columns: int):
    text = (
        "No gateway is running. Type `segue gateway start`. See `segue gateway status`, or ask"
        " (`segue pair list`)."
    )
    for lines in (cells.wrap(text, columns), output.folded(text, columns).split("\n")):
        assert " ".join(lines) == text
        assert all(line.count("`") % 2 == 0 for line in lines), lines
        assert all(len(line) <= columns for line in lines)
