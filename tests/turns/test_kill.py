"""A program that is killed in the middle of a turn, and what the next one finds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

# Imports the whole program before it forks.
import tests.program  # noqa: F401 # pyright: ignore[reportUnusedImport]
from segue.agent.models.scripted import ScriptedModel
from segue.core.events import TurnDone
from segue.core.session import Session
from segue.core.transcript import Outcome
from segue.store import transcripts
from tests import program
from tests.turns import unfinished
from tests.turns.conftest import Desk
from tests.turns.test_runner import NOW, until


async def killed(
    desk: Desk, session: Session, tmp_path: Path, what: str, messages: int
) -> list[str]:
    """Start the program, kill it once that many messages are stored and, for a tool, the command
    runs; return the names of the events that it had emitted."""
    shown, pid = tmp_path / "shown", Path(session.cwd or "") / "pid"
    given = (f"sqlite://{tmp_path}/segue.db", session.id, what, shown)
    process = program.PROCESSES.Process(target=unfinished.begin, args=given, daemon=True)
    process.start()
    try:
        async with asyncio.timeout(40):
            while len(await desk.transcript(session)) < messages:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            if what == "tool":
                await until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    finally:
        process.kill()
        process.join()
    return shown.read_text().split()


async def test_a_message_survives_a_kill_before_the_first_word_and_can_be_answered(
    desk: Desk, session: Session, tmp_path: Path
):
    assert await killed(desk, session, tmp_path, "words", 1) == []
    assert await desk.transcript(session) == [("user", "Go")]
    events = await desk.take(["Gone."], session, None)
    assert events[-1] == TurnDone()


async def test_the_next_start_repairs_a_transcript_cut_off_in_a_tool_call(
    desk: Desk, session: Session, tmp_path: Path
):
    try:
        shown = await killed(desk, session, tmp_path, "tool", 4)
    finally:
        left = int((Path(session.cwd or "") / "pid").read_text())
        with contextlib.suppress(ProcessLookupError):
            os.killpg(left, signal.SIGKILL)
    assert shown.count("MessageAdded") == 3
    assert shown.count("ToolFinished") == 1
    model = ScriptedModel(["It broke off."])
    events = await desk.take(model, session, "And?")
    assert events[-1] == TurnDone()
    kept = await transcripts.load(desk.store, session.id)
    assert [m.role.value for m in kept] == [
        "user", "assistant", "tool", "assistant", "tool", "user", "assistant",
    ]  # fmt: skip
    assert kept.messages[4].outcome is Outcome.INTERRUPTED
    assert kept.repaired(NOW) == kept
    assert [m.content for m in model.prompts[0].messages][-1] == "And?"


async def test_the_session_of_a_killed_program_is_free_at_once(
    desk: Desk, session: Session, tmp_path: Path
):
    await killed(desk, session, tmp_path, "words", 1)
    async with asyncio.timeout(5):  # a lease would last for thirty seconds
        assert (await desk.take(["Here."], session, "Hi"))[-1] == TurnDone()
