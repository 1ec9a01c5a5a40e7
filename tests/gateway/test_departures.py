"""A session leaves a chat: by /move in the chat, or by a request from elsewhere, also during a
turn."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import structs

import segue.store
from segue.agent.models.base import Piece, Prompt, Text
from segue.agent.models.scripted import Say, ScriptedModel, Step
from segue.config import Approvals
from segue.core.address import Platform
from segue.core.approval import Policy
from segue.core.session import Origin
from segue.core.transcript import Outcome, Role
from segue.gateway.handoffs import Handoffs
from segue.gateway.turns import ChatTurns
from segue.handoffs import (
    STAYS,
    Completed,
    HandoffRequest,
    Held,
    IfHeld,
    Progress,
    hand_off_session,
)
from segue.handoffs import queries as handoffs
from segue.handoffs.values import State
from segue.store import bindings, release_requests, sessions, transcripts
from segue.testing.platform import Driver, Shape
from segue.turns import HeldLease, hold
from tests.gateway.test_approvals import question, settled
from tests.gateway.test_commands import Waiting, message_with
from tests.gateway.test_mid_turn import answer, writes
from tests.gateway.test_restarts import killed
from tests.gateway.test_takeover import on_two
from tests.harness.house import WITHIN, House, echo, echoing
from tests.turns.conftest import call

MATRIX = Platform.MATRIX
MOVING = "Moving to matrix as soon as the agent has finished this step. Type /stop to stay here."
WENT = "This conversation went to matrix"
FAILED = "The handoff failed."


@dataclass
class Trip:
    """A turn that runs in a chat on Telegram, and Anna's home channel on Matrix."""

    house: House
    chat: str
    there: str
    """The home channel on Matrix."""
    driver: Driver
    anna: str
    folder: Path

    async def says(self, text: str) -> None:
        await self.house.driver.say(self.house.anna, self.chat, text)

    async def runs(self, *lines: str) -> None:
        """Wait until the calls have written exactly these lines."""
        made = self.folder / "made"
        async with asyncio.timeout(WITHIN):
            while True:
                if made.exists() and made.read_text().split() == [*lines]:
                    return
                await asyncio.sleep(0.01)

    def go(self) -> None:
        """Let the first call end."""
        (self.folder / "go").touch()

    async def roles(self) -> list[str]:
        (session,) = await sessions.list_sessions(self.house.store, "me")
        return [role for role, _ in await self.house.said(session.id)]

    @contextlib.asynccontextmanager
    async def elsewhere(self, if_held: IfHeld) -> AsyncGenerator[AsyncGenerator[Progress]]:
        """Hand the session off as another process would."""
        (session,) = await sessions.list_sessions(self.house.store, "me")
        request = HandoffRequest(Platform.MATRIX, if_held=if_held)
        async with await segue.store.open(self.house.url) as store:
            steps = hand_off_session(store, session.id, "a test", request)
            async with contextlib.aclosing(steps):
                yield steps


class HalfAnswer(ScriptedModel):
    """Stops in the middle of its first answer."""

    def __init__(self) -> None:
        super().__init__(echoing())
        self.said = asyncio.Event()

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        if not self.said.is_set():
            yield Text("Once upon a time")
            self.said.set()
            await asyncio.Event().wait()
        async for piece in super().stream(prompt):
            yield piece


@contextlib.asynccontextmanager
async def trip(house: House, folder: Path) -> AsyncGenerator[Trip]:
    chat = await house.chat()
    async with on_two(house) as (driver, anna):
        there = await driver.chat(Shape.FORUM, [anna], name="Home")
        await house.home(there, "group", MATRIX)
        yield Trip(house, chat, there, driver, anna, folder)


def two_calls(folder: Path) -> Say:
    """The first call runs until `go` exists. Each leaves a line in `made`."""
    made, go = folder / "made", folder / "go"
    waits = f"echo 1 >> {made}; while ! test -e {go}; do sleep 0.02; done; echo 1"
    return Say(text="I do it.", calls=(call("shell", 1, command=waits), writes(made, 2)))


def scripted(house: House, *script: Step | Callable[[Prompt], Step]) -> None:
    house.model = ScriptedModel(script)


