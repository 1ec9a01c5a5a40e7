"""A program that is killed in the middle of a turn, and what the next one finds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import segue.store
from segue.agent.models.scripted import ScriptedModel
from segue.config import Settings
from segue.core.events import TurnDone
from segue.core.session import Session
from segue.core.transcript import INTERRUPTED, ToolCall
from segue.turns import Turns
from tests.turns.conftest import Desk, Offered, call
from tests.turns.test_taking import AUTO, NOW, until

WORDS = "Here is what I found. " * 3


async def program(url: str, session_id: str, what: str, settings: Settings) -> None:
    """One turn, which says `what` it is told to and does not come to its end."""
    hang = call("shell", command="echo $$ > pid; sleep 50")
    read = ToolCall("c0", "list_files", "{}")
    script = {"words": [WORDS], "tool": [read, hang, "Never."]}[what]
    model = ScriptedModel(script, pause=30 if what == "words" else 0)
    async with (
        await segue.store.open(url) as store,
        Turns(store, settings, models=Offered(model), titles=False) as turns,
    ):
        async for event in turns.take_turn(session_id, "Go"):
            print(type(event).__name__, flush=True)


async def killed(
    desk: Desk, session: Session, tmp_path: Path, what: str, messages: int
) -> list[str]:
    """Start the program, kill it once that many messages are kept and, for a tool, the command
    runs; and give the names of the events that it had shown."""
    url = f"sqlite://{tmp_path}/segue.db"
    code = f"from {__name__} import begin; begin({url!r}, {session.id!r}, {what!r})"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(40):
            while len(await desk.transcript(session)) < messages:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            if what == "tool":
                await until((Path(session.cwd or "") / "pid").exists)
    finally:
        process.kill()
        shown, _ = await process.communicate()
    return shown.decode().split()


def begin(url: str, session_id: str, what: str) -> None:
    from dataclasses import replace

    from segue import config

    settings = replace(config.load({"SEGUE_STORE": url}), approvals=AUTO)
    asyncio.run(program(url, session_id, what, settings))


async def test_killed_before_the_first_word_the_message_is_kept_and_can_be_answered(
    desk: Desk, session: Session, tmp_path: Path
):
    assert await killed(desk, session, tmp_path, "words", 1) == []
    assert await desk.transcript(session) == [("user", "Go")]
    events = await desk.take(["Gone."], session, None)
    assert events[-1] == TurnDone()


async def test_killed_in_the_middle_of_a_tool_call_the_next_start_mends_the_transcript(
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
    kept = await desk.store.transcripts.load(session.id)
    assert [m.role.value for m in kept] == [
        "user", "assistant", "tool", "assistant", "tool", "user", "assistant",
    ]  # fmt: skip
    assert kept.messages[4].content == INTERRUPTED
    assert kept.repaired(NOW) == kept
    assert [m.content for m in model.prompts[0].messages][-1] == "And?"


async def test_the_session_of_a_killed_program_is_free_at_once(
    desk: Desk, session: Session, tmp_path: Path
):
    await killed(desk, session, tmp_path, "words", 1)
    async with asyncio.timeout(5):  # a lease would last for thirty
        assert (await desk.take(["Here."], session, "Hi"))[-1] == TurnDone()
