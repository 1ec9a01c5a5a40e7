"""Rounds: work is in progress, a process is killed with SIGKILL, and the work must continue."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from segue.handoffs.queries import CLAIM_SECONDS
from segue.handoffs.request import CLAIM_TIMEOUT
from segue.handoffs.values import State
from segue.testing.contract.rig import Act
from segue.testing.peers import Trouble
from tests.crash.history import gather
from tests.crash.oracle import violations
from tests.crash.points import SHOWN, Between, Moment, Point
from tests.crash.world import STUCK, WITHIN, Life, World, until
from tests.rigs import Message

_SLOW = 0.3
"""Seconds by which the platform sometimes delays a gateway's connection."""
_RANDOM = 0.4
"""The maximum delay in seconds before a random kill."""
_CALLS = 10
"""The maximum number of calls to the platform in the life of a gateway in a storm."""
_SOON = 0.03
"""The maximum delay in seconds after such a call."""
_AT_START = 0.2
"""The probability that a gateway is killed as it starts, and the seconds within which."""
_MID_TURN = 0.5
"""The probability that a session is handed off in the middle of a turn."""
_GIVES_UP = 0.3
"""The probability that the user goes on in the terminal after a failed handoff."""


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
        """Run the round. Raises AssertionError, with the full story, if an invariant is violated.

        `more` is added to the seed.
        """
        seed = self.seed + more
        world.story.tell(f"— {self.name}, seed {seed}")
        try:
            await self.play(world, random.Random(f"{self.name} {seed}"))
        except AssertionError as error:
            raise AssertionError(
                f"{self.name}, seed {seed}:\n{error}\n\n{world.story}\n\n{world.told()}"
            ) from error


# Handoffs


def handing_off(moment: Moment, victim: Victim, *, threaded: bool = False) -> Play:
    """Kill a process in the middle of a handoff."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(world.rig.threaded if threaded else world.rig.kinds))
        arrival = life.arrival
        async with moment.point.at(world, life, _begins(world, life)):
            await _is_asked(world, life, moment)
            _is_answered(life, arrival, moment)
            since = await _kill(world, life, victim, rng)
        away = await _comes_back(world, since, life)
        if world.rig.keys:
            await _was_carried_out(world, life, away)
        await _goes_on(world, life)

    return play


def leaving(moment: Moment, victim: Victim, *, late: bool = False, ahead: bool = False) -> Play:
    """Kill a process while the session is handed off in the middle of a turn, before its tool call
    or after it (`late`), and possibly after the user wrote in the thread `ahead` of it."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(world.rig.threaded))
        word = world.next_word
        async with moment.point.at(world, life, _moves_on(world, life, late=late)):
            await _is_asked(world, life, moment)
            if ahead:
                await world.say_in_chat(life)
                await world.rig.confirmed()
            _is_answered(life, word, moment)
            since = await _kill(world, life, victim, rng)
        await _comes_back(world, since, life)
        await _goes_on(world, life)

    return play


def leaving_in_vain(moment: Moment, *, late: bool = False) -> Play:
    """Kill every gateway that claims a handoff in the middle of a turn. The terminal must continue
    the turn."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(world.rig.threaded))
        act = _moves_on(world, life, late=late)
        since = time.monotonic()
        for _ in range(3):
            async with moment.point.at(world, life, act):
                since = await _kill(world, life, Victim.GATEWAY, rng)
            act = world.have_gateways
        told = await life.desk.handed_off(STUCK)
        assert told.text == "Failed"
        await _comes_back(world, since, life)
        assert await world.is_here(life)
        await _goes_on(world, life)

    return play


def returning(moment: Moment, victim: Victim) -> Play:
    """Kill a process in the middle of a handoff of a session that has a thread there."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(world.rig.threaded))
        await world.hand_over(life)
        await world.take_back(life)
        await world.settle(life)
        await world.say_in_terminal(life)
        arrival = life.arrival
        async with moment.point.at(world, life, _begins(world, life)):
            _is_answered(life, arrival, moment)
            since = await _kill(world, life, victim, rng)
        away = await _comes_back(world, since, life)
        if world.rig.keys:
            await _was_carried_out(world, life, away)
        await _goes_on(world, life)
        assert len((await world.rig.look(life.chat)).threads) == 1

    return play


async def _was_carried_out(world: World, life: Life, away: float) -> None:
    """Check that the next gateway finished the handoff, if it started in time."""
    latest = await world.latest(life)
    assert latest is not None
    patience = CLAIM_SECONDS if latest.attempt else CLAIM_TIMEOUT
    if latest.state is not State.COMPLETED and away < patience - 1:
        raise AssertionError(f"a gateway was back after {away:.1f} s, and yet: {latest.error}")


