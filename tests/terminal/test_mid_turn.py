"""Handing off in the middle of a turn, from a real pty, with a minimal gateway."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import segue.store
from segue import config
from segue.core.session import ME
from segue.core.transcript import Outcome, Role, Transcript
from segue.handoffs import STAYS
from segue.handoffs import queries as handoffs
from segue.handoffs.values import State
from segue.store import Store, gateways, inbox, sessions, transcripts
from segue.terminal.conversation import Conversation
from segue.terminal.departure import Departure
from segue.terminal.display import Display
from segue.terminal.plain_console import PlainConsole
from segue.terminal.render.screen import Screen
from segue.turns import Turns
from segue.turns.agents import Agents
from tests.fakes.models.openai import Say
from tests.harness.pty import Terminal
from tests.harness.terminal import Person, over, shell
from tests.program import constants
from tests.store.samples import TOPIC
from tests.terminal.test_handoff import a_gateway

MOVING = "here, moving to telegram"
"""In the status line."""
NOTICE = "Moving to telegram as soon as the agent has finished this step. Ctrl-C to stay."
GOES_ON = "The agent goes on here."
KINDS = pytest.mark.parametrize("environment", [{}, {"TERM": "dumb"}], ids=["drawn", "dumb"])


def asks_nothing(person: Person) -> None:
    """Allow every command without approval."""
    settings = Path(person.environment["HOME"]) / "config.toml"
    settings.write_text('[approvals]\npolicy = "auto"\n')
    settings.chmod(0o600)
    person.environment["SEGUE_CONFIG"] = str(settings)


def soon_impatient(person: Person) -> None:
    person.environment.update(constants({"segue.terminal.departure.PATIENCE": 0.0}))


def two_calls() -> Say:
    """Two calls. The first runs until `go` exists. Each leaves a line in `ran`."""
    first = shell("echo 1 >> ran; while ! test -e go; do sleep 0.02; done")
    second = shell("echo 2 >> ran", 2)
    return Say(calls=(*first.calls, *second.calls))


async def runs(person: Person, *lines: str) -> None:
    """Wait until the commands have written exactly these lines."""
    ran = person.cwd / "ran"
    async with asyncio.timeout(40):
        while True:
            if ran.exists() and ran.read_text().split() == [*lines]:
                return
            await asyncio.sleep(0.01)


def go(person: Person) -> None:
    (person.cwd / "go").touch()


async def request_handoff(shown: Terminal, person: Person, *, drawn: bool = True) -> None:
    """Wait until the first call runs, then request a handoff."""
    if drawn:
        await shown.ready()
    shown.say("do it")
    await runs(person, "1")
    shown.say("/handoff telegram")
    await shown.shows(NOTICE)


async def transcript(store: Store) -> Transcript:
    (session,) = await sessions.list_sessions(store, ME)
    return await transcripts.load(store, session.id)


async def roles(store: Store) -> list[str]:
    return [message.role.value for message in await transcript(store)]


@KINDS
async def test_the_turn_moves_after_the_result_of_the_running_call(
    person: Person, environment: dict[str, str]
):
    asks_nothing(person)
    async with (
        a_gateway(person) as gateway,
        person.talks_to(two_calls()),
        person.opens(environment=environment) as shown,
    ):
        await request_handoff(shown, person, drawn=not environment)
        if not environment:
            await shown.see(MOVING)
        assert await handoffs.in_flight(gateway.store) == ()  # nothing moves while a tool runs
        go(person)
        claim = await gateway.claim()
        assert claim.mid_turn
        assert await gateway.complete(claim)
        assert await shown.end() == 0
        await shown.shows(f"continues on {TOPIC}")
        await shown.shows("The agent goes on with its work there.")
        found = await transcript(gateway.store)
        assert [m.role.value for m in found] == ["user", "assistant", "tool"]
        assert [call.id for call in found.unanswered] == ["call_2"]
        assert await inbox.moved_turn(gateway.store, TOPIC) is not None
    await runs(person, "1")


async def test_a_handoff_during_an_answer_moves_the_session_after_the_turn(
    person: Person,
):
    async with (
        a_gateway(person) as gateway,
        person.talks_to("a long answer") as model,
        person.opens() as shown,
    ):
        await shown.ready()
        model.pausing()
        shown.say("hello")
        await model.asked.wait()
        shown.say("/handoff telegram")
        await shown.see(MOVING)
        assert await handoffs.in_flight(gateway.store) == ()  # nor while an answer is half written
        model.go.set()
        claim = await gateway.claim()
        assert not claim.mid_turn
        assert await gateway.complete(claim)
        assert await shown.end() == 0
        await shown.shows("a long answer")


@KINDS
async def test_an_open_question_is_asked_again_where_the_session_goes(
    person: Person, environment: dict[str, str]
):
    async with (
        a_gateway(person) as gateway,
        person.talks_to(shell("touch done")),
        person.opens(environment=environment) as shown,
    ):
        if not environment:
            await shown.ready()
        shown.say("do it")
        await shown.shows("Allow it?")
        shown.say("/handoff telegram")
        claim = await gateway.claim()
        assert claim.mid_turn
        assert await gateway.complete(claim)
        assert await shown.end() == 0
        assert len((await transcript(gateway.store)).unanswered) == 1
    assert not (person.cwd / "done").exists()


async def test_ctrl_c_cancels_the_handoff_and_the_turn_continues(person: Person):
    asks_nothing(person)
    async with (
        a_gateway(person) as gateway,
        person.talks_to(two_calls(), "It is done."),
        person.opens() as shown,
    ):
        await request_handoff(shown, person)
        shown.press("c-c")
        await shown.shows(STAYS)
        await shown.gone(MOVING)
        go(person)
        await shown.shows("It is done.")
        await over(shown)
        assert await handoffs.recent(gateway.store, 1) == ()
        assert await roles(gateway.store) == ["user", "assistant", "tool", "tool", "assistant"]
    await runs(person, "1", "2")


async def test_enter_and_ctrl_c_in_one_write_request_no_handoff_and_the_turn_continues(
    person: Person,
):
    asks_nothing(person)
    async with (
        a_gateway(person) as gateway,
        person.talks_to(two_calls(), "It is done."),
        person.opens() as shown,
    ):
        await shown.ready()
        shown.say("do it")
        await runs(person, "1")
        shown.type("/handoff telegram\r\x03")
        await shown.shows(STAYS)
        go(person)
        await shown.shows("It is done.")
        await over(shown)
        assert await handoffs.recent(gateway.store, 1) == ()
    await runs(person, "1", "2")


async def test_a_handoff_typed_as_the_turn_ends_is_run_like_any_other_command(
    person: Person, capsys: pytest.CaptureFixture[str]
):
    settings = config.load(person.environment)
    display = Display(PlainConsole(lambda _: False), Screen(styled=False), echo=False)
    async with (
        await segue.store.open(settings.store) as store,
        Turns(store, Agents(store, settings)) as turns,
    ):
        conversation = Conversation(store, settings, turns, display, person.cwd)
        over = Departure(store, display)
        assert await conversation.hand_off_meanwhile(over, "/handoff telegram") is False
        conversation.work.interrupt = asyncio.Event()  # the session is moving already
        assert await conversation.hand_off_meanwhile(over, "/handoff telegram") is True
    assert capsys.readouterr().out.count("Something is still running here.") == 1


async def test_the_next_ctrl_c_stops_the_turn(person: Person):
    asks_nothing(person)
    async with (
        a_gateway(person) as gateway,
        person.talks_to(two_calls()),
        person.opens() as shown,
    ):
        await request_handoff(shown, person)
        shown.press("c-c")
        await shown.shows(STAYS)
        shown.press("c-c")
        await shown.shows("Interrupted.")
        await shown.ready()
        assert await handoffs.recent(gateway.store, 1) == ()


@pytest.mark.parametrize("end", ["fails", "is cancelled"])
async def test_after_a_failed_handoff_the_terminal_continues_the_turn(person: Person, end: str):
    asks_nothing(person)
    async with (
        a_gateway(person) as gateway,
        person.talks_to(two_calls(), "It is done."),
        person.opens() as shown,
    ):
        await request_handoff(shown, person)
        go(person)
        claim = await gateway.claim()
        await shown.see("taken up by a gateway")
        if end == "fails":
            assert await handoffs.fail(gateway.store, claim, "The chat is closed.")
            await shown.shows("The handoff failed. The chat is closed.")
        else:
            shown.press("c-c")
            await shown.shows("Cancelled. The session stayed where it was.")
        await shown.shows(GOES_ON)
        await shown.shows("It is done.")
        await over(shown)
        found = await transcript(gateway.store)
        assert [m.role.value for m in found] == ["user", "assistant", "tool", "tool", "assistant"]
        assert [m.outcome for m in found if m.role is Role.TOOL] == [None, None]
        assert [h.state for h in await handoffs.recent(gateway.store)] == [State.FAILED]
    await runs(person, "1", "2")


async def test_an_impossible_handoff_is_refused_at_once_and_the_turn_continues(person: Person):
    asks_nothing(person)
    async with (
        a_gateway(person) as gateway,
        person.talks_to(two_calls(), "It is done."),
        person.opens() as shown,
    ):
        await shown.ready()
        shown.say("do it")
        await runs(person, "1")
        for typed, output in (
            ("/handoff telegran", "Try telegram"),
            ("/handoff signal", "does not serve signal"),
            ("/handoff", "type /handoff telegram"),
        ):
            shown.say(typed)
            await shown.shows(output)
        assert "moving to" not in shown.text
        go(person)
        await shown.shows("It is done.")
        await over(shown)
        assert await handoffs.recent(gateway.store, 1) == ()


async def test_the_turn_continues_if_the_gateway_stops_before_the_safe_point(
    person: Person,
):
    asks_nothing(person)
    async with (
        a_gateway(person) as gateway,
        person.talks_to(two_calls(), "It is done."),
        person.opens() as shown,
    ):
        await request_handoff(shown, person)
        await gateways.withdraw(gateway.store)
        go(person)
        await shown.shows("No gateway is running")
        await shown.shows(GOES_ON)
        await shown.shows("It is done.")
    await runs(person, "1", "2")


async def test_ctrl_d_during_the_handoff_leaves_and_the_session_does_not_move(person: Person):
    asks_nothing(person)
    async with (
        a_gateway(person) as gateway,
        person.talks_to(two_calls()),
        person.opens() as shown,
    ):
        await request_handoff(shown, person)
        go(person)
        await gateway.claim()
        await shown.see("taken up by a gateway")
        shown.press("c-d")
        assert await shown.end() == 0
        assert [h.state for h in await handoffs.recent(gateway.store)] == [State.FAILED]
    await runs(person, "1")
    async with person.talks_to("I see."), person.opens("-c") as back:
        await back.ready()
        back.say("go on")
        await back.shows("I see.")
        await over(back)
    tools = [m for m in await person.transcript() if m.role is Role.TOOL]
    assert [m.outcome for m in tools] == [None, Outcome.NOT_BEGUN]


async def test_a_turn_repeated_with_retry_can_be_handed_off(person: Person):
    asks_nothing(person)
    async with (
        a_gateway(person) as gateway,
        person.talks_to("Yes?", two_calls()),
        person.opens() as shown,
    ):
        await shown.ready()
        shown.say("do it")
        await shown.shows("Yes?")
        await shown.ready()
        shown.say("/retry")
        await runs(person, "1")
        shown.say("/handoff telegram")
        await shown.shows(NOTICE)
        go(person)
        assert (await gateway.claim()).mid_turn


# When the safe point is not reached


@pytest.mark.parametrize("answer", ["w", "s"])
async def test_a_long_wait_offers_to_wait_or_to_stay(person: Person, answer: str):
    asks_nothing(person)
    soon_impatient(person)
    async with (
        a_gateway(person) as gateway,
        person.talks_to(two_calls(), "It is done."),
        person.opens(columns=120) as shown,
    ):
        await request_handoff(shown, person)
        await shown.shows("[w]ait for it, stop it and [m]ove to telegram now, [s]tay here")
        shown.say(answer)
        if answer == "s":
            await shown.shows(STAYS)
            await shown.gone(MOVING)
            go(person)
            await shown.shows("It is done.")
            assert await handoffs.recent(gateway.store, 1) == ()
        else:
            await shown.see("[s]tay here")  # and asks again
            go(person)
            claim = await gateway.claim()
            assert claim.mid_turn
            await shown.gone("[s]tay here")
            assert await gateway.complete(claim)
            assert await shown.end() == 0


async def test_a_long_wait_offers_to_stop_the_command_and_move(person: Person):
    asks_nothing(person)
    soon_impatient(person)
    async with (
        a_gateway(person) as gateway,
        person.talks_to(two_calls()),
        person.opens(columns=120) as shown,
    ):
        await request_handoff(shown, person)
        await shown.see("[s]tay here")
        shown.say("m")
        claim = await gateway.claim()
        assert not claim.mid_turn  # the turn was stopped
        assert await gateway.complete(claim)
        assert await shown.end() == 0
        tools = [m for m in await transcript(gateway.store) if m.role is Role.TOOL]
        assert [m.outcome for m in tools] == [Outcome.INTERRUPTED, Outcome.NOT_BEGUN]
    await runs(person, "1")


async def test_ctrl_c_at_the_offer_keeps_the_session(person: Person):
    asks_nothing(person)
    soon_impatient(person)
    async with (
        a_gateway(person) as gateway,
        person.talks_to(two_calls(), "It is done."),
        person.opens(columns=120) as shown,
    ):
        await request_handoff(shown, person)
        await shown.see("[s]tay here")
        shown.press("c-c")
        await shown.shows(STAYS)
        go(person)
        await shown.shows("It is done.")
        assert await handoffs.recent(gateway.store, 1) == ()
