"""Rounds: something is under way, somebody is killed with kill -9, and everything goes on."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from segue.core.handoff import State
from segue.handoff.request import PATIENCE
from segue.store.handoffs import CLAIM_SECONDS
from segue.testing.platform import Trouble
from tests.crash.evidence import gather
from tests.crash.oracle import violations
from tests.crash.points import Between, Moment
from tests.crash.world import SHAPES, STUCK, WITHIN, Life, World, until

THREADED = SHAPES[:4]
_SLOW = 0.3
"""Seconds that the platform takes now and then until a gateway is connected."""
_RANDOM = 0.4
"""Seconds within which somebody is killed at random."""


class Victim(StrEnum):
    GATEWAY = "the gateway"
    TERMINAL = "the terminal"
    BOTH = "both"


Play = Callable[[World, random.Random], Awaitable[None]]


@dataclass(frozen=True)
class Round:
    name: str
    play: Play
    seed: int = 1

    async def run(self, world: World, more: int = 0) -> None:
        """AssertionError, with all that happened, when a promise is broken. `more` is added to its
        seed."""
        seed = self.seed + more
        world.story.tell(f"— {self.name}, seed {seed}")
        try:
            await self.play(world, random.Random(f"{self.name} {seed}"))
        except AssertionError as error:
            raise AssertionError(
                f"{self.name}, seed {seed}:\n{error}\n\n{world.story}\n\n{world.told()}"
            ) from error


# Handing off


def handing_off(moment: Moment, victim: Victim, *, threaded: bool = False) -> Play:
    """Somebody is killed in the middle of a handoff."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(THREADED if threaded else SHAPES))
        arrival = life.arrival
        async with moment.point.at(world, life, _begins(world, life)):
            await _is_asked(world, life)  # a gateway looks of its own accord, too
            _is_answered(life, arrival, moment)
            since = await _kill(world, life, victim, rng)
        away = await _comes_back(world, since, life)
        if world.rules.keys:
            await _was_carried_out(world, life, away)
        await _goes_on(world, life)

    return play


async def _was_carried_out(world: World, life: Life, away: float) -> None:
    """The next gateway went on with it, if there was one in time."""
    latest = await world.latest(life)
    assert latest is not None
    patience = CLAIM_SECONDS if latest.attempt else PATIENCE
    if latest.state is not State.COMPLETED and away < patience - 1:
        raise AssertionError(f"a gateway was back after {away:.1f} s, and yet: {latest.error}")


def handing_off_in_vain(moment: Moment) -> Play:
    """Every gateway that takes it up is killed: in the end it fails."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(THREADED))
        arrival = life.arrival
        act = _begins(world, life)
        since = time.monotonic()
        for _ in range(3):
            async with moment.point.at(world, life, act):
                _is_answered(life, arrival, moment)
                since = await _kill(world, life, Victim.GATEWAY, rng)
            act = world.have_gateways
        await _comes_back(world, since, life)
        latest = await world.latest(life)
        assert latest is not None
        assert latest.state is State.FAILED
        await _goes_on(world, life)

    return play


def coming_back_first(moment: Moment) -> Play:
    """Both are killed, and the person takes the session back before there is a gateway."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(THREADED))
        arrival = life.arrival
        async with moment.point.at(world, life, _begins(world, life)):
            _is_answered(life, arrival, moment)
            since = await _kill(world, life, Victim.BOTH, rng)
        await world.take_back(life)
        await world.say_in_terminal(life)
        await _comes_back(world, since, life)
        await _goes_on(world, life)

    return play


def writing_ahead(moment: Moment) -> Play:
    """The person writes in the thread before the session is there, and the gateway is killed: that
    is answered after the arrival."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(THREADED))
        arrival = life.arrival
        async with moment.point.at(world, life, _begins(world, life)):
            for _ in range(2):
                await world.say_in_chat(life)
            await world.hands.until(lambda shown: shown.unconfirmed == 0)
            _is_answered(life, arrival, moment)
            since = await _kill(world, life, Victim.GATEWAY, rng)
        await _comes_back(world, since, life)
        await _goes_on(world, life)

    return play


def asking(point: Between, victim: Victim) -> Play:
    """The terminal is killed while it asks for the handoff."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(SHAPES))
        async with point.at(world, life, _begins(world, life)):
            since = await _kill(world, life, victim, rng)
        await _comes_back(world, since, life)
        await _goes_on(world, life)

    return play


# Answering