def handing_off_in_vain(moment: Moment) -> Play:
    """Kill every gateway that claims the handoff. It must fail in the end."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(world.rig.threaded))
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
    """Kill both processes. The user takes the session back before a new gateway starts."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(world.rig.threaded))
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
    """Kill the gateway after the user wrote in the thread before the session arrived there.

    The message must be answered after the arrival.
    """

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(world.rig.threaded))
        arrival = life.arrival
        async with moment.point.at(world, life, _begins(world, life)):
            for _ in range(2):
                await world.say_in_chat(life)
            await world.rig.confirmed()
            _is_answered(life, arrival, moment)
            since = await _kill(world, life, Victim.GATEWAY, rng)
        await _comes_back(world, since, life)
        await _goes_on(world, life)

    return play


def asking(point: Between, victim: Victim) -> Play:
    """Kill a process while the terminal requests the handoff."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(world.rig.kinds))
        async with point.at(world, life, _begins(world, life)):
            since = await _kill(world, life, victim, rng)
        await _comes_back(world, since, life)
        await _goes_on(world, life)

    return play


# Answers


def answering(moment: Moment, *, task: bool = False, more: int = 0, grows: bool = False) -> Play:
    """Kill the gateway while it answers a message, which `grows` in the chat."""

    async def play(world: World, rng: random.Random) -> None:
        kinds = [kind for kind in world.rig.kinds if not (grows and kind.drafts)]
        life = await world.begin(rng.choice(kinds))
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


def entering(moment: Moment, *, asks: bool = False) -> Play:
    """Kill the gateway while a message brings a session back to its thread.

    If the chat `asks` first, because a terminal has the session open, both are killed then too.
    """

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(world.rig.threaded))
        await world.hand_over(life)
        await world.take_back(life)
        await world.settle(life)
        if not asks:
            await world.kill_terminal(life)
        word = world.next_word

        async def act() -> None:
            await world.say_in_chat(life)
            if asks:
                await world.rig.until(lambda view: any(m.labels for m in view.messages), life.chat)
                await world.kill_gateway()
                await world.kill_terminal(life)
                await world.have_gateways()

        async with moment.point.at(world, life, act):
            _is_answered(life, word, moment)
            since = await _kill(world, life, Victim.GATEWAY, rng)
        life.taken_back = False
        await _comes_back(world, since, life)
        await _says(world, life)

    return play


def waiting_at_a_door(moment: Moment) -> Play:
    """Kill the gateway while it answers in the chat itself, and a message waits in the session's
    thread. Each gets its answer in its own place, in this order."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(world.rig.dm)
        await world.hand_over(life)
        await world.bring_to_chat(life)
        first = world.next_word

        async def act() -> None:
            await world.say_in_chat(life, in_thread=False)

        async with moment.point.at(world, life, act):
            second = await world.say_in_chat(life)
            await world.rig.until(lambda view: any(_asks(m) for m in view.messages), life.chat)
            _is_answered(life, first, moment)
            since = await _kill(world, life, Victim.GATEWAY, rng)
        life.resumes += 1
        await _comes_back(world, since, life)
        thread = await world.thread(life)
        answers = [m for m in (await world.rig.look(life.chat)).messages if m.author != life.user]
        places = {m.text.split()[-1].strip("."): m.thread for m in answers if "heard" in m.text}
        assert places[first] is None, f"{first} was answered in {places[first]}"
        assert places[second] == thread, f"{second} was answered in {places[second]}"
        await _says(world, life)

    return play


def _asks(message: Message) -> bool:
    """Whether the message asks where the session is to continue."""
    return "Bring it here" in message.labels


def taking_back(point: Between, victim: Victim) -> Play:
    """Kill a process while a session returns to a terminal."""

    async def play(world: World, rng: random.Random) -> None:
        life = await world.begin(rng.choice(world.rig.kinds))
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


def taking_over(point: Point, victim: Victim) -> Play:
    """Kill a process while a terminal takes a session in the middle of an answer, which the chat
    shows."""

    async def play(world: World, rng: random.Random) -> None:
        kinds = [kind for kind in world.rig.kinds if not kind.drafts]
        life = await world.begin(rng.choice(kinds))
        await world.hand_over(life)
        taking: list[asyncio.Task[None]] = []

        async def say() -> None:
            await world.say_in_chat(life)

        async def take() -> None:
            life.cut_off.add(life.words[-1])
            life.terminal = await world.terminal()
            taking.append(asyncio.create_task(world.take_back(life, now=True)))

        async with SHOWN.at(world, life, say), point.at(world, life, take):
            since = await _kill(world, life, victim, rng)
        await asyncio.wait(taking)
        if taking[0].exception():
            await world.take_back(life, now=True)
        life.resumes, life.taken_back = 1, True
        await _comes_back(world, since, life)
        await world.say_in_terminal(life)
        await judge(world, life)
        await world.hand_over(life)
        await _says(world, life)

    return play


# Random kills