def either(prompt: Prompt) -> Step:
    """Repeat the results of the calls, if there are any."""
    return answer(prompt) if any(m.role is Role.TOOL for m in prompt.messages) else echo(prompt)


@pytest.fixture
def auto(house: House) -> None:
    house.settings = structs.replace(house.settings, approvals=Approvals(policy=Policy.AUTO))


@pytest.mark.usefixtures("auto")
async def test_a_handoff_typed_during_a_turn_moves_the_turn_at_the_safe_point(
    house: House, tmp_path: Path
):
    scripted(house, two_calls(tmp_path), answer)
    async with trip(house, tmp_path) as t:
        await t.says("do it")
        await t.runs("1")
        await t.says("/move matrix")
        await message_with(house, t.chat, MOVING)
        assert await handoffs.in_flight(house.store) == ()  # nothing moves while a tool runs
        t.go()
        await t.driver.message("result: 1, 2", chat=t.there)
        await message_with(house, t.chat, WENT)
        await house.idle()
        assert await t.roles() == ["user", "assistant", "tool", "tool", "assistant"]
        assert "result: 1, 2" not in (await house.driver.look(t.chat)).texts
    await t.runs("1", "2")


@pytest.mark.usefixtures("auto")
async def test_stop_cancels_the_handoff_and_the_turn_continues(house: House, tmp_path: Path):
    scripted(house, two_calls(tmp_path), answer)
    async with trip(house, tmp_path) as t:
        await t.says("do it")
        await t.runs("1")
        await t.says("/move matrix")
        await message_with(house, t.chat, MOVING)
        await t.says("/stop")
        await message_with(house, t.chat, STAYS)
        t.go()
        await house.driver.message("result: 1, 2", chat=t.chat)
        assert await handoffs.recent(house.store) == ()
    await t.runs("1", "2")


@pytest.mark.usefixtures("auto")
async def test_after_a_failed_handoff_the_turn_continues_in_the_chat(house: House, tmp_path: Path):
    scripted(house, two_calls(tmp_path), answer)
    async with trip(house, tmp_path) as t:
        await house.home("!gone:1", "group", MATRIX)
        await t.says("do it")
        await t.runs("1")
        await t.says("/move matrix")
        await message_with(house, t.chat, MOVING)
        t.go()
        await message_with(house, t.chat, FAILED)
        await house.driver.message("result: 1, 2", chat=t.chat)
        await house.idle()
        assert await t.roles() == ["user", "assistant", "tool", "tool", "assistant"]
    await t.runs("1", "2")


async def test_an_open_question_is_asked_where_the_session_goes(house: House, tmp_path: Path):
    scripted(house, writes(tmp_path / "made", 1), answer)
    async with trip(house, tmp_path) as t:
        await t.says("do it")
        await question(house, t.chat)
        await t.says("/move matrix")
        shown = await t.driver.until(
            lambda shown: any("May I do this?" in text for text in shown.texts), chat=t.there
        )
        await settled(house, t.chat, "→ Handed off with the conversation")
        assert not (tmp_path / "made").exists()
        asked = next(m for m in shown.messages if "May I do this?" in m.text)
        await t.driver.press(t.anna, asked.id, "Allow")
        await t.driver.message("result: 1", chat=t.there)
    assert (tmp_path / "made").read_text() == "1\n"


async def test_an_open_question_stays_open_if_the_handoff_fails(house: House, tmp_path: Path):
    scripted(house, writes(tmp_path / "made", 1), answer)
    async with trip(house, tmp_path) as t:
        await house.home("!gone:1", "group", MATRIX)
        await t.says("do it")
        asked = await question(house, t.chat)
        await t.says("/move matrix")
        await message_with(house, t.chat, FAILED)
        await house.driver.press(house.anna, asked.id, "Allow")
        await house.driver.message("result: 1", chat=t.chat)
    assert (tmp_path / "made").read_text() == "1\n"


async def test_the_session_moves_after_the_answer_is_complete(house: House, tmp_path: Path):
    house.model = model = Waiting()
    async with trip(house, tmp_path) as t:
        await t.says("hello")
        await model.asked.wait()
        await t.says("/move matrix")
        await message_with(house, t.chat, MOVING)
        assert await handoffs.in_flight(house.store) == ()
        model.go.set()
        await house.driver.message("(1) hello", chat=t.chat)
        await message_with(house, t.chat, WENT)
        (done,) = await handoffs.recent(house.store)
        assert not done.mid_turn


