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
    of_answers,
    of_chance,
    of_handoffs,
    of_odd_things,
    of_pieces,
)
from tests.crash.rounds import Victim
from tests.crash.world import Nursery

PROMISED = 300
SIZE = 6
"""Rounds in one test: it takes a sixth of the time that a test has, unless the machine is busy."""

CHAPTERS = [
    *chapters("handoffs", WITH_KEYS, of_handoffs(*Victim), SIZE),
    *chapters("handoffs without keys", WITHOUT_KEYS, of_handoffs(Victim.GATEWAY), SIZE),
    *chapters("handoffs in pieces", SHORT, of_pieces(), SIZE),
    *chapters("answers", WITH_KEYS, of_answers(), SIZE),
    *chapters("answers without keys", WITHOUT_KEYS, of_answers(), SIZE),
    *chapters("answers in pieces", SHORT, of_answers(2), SIZE),
    *chapters("odd things", WITH_KEYS, of_odd_things(), SIZE - 2),
    *chapters("at random", WITH_KEYS, of_chance(40), SIZE - 2),
    *chapters("at random without keys", WITHOUT_KEYS, of_chance(20), SIZE - 2),
]


def test_there_are_as_many_rounds_as_promised():
    assert sum(len(chapter.rounds) for chapter in CHAPTERS) >= PROMISED


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
async def test_nothing_is_lost_stuck_or_doubled_whoever_is_killed(
    chapter: Chapter, peer: Peer, nursery: Nursery
):
    await chapter.play(peer, nursery)