def at_random(lives: int = 3) -> Play:
    """Several conversations at once, each busy, and a kill at a random moment."""

    async def play(world: World, rng: random.Random) -> None:
        kinds = [rng.choice(world.rig.kinds) for _ in range(lives)]
        every = [await world.begin(kind, said=1) for kind in kinds]
        threaded = [life for life, kind in zip(every, kinds, strict=True) if kind.threads]
        there = rng.sample(every, rng.randint(0, lives - 1))
        for life in there:
            await world.aim(life)
            await world.hand_over(life)
        moving = [life for life in threaded if life not in there and rng.random() < _MID_TURN]
        busy = [
            asyncio.create_task(_does(world, life, rng, life in there, life in moving))
            for life in every
        ]
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


async def _does(
    world: World, life: Life, rng: random.Random, is_there: bool, is_moving: bool
) -> None:
    await asyncio.sleep(rng.uniform(0.0, _RANDOM / 2))
    if is_there:
        await world.say_in_chat(life, task=rng.random() < 0.3)
    elif is_moving:
        await world.ask(life, partial(world.begin_move, late=rng.random() < 0.5))
    else:
        await world.ask(life)


def storm(lives: int = 6) -> Play:
    """Several conversations are handed off at once, while one gateway after another is killed."""

    async def play(world: World, rng: random.Random) -> None:
        every = [await world.begin(rng.choice(world.rig.kinds), said=1) for _ in range(lives)]
        killing = asyncio.create_task(_kills(world, rng))
        await asyncio.gather(*(_moves(world, life, rng) for life in every))
        killing.cancel()
        await asyncio.wait({killing})
        assert killing.cancelled(), killing.exception()
        while world.kills < lives // 2:  # a fast machine has finished early
            await world.have_gateways()
            await world.kill_gateway()
        since = time.monotonic()
        for life in every:
            await _comes_back(world, since, life)
        for life in every:
            await _goes_on(world, life)

    return play


async def _kills(world: World, rng: random.Random) -> None:
    """Kill each gateway after a random number of calls to the platform, or as it starts."""
    while True:
        if rng.random() < _AT_START:
            await asyncio.sleep(rng.uniform(0.0, _AT_START))
        else:
            await world.have_gateways()
            last = (await world.rig.look()).version + rng.randint(1, _CALLS)
            await world.rig.until(lambda view, last=last: view.version >= last)
            await asyncio.sleep(rng.uniform(0.0, _SOON))
        await world.kill_gateway()
        await world.start_gateway()


async def _moves(world: World, life: Life, rng: random.Random) -> None:
    """Hand the session off, again and again until it succeeds or the user has enough of it."""
    while True:
        await world.ask(life)
        told = await life.desk.handed_off(STUCK)
        if told.text == "Completed":
            world.spare(life)
            await world.say_in_chat(life)
            return
        if told.text == "Failed" and rng.random() < _GIVES_UP:
            await world.say_in_terminal(life)
            return


# Steps


def _begins(world: World, life: Life) -> Callable[[], Awaitable[None]]:
    async def act() -> None:
        world.begin_handoff(life)

    return act


def _moves_on(world: World, life: Life, *, late: bool) -> Callable[[], Awaitable[None]]:
    async def act() -> None:
        world.begin_move(life, late=late)

    return act


async def _is_asked(world: World, life: Life, moment: Moment) -> None:
    """Wait for the handoff, if the point can be reached before it."""

    async def is_asked() -> bool:
        return not moment.polled or await world.latest(life) is not None

    await until(is_asked, "the handoff is asked for", WITHIN)


def _is_answered(life: Life, about: str, moment: Moment) -> None:
    """If the answer is recorded at this point, the model must not be asked again."""
    if moment.kept:
        life.unanswered.discard(about)


async def _kill(world: World, life: Life, victim: Victim, rng: random.Random) -> float:
    """Kill the victim and return the time."""
    since = time.monotonic()
    if victim is not Victim.TERMINAL:
        await world.kill_gateway()
        if rng.random() < 0.3:
            await world.rig.fail(Act.CONNECT, Trouble.DELAY, seconds=_SLOW)
    if victim is not Victim.GATEWAY:
        await world.kill_terminal(life)
    return since


async def _comes_back(world: World, since: float, life: Life) -> float:
    """Start gateways again, wait until the conversation settles, and check it.

    Return for how many seconds there was no gateway.
    """
    await world.have_gateways()
    away = time.monotonic() - since
    await world.settle(life, since=since)
    await world.forget_unheard(life)
    told = None
    if life.terminal is not None and life.terminal.is_handing_off:
        outcome = await life.terminal.handed_off(STUCK)
        told = outcome.text if not outcome.error else None
    await judge(world, life, told)
    return away


async def _goes_on(world: World, life: Life) -> None:
    """The user continues where the session is. If it did not move, it is handed off again."""
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
    """The user writes in the chat, and the oracle checks that the answer knows everything said."""
    await world.say_in_chat(life)
    await world.settle(life)
    await judge(world, life)


async def judge(world: World, life: Life, told: str | None = None) -> None:
    broken = violations(await gather(world, life, told))
    assert not broken, "\n".join(broken)
