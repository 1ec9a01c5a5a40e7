"""kill -9 of the gateway, of the terminal and of both, at every step of a handoff and of an answer.
After each round, all invariants of the oracle hold."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.crash.chapters import (
    Chapter,
    chapters,
    named,
    of_answers,
    of_chance,
    of_doors,
    of_early_words,
    of_handoffs,
    of_odd_moves,
    of_odd_things,
    of_pieces,
    of_returns,
    of_storms,
    of_takeovers,
    of_turns_that_move,
    of_waiting_doors,
)
from tests.crash.conftest import Fakes
from tests.crash.rounds import Round, Victim
from tests.crash.world import Nursery
from tests.rigs import (
    DiscordRig,
    GenericRig,
    KeylessRig,
    ShortRig,
    SignalChatsRig,
    SlackRig,
    TelegramRig,
    WhatsAppRig,
)

PROMISED = 240
SIZE = 6
"""Rounds in one test: it takes a sixth of the time that a test has, unless the machine is busy."""


def whole(rounds: Sequence[Round]) -> Sequence[Round]:
    """Those that a platform without threads and edits can play."""
    lacking = ("a thread is being", "a thread was", "bubble", "answer in it")
    return [it for it in rounds if not any(words in it.name for words in lacking)]


SELECTED = [
    Chapter(
        "handoffs",
        GenericRig,
        named(
            of_handoffs(*Victim),
            "a thread was opened: both is killed",
            "before the commit: the gateway is killed",
            "after the commit: both is killed",
        ),
    ),
    Chapter(
        "answers",
        GenericRig,
        named(
            of_answers(),
            "the agent thinks",
            "the answer was sent",
            "the tool runs",
        ),
    ),
    Chapter(
        "turns that move",
        GenericRig,
        named(
            of_turns_that_move(*Victim),
            "mid-turn, before the commit: both is killed",
            "mid-turn, after the commit: the gateway is killed",
            "mid-turn, the tool runs there: the gateway is killed",
        ),
    ),
    Chapter("without keys", KeylessRig, named(of_answers(), "the answer was sent")),
    Chapter(
        "returns", GenericRig, named(of_returns(*Victim), "the return was sent: both is killed")
    ),
    Chapter("doors", GenericRig, named(of_doors(), "the session has come, free")),
    Chapter(
        "waiting doors",
        GenericRig,
        named(of_waiting_doors(), "the agent thinks, and a message waits at a door"),
    ),
    Chapter("in pieces", ShortRig, named(of_pieces(), "a piece is noted: the gateway is killed")),
]
"""A few of every kind, for `make test`; `make test-kill` plays all."""
UNTHREADED = [one for one in of_handoffs(Victim.GATEWAY) if "thread" not in one.name]
CHAPTERS = [
    *chapters("handoffs", GenericRig, of_handoffs(*Victim), SIZE),
    *chapters("handoffs without keys", KeylessRig, of_handoffs(Victim.GATEWAY), SIZE),
    *chapters("doors", GenericRig, of_doors(), SIZE),
    *chapters("doors on Telegram", TelegramRig, of_doors(), SIZE),
    *chapters("waiting doors", GenericRig, of_waiting_doors(), SIZE),
    *chapters("waiting doors on Telegram", TelegramRig, of_waiting_doors(), SIZE),
    *chapters("waiting doors on Slack", SlackRig, of_waiting_doors(), SIZE),
    *chapters("returns", GenericRig, of_returns(Victim.GATEWAY, Victim.BOTH), SIZE),
    *chapters("returns on Telegram", TelegramRig, of_returns(Victim.GATEWAY), SIZE),
    *chapters("handoffs in pieces", ShortRig, of_pieces(), SIZE),
    *chapters("turns that move", GenericRig, of_turns_that_move(*Victim), SIZE),
    *chapters("odd moves", GenericRig, of_odd_moves(), SIZE - 2),
    *chapters("early words", GenericRig, of_early_words(), SIZE),
    *chapters("early words on Telegram", TelegramRig, of_early_words(), SIZE),
    *chapters("take-overs", GenericRig, of_takeovers(), SIZE),
    *chapters("take-overs on Telegram", TelegramRig, of_takeovers(), SIZE),
    *chapters("turns that move without keys", KeylessRig, of_turns_that_move(Victim.GATEWAY), SIZE),
    *chapters("turns that move on Telegram", TelegramRig, of_turns_that_move(Victim.GATEWAY), SIZE),
    *chapters("answers", GenericRig, of_answers(), SIZE),
    *chapters("answers without keys", KeylessRig, of_answers(), SIZE),
    *chapters("answers in pieces", ShortRig, of_answers(2), SIZE),
    *chapters("handoffs on Telegram", TelegramRig, of_handoffs(Victim.GATEWAY), SIZE),
    *chapters("answers on Telegram", TelegramRig, of_answers(3), SIZE),
    *chapters("handoffs on Discord", DiscordRig, of_handoffs(Victim.GATEWAY), SIZE),
    *chapters("answers on Discord", DiscordRig, of_answers(3), SIZE),
    *chapters("doors on Discord", DiscordRig, of_doors(), SIZE),
    *chapters("returns on Discord", DiscordRig, of_returns(Victim.GATEWAY), SIZE),
    *chapters("handoffs on Slack", SlackRig, of_handoffs(Victim.GATEWAY), SIZE),
    *chapters("doors on Slack", SlackRig, of_doors(), SIZE),
    *chapters("returns on Slack", SlackRig, of_returns(Victim.GATEWAY), SIZE),
    *chapters("turns that move on Slack", SlackRig, of_turns_that_move(Victim.GATEWAY), SIZE),
    *chapters("answers on Slack", SlackRig, of_answers(3), SIZE),
    *chapters("handoffs on Signal", SignalChatsRig, UNTHREADED, SIZE),
    *chapters("answers on Signal", SignalChatsRig, of_answers(3), SIZE),
    *chapters("handoffs on WhatsApp", WhatsAppRig, whole(of_handoffs(Victim.GATEWAY)), SIZE),
    *chapters("answers on WhatsApp", WhatsAppRig, whole(of_answers(3)), SIZE),
    *chapters("odd things", GenericRig, of_odd_things(), SIZE - 2),
    *chapters("storms", GenericRig, of_storms(1), 1),
    *chapters("storms without keys", KeylessRig, of_storms(1), 1),
    *chapters("storms on Telegram", TelegramRig, of_storms(2), 1),
    *chapters("storms on Discord", DiscordRig, of_storms(1), 1),
    *chapters("storms on Slack", SlackRig, of_storms(1), 1),
    *chapters("storms on WhatsApp", WhatsAppRig, of_storms(1), 1),
]
"""Kills at every step, and repeated kills in the storms."""


def brief() -> set[str]:
    """The names of the chapters that `make test-kill` plays: the first of each kind, and all that
    have a round that none before them had. `make test-long` plays the others.
    """
    played: set[str] = set()
    found: set[str] = set()
    for chapter in CHAPTERS:
        rounds = {one.name for one in chapter.rounds}
        if chapter.name.endswith(" 1") or not rounds <= played:
            found.add(chapter.name)
            played |= rounds
    return found


BRIEF = brief()
CHANCE = [
    *chapters("at random", GenericRig, of_chance(8), SIZE - 2),
    *chapters("at random without keys", KeylessRig, of_chance(4), SIZE - 2),
]
"""Kills at random moments, which differ slightly even with the same seed."""


def test_every_step_is_played_without_the_long_rounds():
    steps = {one.name for chapter in CHAPTERS for one in chapter.rounds}
    played = {one.name for it in CHAPTERS if it.name in BRIEF for one in it.rounds}
    assert played == steps


def test_there_are_enough_rounds():
    assert sum(len(chapter.rounds) for chapter in CHAPTERS) >= PROMISED


@pytest.mark.parametrize("chapter", SELECTED, ids=lambda chapter: chapter.name)
async def test_nothing_is_lost_stuck_or_duplicated(
    chapter: Chapter, fakes: Fakes, nursery: Nursery
):
    await chapter.play(fakes.of(chapter.rig), nursery)


@pytest.mark.kill
@pytest.mark.parametrize(
    "chapter",
    [
        pytest.param(one, id=one.name, marks=() if one.name in BRIEF else pytest.mark.long)
        for one in CHAPTERS
    ],
)
async def test_nothing_is_lost_stuck_or_duplicated_at_every_step(
    chapter: Chapter, fakes: Fakes, nursery: Nursery, seed: int
):
    await chapter.play(fakes.of(chapter.rig), nursery, seed=seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("chapter", CHANCE, ids=lambda chapter: chapter.name)
async def test_nothing_is_lost_stuck_or_duplicated_at_any_moment(
    chapter: Chapter, fakes: Fakes, nursery: Nursery, seed: int
):
    await chapter.play(fakes.of(chapter.rig), nursery, seed=seed)