async def test_a_session_without_a_turn_moves_at_once(house: House, tmp_path: Path):
    async with trip(house, tmp_path) as t:
        await t.says("hello")
        await house.driver.message("(1) hello", chat=t.chat)
        await t.says("/move matrix")
        await message_with(house, t.chat, WENT)
        assert MOVING not in (await house.driver.look(t.chat)).texts
        await t.says("/move matrix")
        await message_with(house, t.chat, "There is no session here yet.")


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("/move telegram", "It is here already."),
        ("/move matrx", "Try matrix"),
        ("/move discord", "discord"),
        ("/move web --lan", "--lan works only in the terminal"),
        ("/move", "matrix is connected. Handoffs arrive at"),
        ("/move", "To continue in a terminal, type there:"),
        ("/move terminal", "To continue in a terminal, type there:"),
        ("/handoff matrix", "/handoff works only in the terminal. Here, type /move PLATFORM."),
    ],
)
async def test_a_handoff_that_is_impossible_is_refused_at_once(
    house: House, tmp_path: Path, typed: str, says: str
):
    async with trip(house, tmp_path) as t:
        await house.home(t.chat)
        await t.says("hello")
        await house.driver.message("(1) hello", chat=t.chat)
        await t.says(typed)
        await message_with(house, t.chat, says)
        assert await handoffs.recent(house.store) == ()


async def test_a_button_of_an_old_message_with_a_handoff_is_answered_with_the_command(
    house: House, tmp_path: Path
):
    async with trip(house, tmp_path) as t:
        await t.says("hello")
        said = await house.driver.message("(1) hello", chat=t.chat)
        await house.driver.press(house.anna, said.id, "Leave", "/handoff matrix")
        await message_with(house, t.chat, "Here, type /move PLATFORM.")
        assert await handoffs.recent(house.store) == ()


async def test_move_without_another_platform_says_so(house: House, tmp_path: Path):
    async with house.gateway():
        chat = await house.chat()
        await house.home(chat)
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.driver.say(house.anna, chat, "/move")
        listed = await message_with(house, chat, "No other platform is connected.")
        assert not listed.buttons


async def test_move_without_a_platform_has_a_button_for_every_other_place(
    house: House, tmp_path: Path
):
    async with trip(house, tmp_path) as t:
        await house.home(t.chat)
        await t.says("hello")
        await house.driver.message("(1) hello", chat=t.chat)
        await t.says("/move")
        listed = await message_with(house, t.chat, "type /move matrix")
        assert [button.label for button in listed.buttons] == ["Move to matrix"]
        assert "telegram" not in listed.text, "it is here already"
        assert re.search(r"type there: `?\S*segue resume \S", listed.text)
        await house.driver.press(house.anna, listed.id, "Move to matrix")
        await message_with(house, t.chat, WENT)


# From another process


@pytest.mark.usefixtures("auto")
async def test_another_process_waits_for_the_safe_point_and_follows_the_turn(
    house: House, tmp_path: Path
):
    scripted(house, two_calls(tmp_path), answer)
    async with trip(house, tmp_path) as t:
        await t.says("do it")
        await t.runs("1")
        async with t.elsewhere(IfHeld.WAIT) as steps:
            assert isinstance(await anext(steps), Held)
            assert await handoffs.in_flight(house.store) == ()
            t.go()
            done = [step async for step in steps][-1]
        assert isinstance(done, Completed)
        assert done.handoff.mid_turn
        await t.driver.message("result: 1, 2", chat=t.there)
        await house.idle()
        assert await t.roles() == ["user", "assistant", "tool", "tool", "assistant"]
    await t.runs("1", "2")


