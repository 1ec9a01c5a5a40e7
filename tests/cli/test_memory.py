"""`segue memory`: showing and changing notes from the command line."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import segue.store
from segue.core.session import ME
from segue.store import Tx, owners
from tests.harness.command_line import Command


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/segue.db"


@pytest.fixture
def memory(url: str) -> Command:
    return Command("memory", {"SEGUE_STORE": url})


async def write(url: str, work: Callable[[Tx], None]) -> None:
    async with await segue.store.open(url) as store:
        await store.write(work)


def decoded(line: str) -> Any:
    assert line.count("\n") == 1
    return msgspec.json.decode(line)


def test_an_empty_memory_says_how_to_add_a_note(memory: Command):
    assert "There are no notes about you yet." in memory()
    assert "segue memory add " in memory()
    assert decoded(memory("--json")) == []


def test_notes_are_added_changed_removed_and_listed(memory: Command):
    assert memory("add", "I prefer short answers.") == "Added:\n  1  I prefer short answers.\n"
    assert memory("add", "I", "live", "in", "Köln.") == "Added:\n  2  I live in Köln.\n"
    assert memory("edit", "1", "I prefer", "long answers.") == (
        "Changed:\n  1  I prefer long answers.\n"
    )
    assert memory() == "  1  I prefer long answers.\n  2  I live in Köln.\n"
    assert memory("remove", "1") == "Removed:\n  1  I prefer long answers.\n"
    assert memory() == "  2  I live in Köln.\n"


def test_the_same_note_is_stored_once(memory: Command):
    memory("add", "I like tea")
    assert memory("add", " i LIKE  tea") == "Added:\n  1  I like tea\n"
    assert memory() == "  1  I like tea\n"


def test_every_subcommand_can_print_json(memory: Command):
    added = decoded(memory("add", "--json", "I like tea"))
    assert (added["number"], added["text"]) == (1, "I like tea")
    assert added["written"].endswith("Z")
    assert decoded(memory("--json", "add", "I like tea")) == added
    assert decoded(memory("--json")) == [added]
    edited = decoded(memory("edit", "1", "I like coffee", "--json"))
    assert (edited["number"], edited["text"]) == (1, "I like coffee")
    assert decoded(memory("remove", "1", "--json")) == edited
    assert decoded(memory("--json")) == []


def test_an_error_is_one_sentence_that_says_what_to_do(memory: Command):
    assert memory.refused("remove", "7") == (
        "Error: There is no note 7. Type `segue memory` to see yours.\n"
    )
    assert "There is no note 7" in memory.refused("edit", "7", "x")
    assert "There is no note 9999999999999999999999" in memory.refused("remove", "9" * 22)
    assert "at least one visible character" in memory.refused("add", " \u200b")
    assert "Make it shorter" in memory.refused("add", "x" * 501)
    assert "Missing argument 'TEXT...'" in memory.refused("add")
    assert "not a valid integer" in memory.refused("remove", "\x1b[8m")
    assert "\x1b" not in memory.refused("remove", "\x1b[8m")
    assert decoded(memory("--json")) == []


def test_only_the_notes_of_the_owner_of_this_machine_are_shown(memory: Command, url: str):
    memory("add", "mine")

    async def others() -> list[str]:
        async with await segue.store.open(url) as store:
            await owners.ensure(store, "you")
            await owners.add_note(store, "you", "theirs")
            return [note.text for note in await owners.list_notes(store, ME)]

    assert asyncio.run(others()) == ["mine"]
    assert memory() == "  1  mine\n"


def test_printed_notes_have_no_control_characters(memory: Command, url: str):
    memory("add", "likes tea")

    def spoil(tx: Tx) -> None:
        tx.change("UPDATE notes SET text = :text", text="\x1b[2Jlikes\n  2  \u202etea")

    asyncio.run(write(url, spoil))
    assert memory() == "  1  [2Jlikes 2 tea\n"
    assert "\x1b" not in memory("--json")
    assert memory("remove", "1") == "Removed:\n  1  [2Jlikes 2 tea\n"


def test_numbers_are_right_aligned(memory: Command, url: str):
    def insert(tx: Tx) -> None:
        for number in (2, 1001):
            tx.change("INSERT INTO notes VALUES ('me', :number, 'note', 0, 'owner')", number=number)

    memory()
    asyncio.run(write(url, insert))
    assert memory() == "   2  note\n1001  note\n"


def test_a_long_note_is_folded_on_a_terminal_and_unchanged_in_a_pipe(
    memory: Command, url: str, monkeypatch: pytest.MonkeyPatch
):
    text = " ".join(["word"] * 90)
    memory("add", text)
    assert memory() == f"  1  {text}\n"
    monkeypatch.setenv("SEGUE_STORE", url)
    monkeypatch.setenv("COLUMNS", "40")
    screen = on_a_screen("memory").splitlines()
    assert screen[0] == "  1  " + " ".join(["word"] * 7)
    assert screen[1:-1] == ["     " + " ".join(["word"] * 7)] * 11
    assert " ".join(screen).split() == ["1", *text.split()]


def on_a_screen(*arguments: str) -> str:
    """The output of the program on a terminal, in this environment."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "segue", *arguments]
    with os.fdopen(ours, "rb", 0) as screen:
        try:
            subprocess.run(command, stdout=theirs, timeout=50, check=True)
        finally:
            os.close(theirs)
        printed = b""
        try:
            while chunk := screen.read(4096):
                printed += chunk
        except OSError:  # the last writer has closed the terminal
            pass
    return printed.decode()


def test_a_command_out_of_file_descriptors_says_what_to_type(url: str):
    program = (
        "from segue.cli import memory\n"
        "from segue.cli.main import main\n"
        "from tests.harness.descriptors import exhausted\n"
        "with exhausted():\n    main(['memory'])\n"
    )
    refused = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={"SEGUE_STORE": url, "HOME": str(Path(url.removeprefix("sqlite://")).parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert "Too many files are open. Type `ulimit -n 4096`" in refused.stderr
