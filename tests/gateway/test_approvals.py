"""Approvals in a chat: only the owner's answer counts, once, for that exact call."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from segue.agent.loop import UNANSWERED
from segue.agent.models.base import Prompt
from segue.core.address import Address, ChatType, Platform
from segue.core.approval import Answer
from segue.core.errors import ApprovalNotShown, ApprovalOver
from segue.core.session import ME
from segue.core.transcript import Role
from segue.gateway import approvals, dispatch
from segue.testing.platform import Message, Rules, Shape
from segue.turns import hold
from tests.gateway.conftest import House
from tests.turns.conftest import call


def runs(path: Path):
    """A model that wants to create a file, and then repeats the result."""

    def answer(prompt: Prompt) -> str:
        result = next(m for m in reversed(prompt.messages) if m.role is Role.TOOL)
        return f"result: {result.content[:80]}"

    return [call("shell", command=f"echo x >> {path}"), answer]


def asked(house: House, chat: str):
    return house.driver.until(
        lambda shown: any("May I do this?" in text for text in shown.texts), chat=chat
    )


async def question(house: House, chat: str) -> Message:
    shown = await asked(house, chat)
    return next(m for m in shown.messages if "May I do this?" in m.text)


def numbered(question: Message) -> str:
    """The number of the question."""
    found = re.search(r"\(question (\d+)\)", question.text)
    assert found, question.text
    return found[1]


async def settled(house: House, chat: str, outcome: str) -> None:
    """Wait until a question shows that outcome and has no buttons."""
    shown = await house.driver.until(
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
async def test_a_button_answers_the_question(
    house: House, tmp_path: Path, label: str, lines: int, outcome: str
):
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=runs(made)):
        await house.driver.say(house.anna, chat, "make it")
        await house.driver.press(house.anna, (await question(house, chat)).id, label)
        await house.driver.until(lambda s: any("result:" in t for t in s.texts), chat=chat)
        await settled(house, chat, outcome)
    assert made.exists() == bool(lines)


@pytest.mark.parametrize(
    ("command", "lines", "outcome"),
    [
        ("/approve {}", 1, "✓ Allowed"),
        ("/approve {} session", 1, "✓ Allowed in this session"),
        ("/deny {}", 0, "✗ Not allowed"),
    ],
)
async def test_a_command_answers_the_question_that_it_names(
    house: House, tmp_path: Path, command: str, lines: int, outcome: str
):
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=runs(made)):
        await house.driver.say(house.anna, chat, "make it")
        number = numbered(await question(house, chat))
        await house.driver.say(house.anna, chat, command.format(number))
        await house.driver.until(lambda s: any("result:" in t for t in s.texts), chat=chat)
        await settled(house, chat, outcome)
    assert made.exists() == bool(lines)


def test_only_answers_that_have_a_button_can_be_pressed():
    assert approvals.pressed("a:1:never") == (1, Answer.NEVER)
    assert approvals.pressed(f"a:1:{Answer.MISSING}") is None


async def test_a_button_pressed_by_an_unknown_sender_is_ignored(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat = await house.chat(Shape.GROUP, house.eve)
    async with house.gateway(model=runs(made)):
        await house.driver.say(house.anna, chat, "make it")
        message = await question(house, chat)
        await house.driver.press(house.eve, message.id, "Allow")
        await house.driver.say(house.eve, chat, f"/approve {numbered(message)}")
        await house.driver.press(house.anna, message.id, "Deny")
        await house.driver.until(lambda s: any("not allowed" in t for t in s.texts), chat=chat)
    assert not made.exists()


async def test_stop_ends_a_turn_that_waits_for_approval(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=runs(made)):
        await house.driver.say(house.anna, chat, "make it")
        message = await question(house, chat)
        await house.driver.say(house.anna, chat, "/stop")
        await house.driver.message("Stopped.", chat=chat)
        await settled(house, chat, "✗ Not done")
        await house.driver.press_late(house.anna, message, "Allow")
        await house.driver.until(
            lambda s: any("That question is closed" in t for t in s.texts), chat=chat
        )
    assert not made.exists()


async def test_a_question_survives_a_restart_of_the_gateway(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dispatch, "MAX_STARTS", 1)
    made = tmp_path / "made"
    chat = await house.chat()
    script = runs(made)
    async with house.gateway(model=script[:1]):
        await house.driver.say(house.anna, chat, "make it")
        message = await question(house, chat)
    assert not made.exists()
    for _ in range(2):  # also after several restarts
        async with house.gateway(model=[]):
            await question(house, chat)
    async with house.gateway(model=script[1:]):
        await house.driver.press(house.anna, message.id, "Allow")
        await house.driver.until(lambda s: any("result:" in t for t in s.texts), chat=chat)
        await settled(house, chat, "✓ Allowed")
    assert made.read_text() == "x\n"
    questions = [t for t in (await house.driver.look(chat)).texts if "May I do this?" in t]
    assert len(questions) == 1


async def test_a_question_is_void_after_the_session_moves(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat, other = await house.chat(), await house.chat(Shape.GROUP)
    async with house.gateway(model=runs(made)):
        await house.driver.say(house.anna, chat, "make it")
        message = await question(house, chat)
        session = await house.session_at(await house.address(chat))
        await house.driver.say(house.anna, other, f"/resume {session.id}")
        await house.driver.until(lambda s: any("continues here" in t for t in s.texts), chat=other)
        await settled(house, chat, "✗ Not done")
        await house.driver.press_late(house.anna, message, "Allow")
        await house.driver.until(
            lambda s: any("That question is closed" in t for t in s.texts), chat=chat
        )
        await house.idle()
    assert not made.exists()
    assert await house.store.approvals.waiting(session.id) is None


async def test_an_answer_counts_once(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=runs(made)):
        await house.driver.say(house.anna, chat, "make it")
        message = await question(house, chat)
        await house.driver.press(house.anna, message.id, "Allow")
        await house.driver.press_late(house.anna, message, "Allow")
        await house.driver.until(lambda s: any("result:" in t for t in s.texts), chat=chat)
        await house.idle()
    assert made.read_text() == "x\n"


async def test_an_unanswered_question_expires_and_the_tool_does_not_run(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(approvals, "ANSWER_TIMEOUT", 0.2)
    monkeypatch.setattr(approvals, "POLL_SECONDS", 0.05)
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=runs(made)):
        await house.driver.say(house.anna, chat, "make it")
        await house.driver.until(
            lambda s: any("no answer in time" in t for t in s.texts), chat=chat
        )
        await house.driver.until(lambda s: any(UNANSWERED in t for t in s.texts), chat=chat)
        await settled(house, chat, "✗ Not done")
    assert not made.exists()


async def test_a_message_waits_while_a_question_is_open(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=[*runs(made), "And this."]):
        await house.driver.say(house.anna, chat, "make it")
        message = await question(house, chat)
        await house.driver.say(house.anna, chat, "and then?")
        await house.idle_but_for(2)
        await house.driver.press(house.anna, message.id, "Allow")
        await house.driver.message("And this.", chat=chat)
    assert made.exists()


async def test_without_buttons_the_question_says_what_to_type(house: House, tmp_path: Path):
    await house.driver.rules(Rules(buttons=False))
    chat = await house.chat()
    async with house.gateway(model=runs(tmp_path / "made")):
        await house.driver.say(house.anna, chat, "make it")
        asked = await question(house, chat)
        number = numbered(asked)
        assert f"Answer /approve {number} or /deny {number}." in asked.text
        await house.driver.say(house.anna, chat, f"/deny {number}")
        await house.driver.until(lambda s: any("not allowed" in t for t in s.texts), chat=chat)


@pytest.mark.parametrize(
    ("extra", "outcome"), [(0, ""), (1, "\n\n✓ Allowed")], ids=["in one message", "in two"]
)
async def test_the_buttons_of_a_long_question_are_removed_once_it_is_answered(
    house: House, tmp_path: Path, extra: int, outcome: str
):
    """A question that fills a message to its last character, and one that needs a second
    message."""
    rules = Rules(length=350)
    await house.driver.rules(rules)
    made = tmp_path / "made"
    chat = await house.chat()
    around = len(
        f"May I do this? (question 1)\n\n```\nrun in {Path.home()}:\n: ; touch {made}\n```"
    )
    filling = "x" * (rules.length - around + extra)
    wanted = call("shell", command=f": {filling}; touch {made}")
    async with house.gateway(model=[wanted, "Made."]):
        await house.driver.say(house.anna, chat, "make it")
        shown = await house.driver.until(
            lambda s: any(message.buttons for message in s.messages), chat=chat
        )
        asked = next(m for m in shown.messages if m.buttons)
        await house.driver.press(house.anna, asked.id, "Allow")
        await house.driver.message("Made.", chat=chat)
        shown = await house.driver.until(
            lambda s: not any(message.buttons for message in s.messages), chat=chat
        )
    assert made.exists()
    now = next(m for m in shown.messages if m.id == asked.id)
    assert now.text == asked.text + outcome


@pytest.mark.parametrize("typed", ["/approve", "/approve {}", "/approve session"])
async def test_an_answer_to_one_question_does_not_answer_the_next(
    house: House, tmp_path: Path, typed: str
):
    first, second = tmp_path / "first", tmp_path / "second"
    wanted = [call("shell", command=f"touch {path}") for path in (first, second)]
    chat = await house.chat()
    async with house.gateway(model=[*wanted, "Over."]):
        await house.driver.say(house.anna, chat, "make them")
        number = numbered(await question(house, chat))
        await house.driver.say(house.anna, chat, f"/approve {number}")
        shown = await house.driver.until(
            lambda s: sum("May I do this?" in t for t in s.texts) == 2, chat=chat
        )
        await house.driver.say(house.anna, chat, typed.format(number))
        await house.driver.until(lambda s: len(s.texts) > len(shown.texts) + 1, chat=chat)
        await house.idle_but_for(1)
        (waiting,) = await house.store.approvals.waiting_at(await house.address(chat))
        assert (first.exists(), second.exists()) == (True, False)
        assert str(waiting.id) != number
        await house.driver.say(house.anna, chat, f"/deny {waiting.id}")
        await house.driver.message("Over.", chat=chat)
    assert not second.exists()


@pytest.mark.parametrize("typed", ["/approve", "/deny"])
async def test_an_answer_without_a_number_is_refused_naming_the_open_question(
    house: House, tmp_path: Path, typed: str
):
    chat = await house.chat()
    async with house.gateway(model=runs(tmp_path / "made")):
        await house.driver.say(house.anna, chat, "make it")
        number = numbered(await question(house, chat))
        await house.driver.say(house.anna, chat, typed)
        await house.driver.until(
            lambda s: any(f"Type /approve {number}" in t for t in s.texts), chat=chat
        )
        assert await house.store.approvals.waiting_at(await house.address(chat))
        await house.driver.say(house.anna, chat, f"/deny {number}")
        await settled(house, chat, "✗ Not allowed")


async def test_a_press_or_a_number_counts_only_in_the_chat_of_its_question(
    house: House, tmp_path: Path
):
    made = tmp_path / "made"
    chat, other = await house.chat(), await house.chat(Shape.GROUP)
    async with house.gateway(model=[*runs(made)[:1], "Hello.", "Over."]):
        await house.driver.say(house.anna, chat, "make it")
        asked = await question(house, chat)
        await house.driver.say(house.anna, other, f"/approve {numbered(asked)}")
        await house.driver.until(lambda s: any("not yours" in t for t in s.texts), chat=other)
        await house.driver.say(house.anna, other, f"/show {numbered(asked)}")
        await house.driver.until(lambda s: sum("not yours" in t for t in s.texts) == 2, chat=other)
        here = await house.address(chat)
        there = replace(here, chat_id=other)
        with pytest.raises(ApprovalOver, match="not yours"):
            await approvals.answer(house.store, ME, there, int(numbered(asked)), Answer.ONCE)
        assert await house.store.approvals.waiting_at(here)
        await house.driver.press(house.anna, asked.id, "Deny")
        await settled(house, chat, "✗ Not allowed")
    assert not made.exists()


async def test_a_question_that_was_not_sent_yet_cannot_be_answered_by_its_number(
    house: House, tmp_path: Path
):
    session = await house.store.sessions.create(ME, Platform.TELEGRAM)
    address = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="1")
    async with hold(house.store, session.id, "a gateway") as held:
        asked = await house.store.approvals.ask(
            held.lease, "call", "f" * 64, "date", address, seconds=60
        )
        await house.store.outbox.enqueue(approvals.question(asked))
        with pytest.raises(ApprovalNotShown):
            await approvals.answer_typed(house.store, ME, address, asked.id, Answer.ONCE)
        (sending,) = await house.store.outbox.claim([Platform.TELEGRAM])
        await house.store.outbox.sent(sending, "1")
        await approvals.answer_typed(house.store, ME, address, asked.id, Answer.ONCE)
        assert await house.store.approvals.use(held.lease, asked.id) is Answer.ONCE


async def test_a_long_call_is_shortened_to_one_message_and_can_be_viewed_in_full(
    house: House, tmp_path: Path
):
    made = tmp_path / "made"
    chat = await house.chat()
    lines = "\n".join(f"echo line {n} of many that this script has" for n in range(120))
    wanted = call("shell", command=f"touch {made}" + "\n" * 121 + f"{lines}\ndate")
    async with house.gateway(model=[wanted, "Over."]):
        await house.driver.say(house.anna, chat, "make it")
        asked = await question(house, chat)
        number = numbered(asked)
        for seen in (
            f"touch {made}",
            "[120 blank lines]",
            "\ndate",
            "The whole call has 243 lines",
        ):
            assert seen in asked.text
        assert "line 60" not in asked.text
        await house.driver.press(house.anna, asked.id, "Show all")
        await house.driver.until(
            lambda s: any(f"Question {number}, page 1 of 2" in t for t in s.texts), chat=chat
        )
        await house.driver.say(house.anna, chat, f"/show {number} 2")
        await house.driver.until(lambda s: any("page 2 of 2" in t for t in s.texts), chat=chat)
        await house.driver.say(house.anna, chat, f"/show {number} 3")
        shown = await house.driver.until(
            lambda s: any("there are 2 pages" in t for t in s.texts), chat=chat
        )
        pages = "\n".join(t for t in shown.texts if ", page " in t)
        assert all(f"line {n} of" in pages for n in range(120))
        assert not made.exists()
        await house.driver.press(house.anna, asked.id, "Deny")
        await settled(house, chat, "✗ Not allowed")
    assert not made.exists()
