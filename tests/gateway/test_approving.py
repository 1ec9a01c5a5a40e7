"""What the agent asks in a chat: only the owner's answer counts, once, for that very call."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.agent.models.base import Prompt
from segue.core.transcript import Role
from segue.gateway import approving
from segue.testing.platform import Message, Rules, Shape
from tests.gateway.conftest import House
from tests.turns.conftest import call


def runs(path: Path):
    """Wants to make a file, and then tells what came of it."""

    def answer(prompt: Prompt) -> str:
        result = next(m for m in reversed(prompt.messages) if m.role is Role.TOOL)
        return f"result: {result.content[:60]}"

    return [call("shell", command=f"echo x >> {path}"), answer]


def asked(house: House, chat: str):
    return house.hands.until(
        lambda shown: any("May I do this?" in text for text in shown.texts), chat=chat
    )


async def question(house: House, chat: str) -> Message:
    shown = await asked(house, chat)
    return next(m for m in shown.messages if "May I do this?" in m.text)


async def settled(house: House, chat: str, outcome: str) -> None:
    """Wait until a question says that, and cannot be answered any more."""
    shown = await house.hands.until(
        lambda s: any(t.endswith(f"\n\n{outcome}") for t in s.texts), chat=chat
    )
    (message,) = (m for m in shown.messages if m.text.endswith(outcome))
    assert message.text.startswith("May I do this?")
    assert message.buttons == ()


@pytest.mark.parametrize(
    ("label", "lines", "outcome"),
    [
        ("Allow", 1, "✓ Allowed"),
        ("Allow in this session", 1, "✓ Allowed in this session"),
        ("Deny", 0, "✗ Not allowed"),
    ],
)
async def test_a_button_answers(house: House, tmp_path: Path, label: str, lines: int, outcome: str):
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=runs(made)):
        await house.hands.say(house.anna, chat, "make it")
        await house.hands.press(house.anna, (await question(house, chat)).id, label)
        await house.hands.until(lambda s: any("result:" in t for t in s.texts), chat=chat)
        await settled(house, chat, outcome)
    assert made.exists() == bool(lines)


@pytest.mark.parametrize(
    ("command", "lines", "outcome"), [("/approve", 1, "✓ Allowed"), ("/deny", 0, "✗ Not allowed")]
)
async def test_a_command_answers(
    house: House, tmp_path: Path, command: str, lines: int, outcome: str
):
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=runs(made)):
        await house.hands.say(house.anna, chat, "make it")
        await asked(house, chat)
        await house.hands.say(house.anna, chat, command)
        await house.hands.until(lambda s: any("result:" in t for t in s.texts), chat=chat)
        await settled(house, chat, outcome)
    assert made.exists() == bool(lines)


async def test_a_strangers_press_counts_for_nothing(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat = await house.chat(Shape.GROUP, house.eve)
    async with house.gateway(model=runs(made)):
        await house.hands.say(house.anna, chat, "make it")
        message = await question(house, chat)
        await house.hands.press(house.eve, message.id, "Allow")
        await house.hands.say(house.eve, chat, "/approve")
        await house.hands.press(house.anna, message.id, "Deny")
        await house.hands.until(lambda s: any("not allowed" in t for t in s.texts), chat=chat)
    assert not made.exists()


async def test_stop_ends_a_turn_that_waits_for_an_answer(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=runs(made)):
        await house.hands.say(house.anna, chat, "make it")
        message = await question(house, chat)
        await house.hands.say(house.anna, chat, "/stop")
        await house.hands.message("Stopped.", chat=chat)
        await settled(house, chat, "✗ Not done")
        await house.hands.press_late(house.anna, message, "Allow")
        await house.hands.until(
            lambda s: any("That question is over" in t for t in s.texts), chat=chat
        )
    assert not made.exists()


async def test_a_question_outlives_the_gateway(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat = await house.chat()
    script = runs(made)
    async with house.gateway(model=script[:1]):
        await house.hands.say(house.anna, chat, "make it")
        message = await question(house, chat)
    assert not made.exists()
    async with house.gateway(model=script[1:]):
        await house.hands.press(house.anna, message.id, "Allow")
        await house.hands.until(lambda s: any("result:" in t for t in s.texts), chat=chat)
        await settled(house, chat, "✓ Allowed")
    assert made.read_text() == "x\n"
    questions = [t for t in (await house.hands.look(chat)).texts if "May I do this?" in t]
    assert len(questions) == 1


async def test_a_question_is_void_once_the_session_has_moved(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat, other = await house.chat(), await house.chat(Shape.GROUP)
    async with house.gateway(model=runs(made)):
        await house.hands.say(house.anna, chat, "make it")
        message = await question(house, chat)
        session = await house.session_at(await house.address(chat))
        await house.hands.say(house.anna, other, f"/resume {session.id}")
        await house.hands.until(lambda s: any("goes on here" in t for t in s.texts), chat=other)
        await settled(house, chat, "✗ Not done")
        await house.hands.press_late(house.anna, message, "Allow")
        await house.hands.until(
            lambda s: any("That question is over" in t for t in s.texts), chat=chat
        )
        await house.idle()
    assert not made.exists()
    assert await house.store.approvals.waiting(session.id) is None


async def test_an_answer_counts_once(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=runs(made)):
        await house.hands.say(house.anna, chat, "make it")
        message = await question(house, chat)
        await house.hands.press(house.anna, message.id, "Allow")
        await house.hands.press_late(house.anna, message, "Allow")
        await house.hands.until(lambda s: any("result:" in t for t in s.texts), chat=chat)
        await house.idle()
    assert made.read_text() == "x\n"


async def test_a_question_that_nobody_answers_is_over_and_nothing_is_done(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(approving, "SECONDS", 0.2)
    monkeypatch.setattr(approving, "LOOK", 0.05)
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=runs(made)):
        await house.hands.say(house.anna, chat, "make it")
        await house.hands.until(
            lambda s: any("Nobody answered in time" in t for t in s.texts), chat=chat
        )
        await house.hands.until(lambda s: any("not allowed" in t for t in s.texts), chat=chat)
        await settled(house, chat, "✗ Not done")
    assert not made.exists()


async def test_a_message_waits_while_a_question_does(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=[*runs(made), "And this."]):
        await house.hands.say(house.anna, chat, "make it")
        message = await question(house, chat)
        await house.hands.say(house.anna, chat, "and then?")
        await house.idle_but_for(2)
        await house.hands.press(house.anna, message.id, "Allow")
        await house.hands.message("And this.", chat=chat)
    assert made.exists()


async def test_where_there_are_no_buttons_the_question_says_what_to_type(
    house: House, tmp_path: Path
):
    await house.hands.rules(Rules(buttons=False))
    chat = await house.chat()
    async with house.gateway(model=runs(tmp_path / "made")):
        await house.hands.say(house.anna, chat, "make it")
        assert "Answer /approve or /deny." in (await question(house, chat)).text
        await house.hands.say(house.anna, chat, "/deny")
        await house.hands.until(lambda s: any("not allowed" in t for t in s.texts), chat=chat)


@pytest.mark.parametrize(
    ("extra", "outcome"), [(0, ""), (1, "\n\n✓ Allowed")], ids=["in one message", "in two"]
)
async def test_a_long_question_loses_its_buttons_too(
    house: House, tmp_path: Path, extra: int, outcome: str
):
    """One that fills a message to its last character, and one that needs another for the rest."""
    made = tmp_path / "made"
    chat = await house.chat()
    around = len(f"May I do this?\n\n```\nrun in {Path.home()}:\n: ; touch {made}\n```")
    filling = "x" * (Rules().length - around + extra)
    wanted = call("shell", command=f": {filling}; touch {made}")
    async with house.gateway(model=[wanted, "Made."]):
        await house.hands.say(house.anna, chat, "make it")
        shown = await house.hands.until(
            lambda s: any(message.buttons for message in s.messages), chat=chat
        )
        asked = next(m for m in shown.messages if m.buttons)
        await house.hands.press(house.anna, asked.id, "Allow")
        await house.hands.message("Made.", chat=chat)
        shown = await house.hands.until(
            lambda s: not any(message.buttons for message in s.messages), chat=chat
        )
    assert made.exists()
    now = next(m for m in shown.messages if m.id == asked.id)
    assert now.text == asked.text + outcome