@pytest.mark.usefixtures("auto")
async def test_now_stops_the_turn_and_keeps_its_results(house: House, tmp_path: Path):
    scripted(house, two_calls(tmp_path), "I am here.")
    async with trip(house, tmp_path) as t:
        await t.says("do it")
        await t.runs("1")
        async with t.elsewhere(IfHeld.STOP) as steps:
            done = [step async for step in steps][-1]
        assert isinstance(done, Completed)
        assert not done.handoff.mid_turn
        await message_with(house, t.chat, "Stopped.")
        await message_with(house, t.chat, WENT)
        (session,) = await sessions.list_sessions(house.store, "me")
        kept = await transcripts.load(house.store, session.id)
        results = [m.outcome for m in kept if m.role is Role.TOOL]
        assert results == [Outcome.INTERRUPTED, Outcome.NOT_BEGUN]
    await t.runs("1")


async def test_now_keeps_a_half_written_answer(house: House, tmp_path: Path):
    house.model = model = HalfAnswer()
    async with trip(house, tmp_path) as t:
        await t.says("hello")
        await model.said.wait()
        async with t.elsewhere(IfHeld.STOP) as steps:
            assert isinstance([step async for step in steps][-1], Completed)
        (session,) = await sessions.list_sessions(house.store, "me")
        said = await house.said(session.id)
        assert said[:2] == [("user", "hello"), ("assistant", "Once upon a time […]")]
        await message_with(house, t.chat, "Stopped.")


@pytest.mark.usefixtures("auto")
async def test_a_queued_message_is_answered_after_the_move(house: House, tmp_path: Path):
    scripted(house, two_calls(tmp_path), either, either)
    async with trip(house, tmp_path) as t:
        await t.says("do it")
        await t.runs("1")
        await t.says("/move matrix")
        await message_with(house, t.chat, MOVING)
        await t.says("and then?")
        t.go()
        await t.driver.message("result: 1, 2", chat=t.there)
        # A chat without threads starts another session, and says so.
        await message_with(house, t.chat, "A new session answers here from now on.")
        await house.driver.message("(1) and then?", chat=t.chat)
    await t.runs("1", "2")


@pytest.mark.usefixtures("auto")
async def test_the_next_gateway_waits_for_the_handoff_of_a_turn_that_a_dead_one_paused(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It must not resume the turn in the chat: that would fail the handoff."""
    chat, there = await house.chat(), await house.chat(Shape.FORUM, name="Home")
    home = await house.home(there, "group")
    granted = asyncio.Event()

    async def grant_and_hang(turns: ChatTurns, held: HeldLease, _: asyncio.Event) -> bool:
        assert held.release_request is not None
        await handoffs.grant(
            turns.context.store, held.release_request, held.lease, mid_turn=True, claim_seconds=600
        )
        granted.set()
        return await asyncio.Event().wait()

    async def claim_nothing(_: Handoffs) -> None:
        await asyncio.Event().wait()

    trip = Trip(house, chat, there, house.driver, house.anna, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(ChatTurns, "_move", grant_and_hang)
        patched.setattr(Handoffs, "run", claim_nothing)
        async with killed(house, ScriptedModel([two_calls(tmp_path)])):
            await trip.says("do it")
            await trip.runs("1")
            (session,) = await sessions.list_sessions(house.store, "me")
            await release_requests.create(house.store, session.id, home)
            trip.go()
            await granted.wait()
    async with house.gateway(model=[answer]):
        await house.driver.message("result: 1, 2", chat=there)
        await message_with(house, chat, "This conversation went to")
        await house.idle()
    await trip.runs("1", "2")
    assert [h.state for h in await handoffs.recent(house.store)] == [State.COMPLETED]


async def test_a_message_whose_session_leaves_before_its_turn_is_not_answered_in_it(
    house: House, tmp_path: Path
):
    """It waits while the session is handed off, and is then a message in a chat that the session
    left."""
    async with trip(house, tmp_path) as t:
        await t.says("one")
        await house.driver.message("(1) one", chat=t.chat)
        await house.idle()
        (session,) = await sessions.list_sessions(house.store, "me")
        there = await house.home(t.there, "group", MATRIX)
        async with hold(house.store, session.id, "a test"):
            await t.says("two")
            await house.idle_but_for(1)
            await bindings.rebind(house.store, session.id, there, Origin.RESUME)
        await message_with(house, t.chat, "A new session answers here from now on.")
        await house.driver.message("(1) two", chat=t.chat)
        assert len(await house.said(session.id)) == 2
