"""`segue handoff`, without a prompt, with a minimal gateway."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Sequence

import pytest

from segue.core.address import Platform
from segue.core.session import ME, Session
from segue.handoffs import queries as handoffs
from segue.handoffs.values import State
from segue.store import Topic, leases, sessions
from segue.turns import hold
from tests.handoffs.conftest import STEPS, Gateway
from tests.harness.gateways import Piped, piped, segue_says
from tests.harness.terminal import Person
from tests.program import constants
from tests.store.samples import DM, TOPIC
from tests.terminal.test_handoff import a_gateway


def segue_handoff(person: Person, *words: str) -> Piped:
    """The running command."""
    return piped(person, "handoff", *words)


async def session_of(gateway: Gateway, title: str = "Boats") -> Session:
    return await sessions.create(gateway.store, ME, Platform.LOCAL, title=title)


def events(out: str) -> Sequence[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


async def test_the_command_moves_the_session_prints_the_steps_and_exits_with_0(person: Person):
    async with a_gateway(person) as gateway:
        session = await session_of(gateway)
        with segue_handoff(person, "boats", "telegram", "--message", "I am off") as command:
            claim = await gateway.claim()
            assert (claim.home, claim.message) == (DM, "I am off")
            assert "a gateway" in await command.line(command.stderr)
            assert await gateway.complete(claim)
            code, out, _ = await command.ends()
        assert (code, out) == (
            0,
            f"“Boats” continues on {TOPIC} (Home).\nTo come back: segue resume Boats\n",
        )
        found = await sessions.get(gateway.store, session.id)
        assert found is not None
        assert found.address == TOPIC
        assert await leases.get(gateway.store, session.id) is None


async def test_with_json_every_step_is_a_line_and_the_last_is_the_outcome(person: Person):
    async with a_gateway(person) as gateway:
        session = await session_of(gateway)
        with segue_handoff(person, session.id, f"telegram:{DM.chat_id}", "--json") as command:
            claim = await gateway.claim()
            for step in STEPS:
                assert await handoffs.record_step(gateway.store, claim, step)
            assert await gateway.complete(claim)
            code, out, err = await command.ends()
        assert (code, err) == (0, "")
        *steps, last = events(out)
        assert {step["event"] for step in steps} <= {"waiting", "working"}
        assert last == {
            "event": "completed",
            "platform": "telegram",
            "session": session.id,
            "address": TOPIC.key,
            "confirmed": True,
            "link": None,
        }


async def test_a_failed_handoff_exits_with_1_and_its_reason(person: Person):
    async with a_gateway(person) as gateway:
        session = await session_of(gateway)
        for as_json in (False, True):
            words = ["Boats", "telegram", *(["--json"] if as_json else [])]
            with segue_handoff(person, *words) as command:
                claim = await gateway.claim()
                assert await handoffs.fail(gateway.store, claim, "The chat is closed.\x1b[2J")
                code, out, err = await command.ends()
            assert code == 1
            if as_json:
                last = events(out)[-1]
                assert (last["event"], last["cancelled"]) == ("failed", False)
                assert "\x1b" not in out
            else:
                assert err.endswith("The handoff failed. The chat is closed.[2J\n")
        assert await leases.get(gateway.store, session.id) is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["Boats", "telegran"], "Try telegram"),
        (["Boats", "signal"], "does not serve signal"),
        (["Boats", "telegram:999"], "'999' is not one of your chats on telegram"),
        (["Ships", "telegram"], "There is no session “Ships”"),
    ],
)
async def test_a_refused_handoff_exits_with_1_and_its_reason(
    person: Person, words: list[str], expected: str
):
    async with a_gateway(person) as gateway:
        await session_of(gateway)
        refused = await asyncio.to_thread(segue_says, person, "handoff", *words)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert expected in refused.stderr
        as_json = await asyncio.to_thread(segue_says, person, "handoff", *words, "--json")
        assert as_json.returncode == 1
        (only,) = events(as_json.stdout)
        assert only["event"] == "refused"
        assert expected in str(only["reason"])
        assert await handoffs.recent(gateway.store, 5) == ()


async def test_a_session_that_is_open_elsewhere_is_not_taken_away(person: Person):
    async with a_gateway(person) as gateway:
        session = await session_of(gateway)
        await leases.acquire(gateway.store, session.id, "a terminal on desk", seconds=600)
        refused = await asyncio.to_thread(segue_says, person, "handoff", "Boats", "telegram")
        assert refused.returncode == 1
        assert (
            "open in a terminal on desk. Close it there first, add --wait to move it when"
            in refused.stderr
        )


async def test_now_takes_the_session_from_a_process_that_does_not_let_it_go(person: Person):
    person.environment.update(constants({"segue.handoffs.request.FORCE_SECONDS": 0.0}))
    async with a_gateway(person) as gateway:
        session = await session_of(gateway)
        async with hold(gateway.store, session.id, "a terminal on desk") as elsewhere:
            with segue_handoff(person, "Boats", "telegram", "--now") as command:
                claim = await gateway.claim()
                await elsewhere.lost.wait()
                assert await gateway.complete(claim)
                code, _, _ = await command.ends()
        assert code == 0
        found = await sessions.get(gateway.store, session.id)
        assert found is not None
        assert found.address == TOPIC


async def test_now_does_not_take_the_session_if_it_cannot_move(person: Person):
    async with a_gateway(person) as gateway:
        session = await session_of(gateway)
        async with hold(gateway.store, session.id, "a terminal on desk") as elsewhere:
            words = ("handoff", "Boats", "signal", "--now")
            refused = await asyncio.to_thread(segue_says, person, *words)
            assert "does not serve signal" in refused.stderr
            assert not elsewhere.lost.is_set()


@pytest.mark.parametrize("words", [["Boats"], ["Boats", ":7"], ["Boats", "telegram:"], []])
async def test_wrong_usage_exits_with_2(person: Person, words: list[str]):
    assert segue_says(person, "handoff", *words).returncode == 2


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
async def test_ctrl_c_cancels_the_handoff_and_exits_with_130(
    person: Person, ending: signal.Signals
):
    async with a_gateway(person) as gateway:
        session = await session_of(gateway)
        with segue_handoff(person, "Boats", "telegram", "--json") as command:
            async with gateway.store.listen(Topic.HANDOFFS) as wake:
                while not await handoffs.pending(gateway.store):
                    await wake.wait(0.25)
            assert "waiting" in await command.line(command.stdout)
            command.process.send_signal(ending)
            code, out, _ = await command.ends()
        assert code == 130
        assert events(out)[-1]["cancelled"] is True
        latest = await handoffs.current(gateway.store, session.id)
        assert latest is not None
        assert latest.state is State.FAILED
        assert await leases.get(gateway.store, session.id) is None
