"""A hundred handoffs to the real Synapse, while one gateway after another is killed."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from tests.crash.chapters import Chapter
from tests.crash.rounds import Round, _comes_back, _goes_on, _kills
from tests.crash.world import STUCK, Life, Nursery, World
from tests.fakes.matrix import MatrixPeer
from tests.fakes.matrix import peer as peer
from tests.rigs.matrix import MatrixRig

TESTS, LIVES, HANDOFFS = 4, 5, 5


async def play(world: World, rng: random.Random) -> None:
    """Conversations go to their rooms, encrypted or not, and come back, again and again."""
    kinds = rng.sample(MatrixRig.kinds, len(MatrixRig.kinds))
    every = [await world.begin(kinds[at % len(kinds)], said=1) for at in range(LIVES)]
    killing = asyncio.create_task(_kills(world, rng))
    await asyncio.gather(*(_goes_back_and_forth(world, life) for life in every))
    killing.cancel()
    await asyncio.wait({killing})
    assert killing.cancelled(), killing.exception()
    assert world.kills
    since = time.monotonic()
    for life in every:
        await _comes_back(world, since, life)
    for life in every:
        await _goes_on(world, life)


async def _goes_back_and_forth(world: World, life: Life) -> None:
    for number in range(HANDOFFS):
        await world.ask(life)
        told = await life.desk.handed_off(STUCK)
        if told.text == "Completed":
            world.spare(life)
            if number < HANDOFFS - 1:
                await world.take_back(life)
            else:
                await world.say_in_chat(life)
        else:  # it stayed where it was
            life.taken_back = life.resumes > 0


@pytest.mark.real
@pytest.mark.parametrize(
    "test", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, TESTS))]
)
async def test_no_event_is_doubled_when_gateways_are_killed(
    test: int, nursery: Nursery, peer: MatrixPeer
):
    synapse: Any = peer
    chapter = Chapter("on Matrix", MatrixRig, (Round("back and forth", play),))
    await chapter.play(synapse, nursery, seed=test)


def test_there_are_a_hundred_handoffs():
    assert TESTS * LIVES * HANDOFFS == 100
