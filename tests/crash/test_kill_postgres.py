"""The same on PostgreSQL, where another gateway stands by and takes over as soon as the server has
freed the lock of the first one."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from tests.crash.chapters import (
    Chapter,
    of_answers,
    of_chance,
    of_doors,
    of_early_words,
    of_handoffs,
    of_odd_moves,
    of_returns,
    of_takeovers,
    of_turns_that_move,
)
from tests.crash.rounds import Victim
from tests.crash.world import Nursery
from tests.fakes import postgres
from tests.harness.fakes import forked
from tests.rigs import GenericRig

KINDS = [
    of_handoffs(Victim.GATEWAY),
    of_answers(),
    of_handoffs(Victim.BOTH)[::8],
    of_turns_that_move(*Victim)[::2],
    of_odd_moves()[::2],
    of_early_words()[::3],
    of_takeovers(),
    of_returns(Victim.GATEWAY)[::3],
    of_doors()[::2],
    of_chance(3),
]
ROUNDS = [one for kind in KINDS for one in kind]
WORLDS = 5
"""Worlds that run at once, since most of their time is spent waiting for the next poll. The tests
run one after the other: more worlds would only delay each other."""
TESTS = 10
BRIEF = (0, 3, 6, 9)
"""The tests of `make test-real`, with rounds of every kind; `make test-long` runs the others."""


def share(test: int, place: int) -> Chapter:
    rounds = ROUNDS[place * TESTS + test :: TESTS * WORLDS]
    return Chapter(f"on PostgreSQL {test} {place}", GenericRig, tuple(rounds))


def test_every_round_is_played():
    chapters = [share(test, place) for test in range(TESTS) for place in range(WORLDS)]
    assert sorted(r.name for c in chapters for r in c.rounds) == sorted(r.name for r in ROUNDS)
    assert len(ROUNDS) >= 130


def test_every_kind_is_played_without_the_long_rounds():
    chapters = [share(test, place) for test in BRIEF for place in range(WORLDS)]
    played = {id(one) for chapter in chapters for one in chapter.rounds}
    assert all(any(id(one) in played for one in kind) for kind in KINDS)


@pytest.mark.real
@pytest.mark.parametrize(
    "test", [pytest.param(n, marks=() if n in BRIEF else pytest.mark.long) for n in range(TESTS)]
)
async def test_nothing_is_lost_stuck_or_duplicated_when_another_gateway_takes_over(
    test: int, nursery: Nursery, postgres_server: postgres.Server
):
    async def play(chapter: Chapter) -> None:
        # In threads: while one world waits for its platform to start, the others have time limits.
        stack = ExitStack()
        try:
            peer = await asyncio.to_thread(stack.enter_context, forked(GenericRig.fake))
            url = await asyncio.to_thread(stack.enter_context, postgres_server.database())
            await chapter.play(peer, nursery, url)
        finally:
            await asyncio.to_thread(stack.close)

    async with asyncio.TaskGroup() as group:
        for place in range(WORLDS):
            group.create_task(play(share(test, place)))
