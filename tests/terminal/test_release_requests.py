"""`segue handoff --wait` and `--now` for a session that a terminal has open, as real processes,
with a minimal gateway."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncGenerator

import pytest

from segue.core.transcript import Outcome, Role
from segue.handoffs import STAYS
from segue.handoffs import queries as handoffs
from segue.handoffs.values import State
from tests.handoffs.conftest import Gateway
from tests.harness.gateways import Piped, piped, segue_says
from tests.harness.pty import Terminal
from tests.harness.terminal import Person, over
from tests.store.samples import TOPIC
from tests.terminal.test_handoff import a_gateway
from tests.terminal.test_mid_turn import (
    GOES_ON,
    MOVING,
    asks_nothing,
    go,
    runs,
    transcript,
    two_calls,
)

NOTICE = (
    "Asked from elsewhere. Moving to telegram as soon as the agent has finished this step. Ctrl-C"
)
WAITS = "waiting for the agent to finish its step in a terminal on "


@contextlib.asynccontextmanager
async def at_work(person: Person, *answers: str) -> AsyncGenerator[tuple[Gateway, Terminal]]:
    """A terminal that runs the first of two calls."""
    asks_nothing(person)
    async with (
        a_gateway(person) as gateway,
        person.talks_to(two_calls(), *answers),
        person.opens("chat", "--title", "Boats", columns=120) as shown,
    ):
        await shown.ready()
        shown.say("do it")
        await runs(person, "1")
        yield gateway, shown


@contextlib.asynccontextmanager
async def waiting(person: Person, shown: Terminal) -> AsyncGenerator[Piped]:
    """The command in another terminal, waiting for the session."""
    with piped(person, "handoff", "Boats", "telegram", "--wait") as command:
        assert WAITS in await command.line(command.stderr)
        await shown.shows(NOTICE)
        await shown.see(MOVING)
        yield command


async def test_the_command_waits_for_the_safe_point_and_the_turn_moves(person: Person):
    async with at_work(person) as (gateway, shown), waiting(person, shown) as command:
        assert await handoffs.in_flight(gateway.store) == ()  # nothing moves while a tool runs
        go(person)
        claim = await gateway.claim()
        assert claim.mid_turn
        assert await gateway.complete(claim)
        code, out, _ = await command.ends()
        assert code == 0
        assert out == (
            f"“Boats” continues on {TOPIC} (Home).\nThe agent goes on with its work there.\n"
            "To come back: segue resume Boats\n"
        )
        await shown.shows("The agent goes on with its work there.")
        await shown.see(f"on {TOPIC}")  # the terminal stays open, in case its user is there
        await shown.ready()
        found = await transcript(gateway.store)
        assert [m.role.value for m in found] == ["user", "assistant", "tool"]
        assert [call.id for call in found.unanswered] == ["call_2"]
    await runs(person, "1")


async def test_ctrl_c_withdraws_the_release_request_and_the_turn_continues(person: Person):
    async with at_work(person, "It is done.") as (gateway, shown):
        async with waiting(person, shown) as command:
            command.process.send_signal(signal.SIGINT)
            code, _, err = await command.ends()
            assert (code, err) == (130, "Cancelled. The session stayed where it was.\n")
        await shown.shows(STAYS)
        await shown.gone(MOVING)
        go(person)
        await shown.shows("It is done.")
        assert await handoffs.recent(gateway.store) == ()
    await runs(person, "1", "2")


async def test_ctrl_c_in_the_terminal_refuses_the_release_request(person: Person):
    async with at_work(person, "It is done.") as (gateway, shown):
        async with waiting(person, shown) as command:
            shown.press("c-c")
            code, _, err = await command.ends()
            assert code == 1
            assert "it was kept where it is" in err
        await shown.shows(STAYS)
        go(person)
        await shown.shows("It is done.")
        assert await handoffs.recent(gateway.store) == ()
    await runs(person, "1", "2")


async def test_after_the_command_is_killed_the_turn_continues_in_the_terminal(person: Person):
    async with at_work(person, "It is done.") as (gateway, shown):
        async with waiting(person, shown) as command:
            command.process.kill()
            command.process.wait()
            go(person)
            await shown.shows("It is done.")
            await over(shown)
        assert await handoffs.recent(gateway.store) == ()
        roles = [m.role.value for m in await transcript(gateway.store)]
        assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    await runs(person, "1", "2")


async def test_after_the_terminal_is_killed_the_command_moves_the_session(person: Person):
    async with at_work(person) as (gateway, shown), waiting(person, shown) as command:
        shown.kill()
        claim = await gateway.claim()
        assert not claim.mid_turn  # the outcome of the call is unknown
        assert await gateway.complete(claim)
        code, _, _ = await command.ends()
        assert code == 0


async def test_after_a_failed_handoff_the_terminal_continues_the_turn(person: Person):
    async with at_work(person, "It is done.") as (gateway, shown):
        async with waiting(person, shown) as command:
            go(person)
            assert await handoffs.fail(gateway.store, await gateway.claim(), "The chat is closed.")
            code, _, err = await command.ends()
            assert code == 1
            assert "The chat is closed." in err
        await shown.shows(GOES_ON)
        await shown.shows("It is done.")
        assert [h.state for h in await handoffs.recent(gateway.store)] == [State.FAILED]
    await runs(person, "1", "2")


async def test_an_idle_terminal_releases_the_session_at_once(person: Person):
    async with a_gateway(person) as gateway, person.opens("chat", "--title", "Boats") as shown:
        await shown.ready()
        shown.say("hello")
        await shown.shows("what I hear: hello")
        await shown.ready()
        shown.press("h", "a", "l", "f")
        await shown.see("half")
        with piped(person, "handoff", "Boats", "telegram", "--wait") as command:
            claim = await gateway.claim()
            assert not claim.mid_turn
            assert await gateway.complete(claim)
            code, out, _ = await command.ends()
        assert code == 0
        assert out.startswith(f"“Boats” continues on {TOPIC}")
        await shown.shows("/resume Boats to take it back")
        await shown.see("half")  # a draft is not lost


async def test_now_stops_the_turn_and_keeps_its_results(person: Person):
    async with at_work(person) as (gateway, shown):
        with piped(person, "handoff", "Boats", "telegram", "--now") as command:
            claim = await gateway.claim()
            assert not claim.mid_turn
            await shown.shows("Interrupted.")
            assert await gateway.complete(claim)
            code, _, _ = await command.ends()
        assert code == 0
        await shown.shows(f"“Boats” continues on {TOPIC}")
        tools = [m for m in await transcript(gateway.store) if m.role is Role.TOOL]
        assert [m.outcome for m in tools] == [Outcome.INTERRUPTED, Outcome.NOT_BEGUN]
    await runs(person, "1")


async def test_now_keeps_a_half_written_answer(person: Person):
    async with (
        a_gateway(person) as gateway,
        person.talks_to("a long answer") as model,
        person.opens("chat", "--title", "Boats") as shown,
    ):
        await shown.ready()
        model.pausing()
        shown.say("hello")
        await model.asked.wait()
        with piped(person, "handoff", "Boats", "telegram", "--now") as command:
            assert await gateway.complete(await gateway.claim())
            code, _, _ = await command.ends()
        assert code == 0
        said = [m.content for m in await transcript(gateway.store)]
        assert said[0] == "hello"
        assert all(text.endswith("[…]") for text in said[1:])


@pytest.mark.parametrize("flag", ["--wait", "--now"])
async def test_a_session_without_a_holder_moves_at_once(person: Person, flag: str):
    async with a_gateway(person) as gateway:
        async with person.opens("chat", "--title", "Boats") as shown:
            await shown.ready()
            shown.say("hello")
            await shown.shows("what I hear: hello")
            shown.press("c-d")
            await shown.end()
        with piped(person, "handoff", "Boats", "telegram", flag) as command:
            assert await gateway.complete(await gateway.claim())
            code, _, err = await command.ends()
        assert code == 0
        assert WAITS not in err


def test_wait_and_now_exclude_each_other(person: Person):
    refused = segue_says(person, "handoff", "Boats", "telegram", "--wait", "--now")
    assert refused.returncode == 2
    assert "Give --wait or --now, not both." in refused.stderr
