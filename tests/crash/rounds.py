"""Rounds: something is under way, somebody is killed, and everything goes on."""

from __future__ import annotations

import random
import time
from enum import StrEnum

from segue.core.handoff import State
from segue.testing.platform import Trouble
from tests.crash.evidence import gather
from tests.crash.mind import HANDOFF
from tests.crash.oracle import violations
from tests.crash.points import Moment
from tests.crash.world import SHAPES, STUCK, WITHIN, Life, World

SLOW = True


class Victim(StrEnum):
    GATEWAY = "the gateway"
    TERMINAL = "the terminal"
    BOTH = "both"


async def hand_off(
    world: World, rng: random.Random, name: str, moment: Moment, victim: Victim
) -> None:
    """Somebody is killed in the middle of a handoff."""
    shapes = SHAPES[:4] if "thread" in name else SHAPES
    shape = rng.choice(shapes)
    world.story.tell(f"— {name}, {victim} is killed, in a {shape}")
    life = await world.begin(shape)
    may_be_asked_again(life, f"{HANDOFF} after {life.words[-1]}", moment)

    async def act() -> None:
        world.begin_handoff(life)

    async with moment.point.at(world, life, act):
        since = await kill(world, life, victim)
    await world.have_gateways()
    await world.settle(life, since=since)
    told = None
    if victim is Victim.GATEWAY:
        told = (await life.terminal.handed_off(STUCK)).text
    await judge(world, life, told)
    await go_on(world, life, victim)


async def answer(
    world: World, rng: random.Random, name: str, moment: Moment, *, task: bool
) -> None:
    """The gateway is killed in the middle of answering what a person wrote."""
    shape = rng.choice(SHAPES)
    world.story.tell(f"— {name}, in a {shape}")
    life = await world.begin(shape)
    await world.hand_over(life)
    word = world.next_word
    may_be_asked_again(life, word, moment, once=2 if task else 1)

    async def act() -> None:
        await world.say_in_chat(life, task=task)

    async with moment.point.at(world, life, act):
        since = await kill(world, life, Victim.GATEWAY)
    await world.have_gateways()
    await world.settle(life, since=since)
    await judge(world, life, None)
    await say_and_hear(world, life)
    await judge(world, life, None)


def may_be_asked_again(life: Life, about: str, moment: Moment, once: int = 1) -> None:
    life.most_asked[about] = once if moment.kept else once + 1


async def kill(world: World, life: Life, victim: Victim) -> float:
    """When it was."""
    since = time.monotonic()
    if victim is not Victim.TERMINAL and SLOW:
        await world.hands.fail("me", Trouble.DELAY, seconds=0.5)
    if victim is not Victim.TERMINAL:
        await world.kill_gateway()
    if victim is not Victim.GATEWAY:
        await world.kill_terminal(life)
    return since


async def go_on(world: World, life: Life, victim: Victim) -> None:
    """The person writes on where the session is; if it stayed, it is handed off again."""
    latest = await world.latest(life)
    assert latest is not None
    if latest.state is State.FAILED:
        world.story.tell(f"it stayed: {latest.error}")
        if victim is not Victim.GATEWAY:
            await world.take_back(life)
        await world.say_in_terminal(life)
        await judge(world, life, None)
        await world.hand_over(life)
    elif victim is Victim.GATEWAY:
        world.spare(life.terminal)
    await say_and_hear(world, life)
    await judge(world, life, None)


async def say_and_hear(world: World, life: Life) -> None:
    """The next answer knows all that was said."""
    await world.say_in_chat(life)
    answer = f"I heard {' '.join(life.words)}."
    await world.hands.until(lambda shown: answer in shown.texts, chat=life.chat, within=WITHIN)
    await world.settle(life)


async def judge(world: World, life: Life, told: str | None) -> None:
    broken = violations(await gather(world, life, told))
    assert not broken, "\n".join(broken)
