"""Turns with a brain that is not the built-in agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime

from segue.core.events import Event, MessageAdded, TextDelta, TurnDone, UsageAdded
from segue.core.session import Session, Summary, Usage
from segue.core.transcript import Kind, Message, Role, ToolCall, Transcript
from segue.store import sessions
from segue.turns import Place, Turns
from segue.turns.brain import Assignment, deny_all
from tests.turns.conftest import Desk


class Echo:
    """Repeats the last message."""

    room = 1000

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment

    async def turn(
        self,
        transcript: Transcript,
        interrupt: asyncio.Event,
        not_begun: Sequence[ToolCall] = (),
        pause: asyncio.Event | None = None,
    ) -> AsyncGenerator[Event]:
        text = f"{self.assignment.session.id}: {transcript.messages[-1].content}"
        yield TextDelta(text)
        yield UsageAdded(Usage(output=2))
        yield MessageAdded(Message(Role.ASSISTANT, text, datetime.now(UTC)))
        yield TurnDone()

    async def summarise(self, transcript: Transcript) -> Summary:
        return Summary(f"{len(transcript)} messages", Usage(output=3))

    async def title(self, transcript: Transcript) -> str:
        return "An echo"

    def describe(self) -> str:
        return "repeat  runs at once"


class Echoes:
    def __init__(self) -> None:
        self.opened: list[Assignment] = []

    async def open(self, assignment: Assignment) -> Echo:
        self.opened.append(assignment)
        return Echo(assignment)

    async def model(self, wanted: str | None) -> str:
        return wanted or "echo"

    async def close(self) -> None: ...


async def test_another_brain_can_replace_the_agent(desk: Desk, session: Session):
    brains = Echoes()
    async with Turns(desk.store, brains) as turns:
        for said in ("one", "two", "three"):
            events = [event async for event in turns.take_turn(session.id, said)]
            assert events[-1] == TurnDone()
        summary = await turns.compress(session.id, Place())
        assert summary.kind is Kind.SUMMARY
        assert summary.content == "2 messages"
        assert await turns.model(session) == "echo"
        assert (await turns.brain(session, Place())).describe() == "repeat  runs at once"
        turn = await turns.take_synthetic_turn(session.id, Place(), "Notes?", only=("remember",))
        assert turn.messages[-1].content == f"{session.id}: Notes?"
    kept = await sessions.get(desk.store, session.id)
    assert kept is not None
    assert (kept.title, kept.usage.output) == ("An echo", 9)
    last = brains.opened[-1]
    assert (last.only, last.max_steps, last.approve) == (("remember",), 4, deny_all)
