"""kill -9 of the gateway, of the terminal and of both, at every step of a handoff and of an answer.
After each of the rounds everything that the oracle knows holds."""

from __future__ import annotations

import pytest

from segue.testing.platform import Peer
from tests.crash.chapters import (
    SHORT,
    WITH_KEYS,
    WITHOUT_KEYS,
    Chapter,
    chapters,
    named,
    of_answers,
    of_chance,
    of_handoffs,
    of_odd_things,
    of_pieces,
)
from tests.crash.rounds import Victim
from tests.crash.world import Nursery

PROMISED = 240
SIZE = 6
"""Rounds in one test: it takes a sixth of the time that a test has, unless the machine is busy."""

SELECTED = [
    Chapter(
        "handoffs",
        WITH_KEYS,
        named(
            of_handoffs(*Victim),
            "a thread was opened: both is killed",
            "before the commit: the gateway is killed",
            "after the commit: both is killed",
        ),
    ),
    Chapter(
        "answers",
        WITH_KEYS,
        named(
            of_answers(),
            "the agent thinks",
            "the answer was sent",
            "the tool runs",
        ),
    ),
    Chapter("without keys", WITHOUT_KEYS, named(of_answers(), "the answer was sent")),
    Chapter("in pieces", SHORT, named(of_pieces(), "a piece is noted: the gateway is killed")),
]
"""A few of every kind, for `make test`; `make test-kill` plays all."""
CHAPTERS = [
    *chapters("handoffs", WITH_KEYS, of_handoffs(*Victim), SIZE),
    *chapters("handoffs without keys", WITHOUT_KEYS, of_handoffs(Victim.GATEWAY), SIZE),
    *chapters("handoffs in pieces", SHORT, of_pieces(), SIZE),
    *chapters("answers", WITH_KEYS, of_answers(), SIZE),
    *chapters("answers without keys", WITHOUT_KEYS, of_answers(), SIZE),
    *chapters("answers in pieces", SHORT, of_answers(2), SIZE),
    *chapters("odd things", WITH_KEYS, of_odd_things(), SIZE - 2),
]
"""Killed at every step."""
CHANCE = [
    *chapters("at random", WITH_KEYS, of_chance(8), SIZE - 2),
    *chapters("at random without keys", WITHOUT_KEYS, of_chance(4), SIZE - 2),
]
"""Killed at moments that nobody chose: also with the same seed never quite the same."""


def test_there_are_as_many_rounds_as_promised():
    assert sum(len(chapter.rounds) for chapter in CHAPTERS) >= PROMISED


@pytest.mark.parametrize("chapter", SELECTED, ids=lambda chapter: chapter.name)
async def test_nothing_is_lost_stuck_or_doubled(chapter: Chapter, peer: Peer, nursery: Nursery):
    await chapter.play(peer, nursery)


@pytest.mark.kill
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
async def test_nothing_is_lost_stuck_or_doubled_whoever_is_killed(
    chapter: Chapter, peer: Peer, nursery: Nursery, seed: int
):
    await chapter.play(peer, nursery, seed=seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("chapter", CHANCE, ids=lambda chapter: chapter.name)
async def test_nothing_is_lost_stuck_or_doubled_at_any_moment(
    chapter: Chapter, peer: Peer, nursery: Nursery, seed: int
):
    await chapter.play(peer, nursery, seed=seed)
