"""Approvals in a chat: only the owner's answer counts, once, for that exact call."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from segue.agent.loop import UNANSWERED
from segue.agent.models.base import Prompt
from segue.approvals import queries as approvals
from segue.approvals import questions
from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.approval import Answer, Description
from segue.core.errors import ApprovalNotShown, UserError
from segue.core.session import ME
from segue.core.transcript import Role, ToolCall
from segue.gateway import dispatch, texts
from segue.platforms.base import Inbound, InboundKind
from segue.store import deliveries, outbox, owners, pairings, sessions
from segue.testing.platform import Message, PeerAdapter, Rules, Shape
from segue.testing.platform.adapter import Client
from segue.turns import hold
from tests.harness.house import TELEGRAM, House
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
    found = re.search(r"This is question (\d+)\.", question.text)
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
    assert questions.pressed("a:1:never") == (1, Answer.NEVER)
    assert questions.pressed(f"a:1:{Answer.MISSING}") is None


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
    assert await approvals.waiting(house.store, session.id) is None


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
    monkeypatch.setattr(questions, "ANSWER_TIMEOUT", 0.2)
    monkeypatch.setattr(questions, "POLL_SECONDS", 0.05)
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
        f"May I do this? This is question 1.\n\n```\nrun in {Path.home()}:\n: ; touch {made}\n```"
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
        (waiting,) = await approvals.waiting_at(house.store, await house.address(chat))
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
        assert await approvals.waiting_at(house.store, await house.address(chat))
        await house.driver.say(house.anna, chat, f"/deny {number}")
        await settled(house, chat, "✗ Not allowed")


UNKNOWN = "There is no question "


async def test_a_number_that_no_question_has_is_not_said_to_be_of_another_owner(house: House):
    chat = await house.chat()
    async with house.gateway():
        for typed in ("/approve 77", "/deny 77", "/show 77"):
            await house.driver.say(house.anna, chat, typed)
        wanted = "There is no question 77 in this chat."
        await house.driver.until(lambda s: sum(wanted in t for t in s.texts) == 3, chat=chat)


async def test_a_press_or_a_number_counts_only_in_the_chat_of_its_question(
    house: House, tmp_path: Path
):
    made = tmp_path / "made"
    chat, other = await house.chat(), await house.chat(Shape.GROUP)
    async with house.gateway(model=[*runs(made)[:1], "Hello.", "Over."]):
        await house.driver.say(house.anna, chat, "make it")
        asked = await question(house, chat)
        await house.driver.say(house.anna, other, f"/approve {numbered(asked)}")
        await house.driver.until(lambda s: any(UNKNOWN in t for t in s.texts), chat=other)
        await house.driver.say(house.anna, other, f"/show {numbered(asked)}")
        await house.driver.until(lambda s: sum(UNKNOWN in t for t in s.texts) == 2, chat=other)
        here = await house.address(chat)
        there = replace(here, chat_id=other)
        with pytest.raises(UserError, match="There is no question"):
            await questions.answer_pressed(
                house.store, ME, there, int(numbered(asked)), Answer.ONCE
            )
        assert await approvals.waiting_at(house.store, here)
        await house.driver.press(house.anna, asked.id, "Deny")
        await settled(house, chat, "✗ Not allowed")
    assert not made.exists()


async def test_a_question_that_was_not_sent_yet_cannot_be_answered_by_its_number(
    house: House, tmp_path: Path
):
    session = await sessions.create(house.store, ME, Platform.TELEGRAM)
    address = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="1")
    async with hold(house.store, session.id, "a gateway") as held:
        asked = await approvals.ask(
            house.store, held.lease, "call", "f" * 64, "date", address, seconds=60
        )
        await outbox.enqueue(house.store, questions.question(asked, Description("date")))
        with pytest.raises(ApprovalNotShown):
            await questions.answer_typed(house.store, ME, address, asked.id, Answer.ONCE)
        (sending,) = await deliveries.claim(house.store, [Platform.TELEGRAM])
        await deliveries.sent(house.store, sending, "1")
        await questions.answer_typed(house.store, ME, address, asked.id, Answer.ONCE)
        assert await approvals.use(house.store, held.lease, asked.id) is Answer.ONCE


LINES = "\n".join(f"echo line {n} of many that this script has" for n in range(120))


def long_call(made: Path) -> ToolCall:
    return call("shell", command=f"touch {made}" + "\n" * 121 + f"{LINES}\ndate")


async def in_full(house: House, chat: str, number: str) -> list[Message]:
    """The messages that show the whole call, once the last of them has come."""
    shown = await house.driver.until(
        lambda s: any("Allow" in message.labels for message in s.messages), chat=chat
    )
    start = next(n for n, m in enumerate(shown.messages) if f"Question {number}, all" in m.text)
    return list(shown.messages[start:])


async def test_a_long_call_can_be_allowed_only_below_its_last_line(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=[long_call(made), "Over."]):
        await house.driver.say(house.anna, chat, "make it")
        asked = await question(house, chat)
        for seen in (
            f"touch {made}",
            "[120 blank lines]",
            "\ndate",
            "The whole call has 243 lines",
        ):
            assert seen in asked.text
        assert "line 60" not in asked.text
        assert asked.labels == ("Show all", "Deny")
        await house.driver.press(house.anna, asked.id, "Show all")
        shown = await in_full(house, chat, numbered(asked))
        text = "\n".join(message.text for message in shown)
        assert all(f"line {n} of" in text for n in range(120))
        assert [m.labels for m in shown[:-1]] == [()] * (len(shown) - 1)
        assert shown[-1].labels == ("Allow", "Allow in this session", "Deny")
        assert not made.exists()
        await house.driver.press(house.anna, shown[-1].id, "Allow")
        await house.driver.message("Over.", chat=chat)
        after = await house.driver.until(
            lambda s: not any(m.buttons for m in s.messages), chat=chat
        )
        outcomes = [m.text.endswith("✓ Allowed") for m in after.messages]
        assert sum(outcomes) == 2, "on the question and below the whole call"
    assert made.exists()


async def test_a_long_call_can_be_denied_at_once(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=[long_call(made), "Over."]):
        await house.driver.say(house.anna, chat, "make it")
        asked = await question(house, chat)
        await house.driver.press(house.anna, asked.id, "Deny")
        await settled(house, chat, "✗ Not allowed")
        await house.driver.say(house.anna, chat, f"/show {numbered(asked)}")
        shown = await house.driver.until(
            lambda s: any("line 119 of" in t for t in s.texts[2:]), chat=chat
        )
        assert not any(message.buttons for message in shown.messages), "it is no longer asked"
    assert not made.exists()


@pytest.mark.parametrize("typed", ["/approve {}", "/approve {} session"])
async def test_a_typed_approval_of_a_call_that_was_not_shown_shows_it_and_asks_again(
    house: House, tmp_path: Path, typed: str
):
    await house.driver.rules(Rules(buttons=False))
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=[long_call(made), "Over."]):
        await house.driver.say(house.anna, chat, "make it")
        asked = await question(house, chat)
        number = numbered(asked)
        assert f"Type /show {number} to see all of it." in asked.text
        assert "/approve" not in asked.text
        await house.driver.say(house.anna, chat, typed.format(number))
        shown = await house.driver.until(
            lambda s: any(f"Answer /approve {number}" in t for t in s.texts), chat=chat
        )
        assert "line 60 of" in str(shown.texts)
        assert not made.exists()
        await house.driver.say(house.anna, chat, typed.format(number))
        await house.driver.message("Over.", chat=chat)
    assert made.exists()


async def test_what_was_not_shown_cannot_be_allowed_after_a_restart_or_by_another_gateway(
    house: House, tmp_path: Path
):
    """Not by a button either, such as one from an earlier version."""
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=[long_call(made)]):
        await house.driver.say(house.anna, chat, "make it")
        asked = await question(house, chat)
    number = numbered(asked)
    async with house.gateway(model=["Over."]):
        await house.driver.press(house.anna, asked.id, "Deny", f"a:{number}:once")
        shown = await in_full(house, chat, number)
        assert not made.exists()
        assert shown[-1].labels == ("Allow", "Allow in this session", "Deny")
    async with house.gateway(model=["Over."]):
        await house.driver.press(house.anna, shown[-1].id, "Allow")
        await house.driver.message("Over.", chat=chat)
    assert made.exists()


async def test_a_question_for_a_job_that_is_shown_in_full_offers_no_grant_for_the_session(
    house: House,
):
    session = await sessions.create(house.store, ME, Platform.TELEGRAM)
    address = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="1")
    async with hold(house.store, session.id, "a gateway") as held:
        asked = await approvals.ask(
            house.store, held.lease, "call", "f" * 64, "date", address, seconds=60
        )
    assert not asked.in_run
    what = Description("run in /tmp:", "date")
    labels = [label for label, _ in questions.question(asked, what, in_run=True).buttons]
    assert labels == ["Allow", "Deny"]


async def test_a_call_that_is_too_long_for_a_chat_can_only_be_denied(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(questions, "LONGEST", 1000)
    made = tmp_path / "made"
    chat = await house.chat()
    async with house.gateway(model=[long_call(made), "Over."]):
        await house.driver.say(house.anna, chat, "make it")
        asked = await question(house, chat)
        assert asked.labels == ("Deny",)
        await house.driver.say(house.anna, chat, f"/approve {numbered(asked)}")
        await house.driver.until(
            lambda s: any("too many to show here" in t for t in s.texts[1:]), chat=chat
        )
        await house.driver.press(house.anna, asked.id, "Deny")
        await house.driver.message("Over.", chat=chat)
    assert not made.exists()


# What a platform's server could have made up


class Unencrypted(PeerAdapter):
    """A platform that offers reactions, which its server can make up."""

    async def _greet(self, client: Client) -> None:
        await super()._greet(client)
        self.capabilities = replace(self.capabilities, reactions=True)

    def trusts_reactions(self, at: Address) -> bool:
        return False


async def test_nothing_forgeable_allows_pairs_or_commands(house: House, tmp_path: Path):
    made = tmp_path / "made"
    chat = await house.chat()
    code = await pairings.begin(house.store, ME)
    async with house.gateway(model=runs(made)) as gateway:
        await house.driver.say(house.anna, chat, "make it")
        asked = await question(house, chat)
        number = numbered(asked)
        anna = Inbound(
            kind=InboundKind.MESSAGE,
            update_id="forged",
            address=await house.address(chat),
            sender=Sender(platform=TELEGRAM, user_id=house.anna),
            forgeable=True,
        )
        eve = structs.replace(anna, sender=Sender(platform=TELEGRAM, user_id=house.eve))
        react = partial(structs.replace, anna, kind=InboundKind.REACTION, message_id=asked.id)
        forged = [
            structs.replace(anna, text=f"/approve {number}"),
            structs.replace(anna, text="/sethome yes"),
            structs.replace(anna, text="hello"),
            structs.replace(anna, kind=InboundKind.BUTTON, text=f"a:{number}:once"),
            structs.replace(anna, kind=InboundKind.COMMAND, text="/stop"),
            structs.replace(eve, text=code),
            react(text="👍"),
            react(text="❤️"),
            structs.replace(eve, kind=InboundKind.REACTION, message_id=asked.id, text="👍"),
        ]
        for update, inbound in enumerate(forged):
            changed = structs.replace(inbound, update_id=f"forged {update}")
            await gateway.receiver.receive(house.adapter(), changed)
        hint = texts.not_encrypted(f"/approve {number}")
        await house.driver.message(hint, chat=chat)
        assert not made.exists()
        assert await owners.who(house.store, TELEGRAM, house.eve) is None
        assert not await owners.homes(house.store, ME)
        await house.driver.say(house.anna, chat, f"/approve {number}")
        await house.driver.until(lambda s: any("result:" in t for t in s.texts), chat=chat)
        shown = await house.driver.look(chat)
    assert made.exists()
    assert sum("not encrypted" in text for text in shown.texts) == 1


async def test_reactions_that_may_be_forged_are_not_offered(house: House, tmp_path: Path):
    await house.driver.rules(Rules(buttons=False))
    chat = await house.chat()
    async with house.gateway(model=runs(tmp_path / "made"), speaks=Unencrypted):
        await house.driver.say(house.anna, chat, "make it")
        asked = await question(house, chat)
        assert "React:" not in asked.text
        assert f"Answer /approve {numbered(asked)}" in asked.text
