"""Following the advice that a person is given, to the letter."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

from tests.failures.conftest import Household
from tests.terminal.gateways import segue_says
from tests.terminal.pty import Terminal

HANDOFF = "/handoff telegram"


async def told(shown: Terminal, beginning: str, count: int = 1) -> list[str]:
    """What the terminal tells to type in a shell, so many commands, after that beginning."""

    def commands_told() -> list[str]:
        _, _, text = " ".join(shown.text.split()).partition(beginning)
        return re.findall(r"`(segue [^`]+)`", text)

    await shown.until(lambda: len(commands_told()) == count, f"what to type after {beginning!r}")
    return commands_told()


def add_settings(household: Household, lines: str) -> None:
    """At the end of the file, which is in the table of telegram."""
    with Path(household.person.environment["SEGUE_CONFIG"]).open("a") as settings:
        settings.write(lines)


async def type_in_a_shell(household: Household, command: str) -> str:
    """Type it, as it was told; what it says."""
    program, *words = shlex.split(command)
    assert program == "segue"
    said = await asyncio.to_thread(segue_says, household.person, *words)
    assert said.returncode == 0, said.stderr
    return said.stdout


async def arrived(household: Household, title: str = "Sums") -> None:
    """The session is on her phone, and goes on there."""
    thread = await household.hands.thread(household.chat)
    await household.hands.say(household.anna, household.chat, "go on", thread=thread.id)
    await household.sees("go on")
    address = (await household.session(title)).address
    assert address is not None
    assert address.thread_id == thread.id