def answering(moment: Moment, *, task: bool = False, more: int = 0) -> Play:
    """The gateway is killed in the middle of answering what a person wrote."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(SHAPES))
        await world.hand_over(life)
        word = world.next_word

        async def act() -> None:
            await world.say_in_chat(life, task=task)

        async with moment.point.at(world, life, act):
            for _ in range(more):
                await world.say_in_chat(life)
            _is_answered(life, word, moment)
            since = await _kill(world, life, Victim.GATEWAY, rng)
        await _comes_back(world, since, life)
        await _says(world, life)

    return play


def taking_back(point: Between, victim: Victim) -> Play:
    """Somebody is killed while a session comes back into a terminal."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(SHAPES))
        await world.hand_over(life)
        await _says(world, life)
        life.terminal = await world.terminal()
        taking: list[asyncio.Task[None]] = []

        async def act() -> None:
            taking.append(asyncio.create_task(world.take_back(life)))

        async with point.at(world, life, act):
            since = await _kill(world, life, victim, rng)
        await asyncio.wait(taking)
        if taking[0].exception():
            await world.take_back(life)
        life.resumes = 1
        await _comes_back(world, since, life)
        await world.say_in_terminal(life)
        await judge(world, life)
        await world.hand_over(life)
        await _says(world, life)

    return play


# At random


def at_random(lives: int = 3) -> Play:
    """Several conversations at once, each in the middle of something, and a moment that nobody
    chose."""

    async def play(world: World, rng: random.Random) -> None:
        every = [await world.begin(rng.choice(SHAPES), said=1) for _ in range(lives)]
        there = rng.sample(every, rng.randint(0, lives - 1))
        for life in there:
            await world.aim(life)
            await world.hand_over(life)
        busy = [asyncio.create_task(_does(world, life, rng, life in there)) for life in every]
        await asyncio.sleep(rng.uniform(0.0, _RANDOM))
        victims = rng.choice([*Victim, Victim.GATEWAY])
        since = time.monotonic()
        if victims is not Victim.TERMINAL:
            await world.kill_gateway()
        for life in every:
            if victims is not Victim.GATEWAY and life.terminal and rng.random() < 0.7:
                await world.kill_terminal(life)
        await asyncio.gather(*busy)
        await world.have_gateways()
        for life in every:
            await _comes_back(world, since, life)
        for life in every:
            await _goes_on(world, life)

    return play


async def _does(world: World, life: Life, rng: random.Random, there: bool) -> None:
    await asyncio.sleep(rng.uniform(0.0, _RANDOM / 2))
    if there:
        await world.say_in_chat(life, task=rng.random() < 0.3)
    else:
        await world.ask(life)


# The pieces


def _begins(world: World, life: Life) -> Callable[[], Awaitable[None]]:
    async def act() -> None:
        world.begin_handoff(life)

    return act


async def _is_asked(world: World, life: Life) -> None:
    async def is_asked() -> bool:
        return await world.latest(life) is not None

    await until(is_asked, "the handoff is asked for", WITHIN)


def _is_answered(life: Life, about: str, moment: Moment) -> None:
    """Where the answer is recorded by then, the model must not be asked again."""
    if moment.kept:
        life.unanswered.discard(about)


async def _kill(world: World, life: Life, victim: Victim, rng: random.Random) -> float:
    """When it was."""
    since = time.monotonic()
    if victim is not Victim.TERMINAL:
        await world.kill_gateway()
        if rng.random() < 0.3:
            await world.hands.fail("me", Trouble.DELAY, seconds=_SLOW)
    if victim is not Victim.GATEWAY:
        await world.kill_terminal(life)
    return since


async def _comes_back(world: World, since: float, life: Life) -> float:
    """There is a gateway again, and what was under way has come to its end, as it should. How long
    there was none, in seconds."""
    await world.have_gateways()
    away = time.monotonic() - since
    await world.settle(life, since=since)
    told = None
    if life.terminal is not None and life.terminal.is_handing_off:
        outcome = await life.terminal.handed_off(STUCK)
        told = outcome.text if not outcome.error else None
    await judge(world, life, told)
    return away


async def _goes_on(world: World, life: Life) -> None:
    """The person writes on where the session is; if it stayed, it is handed off again."""
    if await world.is_here(life):
        if life.terminal is None:
            await world.take_back(life)
        await world.say_in_terminal(life)
        await judge(world, life)
        await world.aim(life)
        await world.hand_over(life)
    else:
        world.spare(life)
    await _says(world, life)


async def _says(world: World, life: Life) -> None:
    """The next answer knows all that was said: the oracle looks."""
    await world.say_in_chat(life)
    await world.settle(life)
    await judge(world, life)


async def judge(world: World, life: Life, told: str | None = None) -> None:
    broken = violations(await gather(world, life, told))
    assert not broken, "\n".join(broken)
