"""The outcome when no process comes back, and the report when the outcome is unknown."""

from __future__ import annotations

import time

import pytest

from segue.core.transcript import Kind, Role
from segue.handoffs.values import Failure, State
from segue.store import outbox, transcripts
from tests import rigs
from tests.crash.conftest import Fakes
from tests.crash.points import ANSWERING, HANDING_OFF
from tests.crash.rounds import judge
from tests.crash.world import STUCK, Nursery, until, world
from tests.harness.cases import brief
from tests.rigs import GenericRig, PlatformRig


@pytest.mark.kill
async def test_a_terminal_continues_in_time_if_its_gateway_never_comes_back(
    fakes: Fakes, nursery: Nursery
):
    async with world(GenericRig, fakes.of(GenericRig), nursery) as here:
        life = await here.begin(here.rig.forum)

        async def act() -> None:
            here.begin_handoff(life)

        async with HANDING_OFF["the thread is kept"].point.at(here, life, act):
            killed = time.monotonic()
            await here.kill_gateway()
        told = await life.desk.handed_off(STUCK)
        assert time.monotonic() - killed < STUCK
        assert told.text == "Failed"
        latest = await here.latest(life)
        assert latest is not None
        assert (latest.state, latest.failure) == (State.FAILED, Failure.ABANDONED)
        await here.say_in_terminal(life)
        await here.have_gateways()
        await here.settle(life)
        await judge(here, life, told.text)


@pytest.mark.parametrize("rig", brief(rigs.KEYLESS, [rigs.TelegramRig]), ids=lambda rig: rig.name)
async def test_an_answer_that_may_not_have_arrived_is_reported_in_its_session(
    rig: type[PlatformRig], fakes: Fakes, nursery: Nursery
):
    async with world(rig, fakes.of(rig), nursery) as here:
        life = await here.begin(here.rig.forum)
        await here.hand_over(life)

        async def act() -> None:
            await here.say_in_chat(life)

        async with ANSWERING["the answer was sent"].point.at(here, life, act):
            await here.kill_gateway()
        await here.have_gateways()
        await here.settle(life)

        async def is_told() -> bool:
            transcript = await transcripts.load(here.store, life.session_id)
            last = transcript.messages[-1]
            return (last.role, last.kind) == (Role.SYSTEM, Kind.SYNTHETIC)

        await until(is_told, "the session is told", STUCK)
        (lost,) = await outbox.troubled(here.store)
        assert lost.reported
        await here.say_in_chat(life)
        await here.settle(life)
        await judge(here, life)
