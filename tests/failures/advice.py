"""Follow the advice in messages to the user literally."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.failures.conftest import Household
from tests.harness.pty import Terminal

HANDOFF = "/handoff telegram"
IN_A_SHELL = ("handoff", "Sums", "telegram")
"""The same for a session that no terminal holds."""


async def advised(shown: Terminal, beginning: str, count: int = 1) -> list[str]:
    """Wait until the terminal shows `count` shell commands after `beginning`, and return them."""
    await shown.until(
        lambda: len(commands(shown.text, beginning)) == count, f"what to type after {beginning!r}"
    )
    return commands(shown.text, beginning)


def commands(text: str, beginning: str) -> list[str]:
    """The shell commands that a text suggests after `beginning`."""
    _, _, rest = " ".join(text.split()).partition(beginning)
    return re.findall(r"`(segue [^`]+)`", rest)


async def refused(household: Household, *words: str) -> str:
    """Run a `segue` command that must fail, and return its error message on one line."""
    said = await household.shell(*(words or IN_A_SHELL))
    assert said.returncode == 1, said.stdout
    return " ".join(said.stderr.split())


def add_settings(household: Household, lines: str) -> None:
    """Append to the settings file, whose last table is that of telegram."""
    with Path(household.person.environment["SEGUE_CONFIG"]).open("a") as settings:
        settings.write(lines)


async def type_in_a_shell(household: Household, command: str) -> str:
    """Run a suggested command and return its output."""
    program, *words = shlex.split(command)
    assert program == "segue"
    said = await household.shell(*words)
    assert said.returncode == 0, said.stderr
    return said.stdout


async def arrives(household: Household) -> None:
    """Hand off the session in a shell, which works now."""
    said = await household.shell(*IN_A_SHELL)
    assert said.returncode == 0, said.stderr
    await arrived(household)


async def arrived(household: Household, title: str = "Sums") -> None:
    """Check that the session is on Anna's phone and continues there."""
    view = await household.rig.until(lambda view: bool(view.threads), household.chat)
    thread = view.threads[-1].id
    await household.writes("go on", thread)
    await household.sees("go on")
    address = (await household.session(title)).address
    assert address is not None
    assert address.thread_id == thread
