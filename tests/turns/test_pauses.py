"""Turns that are paused, and continued here or where the session has gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from segue.agent.models.scripted import Say, ScriptedModel
from segue.config import Approvals
from segue.core.approval import Answer, Policy
from segue.core.events import Compressing, Event, MessageAdded, TurnDone, TurnPaused
from segue.core.session import Session
from segue.core.transcript import Outcome, Role
from segue.store import sessions, transcripts
from segue.turns import Place
from tests.harness.approver import Approver
from tests.turns.conftest import Desk, call
from tests.turns.test_compaction import talk, teller

AUTO = Approvals(policy=Policy.AUTO)


def commands() -> Say:
    return Say(
        text="I do it.",
        calls=tuple(call("shell", n, command=f"echo {n} >> ran; echo {n}") for n in (1, 2, 3)),
    )


async def until_result(
    desk: Desk, session: Session, results: int, *, paused: bool = False
) -> list[Event]:
    """Take a turn, or continue a paused one, and pause it after so many results."""
    pause, seen = asyncio.Event(), list[Event]()
    said = None if paused else "do it"
    model = ScriptedModel([commands()], context=100_000)
    async with desk.turns(model, approvals=AUTO) as turns:
        async for event in turns.take_turn(session.id, said, pause=pause, paused=paused):
            seen.append(event)
            if isinstance(event, MessageAdded) and event.message.role is Role.TOOL:
                results -= 1
            if results == 0:
                pause.set()
    return seen


async def test_a_paused_turn_keeps_its_results_and_its_remaining_calls_run_once(
    desk: Desk, session: Session, cwd: Path
):
    assert (await until_result(desk, session, 1))[-1] == TurnPaused()
    assert (await until_result(desk, session, 1, paused=True))[-1] == TurnPaused()
    assert (cwd / "ran").read_text().split() == ["1", "2"]
    async with desk.turns(["Done."], approvals=AUTO) as turns:
        rest = [event async for event in turns.take_turn(session.id, None, paused=True)]
    assert rest[-1] == TurnDone()
    assert (cwd / "ran").read_text().split() == ["1", "2", "3"]
    assert await desk.transcript(session) == [
        ("user", "do it"),
        ("assistant", "I do it."),
        ("tool", "1"),
        ("tool", "2"),
        ("tool", "3"),
        ("assistant", "Done."),
    ]


async def test_a_message_after_an_unrecorded_pause_marks_the_open_calls_as_interrupted(
    desk: Desk, session: Session, cwd: Path
):
    """As after any crash: only a handoff or the process itself knows of the pause."""
    await until_result(desk, session, 1)
    await desk.take(["Yes?"], session, "hello?")
    kept = await transcripts.load(desk.store, session.id)
    outcomes = [m.outcome for m in kept if m.role is Role.TOOL]
    assert outcomes == [None, Outcome.INTERRUPTED, Outcome.INTERRUPTED]
    assert (cwd / "ran").read_text().split() == ["1"]


async def test_the_approval_is_asked_where_the_turn_continues(desk: Desk, session: Session):
    pause = asyncio.Event()
    pause.set()
    here, there = Approver(), Approver(always=Answer.NEVER)
    events = await desk.take([commands()], session, "do it", Place(approve=here), pause=pause)
    assert events[-1] == TurnPaused()  # before the model was asked
    model = ScriptedModel([commands(), "As you like."])
    events = await desk.take(model, session, None, Place(approve=there), paused=True)
    assert events[-1] == TurnDone()
    assert (len(here.asked), len(there.asked)) == (0, 3)


async def test_a_session_whose_first_turn_is_paused_has_a_title(desk: Desk, session: Session):
    """A thread that is opened for the session has this title."""
    pause = asyncio.Event()
    pause.set()
    async with desk.turns([], titles=True) as turns:  # the model finds no better one
        async for event in turns.take_turn(session.id, "sell our boat", pause=pause):
            assert event == TurnPaused()
            named = await sessions.get(desk.store, session.id)
            assert named is not None
            assert named.title == "sell our boat"


async def test_open_calls_are_not_separated_from_their_results_by_a_summary(
    desk: Desk, session: Session
):
    await talk(desk, session, 4)
    before = len(await desk.transcript(session))
    await until_result(desk, session, 1)
    async with desk.turns(teller("They talked of words.", "Done."), approvals=AUTO) as turns:
        rest = [event async for event in turns.take_turn(session.id, None, paused=True)]
    assert Compressing() not in rest
    roles = [role for role, _ in await desk.transcript(session)]
    assert roles[before:] == ["user", "assistant", "tool", "tool", "tool", "assistant"]
