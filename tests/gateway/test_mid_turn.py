"""A session that arrives in the middle of a turn: the gateway continues the turn."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec import structs

import segue.store
from segue.agent.models.base import Prompt
from segue.config import Approvals
from segue.core.address import Address, ChatType, Platform
from segue.core.approval import Policy
from segue.core.transcript import Message, Outcome, Role, ToolCall, spoken
from segue.handoffs import delivery
from segue.handoffs.progress import Completed
from segue.handoffs.request import HandoffRequest, IfHeld, hand_off_session
from segue.handoffs.values import Handoff, State
from segue.store import transcripts
from segue.testing.platform import Shape
from segue.turns import hold, queries
from tests.gateway.test_approvals import numbered, question, settled
from tests.harness.house import Desk, House, echoing
from tests.turns.conftest import call

RECAP = "The agent was working, and goes on with it here."


def answer(prompt: Prompt) -> str:
    """Repeat the results of the calls of this turn."""
    results = [m.content.strip() for m in prompt.messages if m.role is Role.TOOL]
    return f"result: {', '.join(results)}"


def writes(path: Path, number: int) -> ToolCall:
    return call("shell", number, command=f"echo {number} >> {path}; echo {number}")


@contextlib.asynccontextmanager
async def paused(house: House, *calls: ToolCall, done: int = 1) -> AsyncGenerator[Desk]:
    """A terminal whose turn is paused: the first `done` of its calls have their results."""
    async with house.terminal(title="Sums", cwd="/tmp") as desk:
        now = desk.session.started
        messages = [spoken("do it", now)]
        messages += [Message(Role.ASSISTANT, "I do it.", now, tool_calls=calls)] if calls else []
        messages += [
            Message(Role.TOOL, "here", now, tool_call_id=c.id, tool_name=c.name)
            for c in calls[:done]
        ]
        await transcripts.append(desk.store, desk.held.lease, messages)
        yield desk


async def moved(house: House, desk: Desk, shape: Shape = Shape.FORUM) -> tuple[str, Handoff]:
    """Hand it off to a chat, and return the chat and the handoff."""
    chat = await house.chat(shape, name="Home")
    await house.home(chat, "group" if shape is Shape.FORUM else "dm")
    return chat, await desk.hand_off(mid_turn=True)


@pytest.fixture
def auto(house: House) -> None:
    house.settings = structs.replace(house.settings, approvals=Approvals(policy=Policy.AUTO))


async def roles(house: House, desk: Desk) -> list[str]:
    return [role for role, _ in await house.said(desk.session.id)]


@pytest.mark.usefixtures("auto")
@pytest.mark.parametrize("done", [0, 1, 2, 3])
async def test_the_remaining_calls_run_once_and_the_answer_is_delivered_there(
    house: House, tmp_path: Path, done: int
):
    made = tmp_path / "made"
    calls = tuple(writes(made, number) for number in (1, 2, 3))
    left = [str(number) for number in (1, 2, 3)[done:]]
    async with house.gateway(model=[answer]), paused(house, *calls, done=done) as desk:
        chat, handoff = await moved(house, desk)
        assert handoff.state is State.COMPLETED, handoff.error
        answered = f"result: {', '.join(['here'] * done + left)}"
        await house.driver.message(answered, chat=chat)
        await house.idle()
    assert (made.read_text().split() if made.exists() else []) == left
    expected = ["user", "assistant", *["tool"] * 3, "assistant"]
    assert await roles(house, desk) == expected  # one turn, without a greeting
    texts = (await house.driver.look(chat)).texts
    assert [text for text in texts if RECAP in text] == texts[:1]
    assert texts[1:] == [answered]


async def test_a_turn_without_an_answer_yet_is_answered_there(house: House):
    async with house.gateway(model=["Done."]), paused(house) as desk:
        chat, _ = await moved(house, desk)
        await house.driver.message("Done.", chat=chat)
    assert await roles(house, desk) == ["user", "assistant"]


async def test_approvals_are_asked_there(house: House, tmp_path: Path):
    made = tmp_path / "made"
    async with (
        house.gateway(model=[answer]),
        paused(house, writes(made, 1), writes(made, 2)) as desk,
    ):
        chat, _ = await moved(house, desk)
        asked = await question(house, chat)
        assert not made.exists()
        await house.driver.press(house.anna, asked.id, "Allow")
        await house.driver.message("result: here, 2", chat=chat)
    assert made.read_text() == "2\n"


async def test_a_handoff_to_where_the_session_is_asks_again_there(house: House, tmp_path: Path):
    made = tmp_path / "made"
    async with (
        house.gateway(model=[answer]),
        paused(house, writes(made, 1), writes(made, 2)) as desk,
    ):
        chat, _ = await moved(house, desk)
        first = await question(house, chat)
        request = HandoffRequest(Platform.TELEGRAM, if_held=IfHeld.WAIT)
        async with await segue.store.open(house.url) as other:
            steps = hand_off_session(other, desk.session.id, "a test", request)
            assert any([isinstance(step, Completed) async for step in steps])
        shown = await house.driver.until(
            lambda s: len([text for text in s.texts if "May I do this?" in text]) == 2, chat=chat
        )
        again = next(m for m in reversed(shown.messages) if "May I do this?" in m.text)
        assert again.thread == first.thread
        assert numbered(again) != numbered(first)
        await settled(house, chat, "→ Handed off with the conversation")
        await house.driver.press_late(house.anna, first, "Allow")
        await house.driver.until(
            lambda s: any("That question is closed" in text for text in s.texts), chat=chat
        )
        assert not made.exists()
        await house.driver.press(house.anna, again.id, "Allow")
        await house.driver.message("result: here, 2", chat=chat)
    assert made.read_text() == "2\n"


@pytest.mark.usefixtures("auto")
async def test_messages_that_wait_in_the_thread_are_answered_after_the_turn(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    commit = delivery._commit

    async def written_first(*args: object) -> None:
        thread = await house.driver.thread(chat)
        await house.driver.say(house.anna, chat, "and then?", thread=thread.id)
        await house.driver.until(lambda shown: shown.unconfirmed == 0)
        await commit(*args)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(delivery, "_commit", written_first)
    made = tmp_path / "made"
    chat = await house.chat(Shape.FORUM, name="Home")
    await house.home(chat, "group")
    async with (
        house.gateway(model=[answer, *([next(echoing())])]),
        paused(house, writes(made, 1), writes(made, 2)) as desk,
    ):
        await desk.hand_off(mid_turn=True)
        await house.driver.message("(2) and then?", chat=chat)
        await house.idle()
    said = await house.said(desk.session.id)
    assert [text for role, text in said if role in {"user", "assistant"}] == [
        "do it", "I do it.", "result: here, 2", "and then?", "(2) and then?",
    ]  # fmt: skip


@pytest.mark.usefixtures("auto")
async def test_the_next_gateway_continues_a_turn_that_a_dead_one_received(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = tmp_path / "made"
    async with paused(house, writes(made, 1), writes(made, 2)) as desk:
        with monkeypatch.context() as patched:
            # It dies between the commit and the turn.
            patched.setattr("segue.gateway.dispatch.Dispatcher.continue_turn", nothing)
            async with house.gateway(model=[]):
                chat, handoff = await moved(house, desk)
                assert handoff.state is State.COMPLETED
        assert not made.exists()
        async with house.gateway(model=[answer]):
            await house.driver.message("result: here, 2", chat=chat)
            await house.idle()
    assert made.read_text() == "2\n"


async def nothing(*_: object) -> None:
    pass


async def test_the_turn_ends_if_the_session_is_taken_away_first(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = tmp_path / "made"
    async with paused(house, writes(made, 1), writes(made, 2)) as desk:
        with monkeypatch.context() as patched:
            patched.setattr("segue.gateway.dispatch.Dispatcher.continue_turn", nothing)
            async with house.gateway(model=[]):
                await moved(house, desk)
    session, now = desk.session, desk.session.started
    here = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session.id)
    async with hold(house.store, session.id, "a terminal", address=here) as held:
        start = await house.store.write(queries.begin, held.lease, spoken("stop", now), [], now)
        assert [m.outcome for m in start.repairs] == [Outcome.NOT_BEGUN]
    async with house.gateway(model=[]):
        await house.idle()
    assert not made.exists()


async def test_without_a_thread_the_turn_continues_in_the_chat_itself(house: House):
    async with house.gateway(model=["Done."]), paused(house) as desk:
        chat, handoff = await moved(house, desk, Shape.NO_THREADS)
        assert handoff.thread == handoff.home
        await house.driver.message("Done.", chat=chat)
