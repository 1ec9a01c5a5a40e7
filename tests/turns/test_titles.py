"""Titles that are found in the background."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import pytest
from msgspec import structs

from segue.agent.models.base import Piece, Prompt
from segue.agent.models.scripted import ScriptedModel
from segue.core.errors import ModelBusy
from segue.core.events import TurnDone
from segue.core.session import Session
from segue.core.transcript import Kind, Transcript, spoken
from segue.store import sessions
from segue.turns import titles
from tests.turns.conftest import Desk

AT = datetime(2026, 11, 1, tzinfo=UTC)


async def title(desk: Desk, session: Session) -> str | None:
    kept = await sessions.get(desk.store, session.id)
    assert kept is not None
    return kept.title


async def test_a_session_has_a_title_after_its_first_exchange(desk: Desk, session: Session):
    model = ScriptedModel(["About 300 kilometres.", "Distance to Bergen", "Yes."])
    async with desk.turns(model, titles=True) as turns:
        _ = [event async for event in turns.take_turn(session.id, "How far is Bergen?")]
    assert await title(desk, session) == "Distance to Bergen"
    assert len(model.prompts) == 2
    await desk.take(model, session, "Really?")
    assert await title(desk, session) == "Distance to Bergen"


async def test_a_small_model_finds_a_title(desk: Desk, session: Session):
    class Small(ScriptedModel):
        @property
        def small(self) -> bool:
            return True

    model = Small(["About 300 kilometres.", "Distance to Bergen"])
    async with desk.turns(model, titles=True) as turns:
        _ = [event async for event in turns.take_turn(session.id, "How far is Bergen?")]
    assert await title(desk, session) == "Distance to Bergen"


async def test_a_name_that_the_user_chose_meanwhile_is_kept(desk: Desk, session: Session):
    class Thinking(ScriptedModel):
        asked = asyncio.Event()
        go_on = asyncio.Event()

        async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
            if "title" in prompt.system:
                self.asked.set()
                await self.go_on.wait()
            async for piece in super().stream(prompt):
                yield piece

    model = Thinking(["Far.", "Distance to Bergen"])
    async with desk.turns(model, titles=True) as turns:
        events = [event async for event in turns.take_turn(session.id, "How far is Bergen?")]
        assert events[-1] == TurnDone()
        async with asyncio.timeout(20):
            await model.asked.wait()
        assert await title(desk, session) == "How far is Bergen?"
        await sessions.rename(desk.store, session.id, "My trip")
        model.go_on.set()
    assert await title(desk, session) == "My trip"


async def test_if_the_model_finds_no_title_the_first_message_becomes_the_title(
    desk: Desk, session: Session
):
    model = ScriptedModel(["Far.", ModelBusy(provider="It", reason="full")])
    async with desk.turns(model, titles=True) as turns:
        events = [event async for event in turns.take_turn(session.id, "How far is Bergen?")]
    assert events[-1] == TurnDone()
    assert await title(desk, session) == "How far is Bergen?"


async def test_the_program_exits_without_waiting_for_a_title(
    desk: Desk, session: Session, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(titles, "CLOSE_SECONDS", 0.05)

    class Silent(ScriptedModel):
        async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
            if "title" in prompt.system:
                await asyncio.Event().wait()
            async for piece in super().stream(prompt):
                yield piece

    async with asyncio.timeout(20):
        async with desk.turns(Silent(["Far."]), titles=True) as turns:
            _ = [event async for event in turns.take_turn(session.id, "How far is Bergen?")]
    assert await title(desk, session) == "How far is Bergen?"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("What is the time?", "What is the time?"),
        ("thirteen chars " * 5, "thirteen chars thirteen chars thirteen"),
        ("one two " * 20, ("one two " * 20)[:39]),
        (
            "Write a short Markdown table of three, then of four",
            "Write a short Markdown table of three",
        ),
        (
            "exactly forty characters are in this one and more",
            "exactly forty characters are in this one",
        ),
        ("x" * 100, "x" * 40),
        ("", ""),
    ],
)
def test_a_title_is_made_from_the_first_message(words: str, expected: str):
    prompt = structs.replace(spoken("Moved here.", AT), kind=Kind.SYNTHETIC)
    assert titles.from_words(Transcript((prompt, spoken(words, AT)))) == expected
