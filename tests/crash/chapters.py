"""All rounds, grouped into chapters. Each chapter runs in one world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from segue.testing.peers import Peer
from tests.crash.points import (
    ANSWERING,
    HANDING_OFF,
    IN_PIECES,
    SHOWN_AS_IT_COMES,
    WITH_A_TOOL,
    Between,
)
from tests.crash.rounds import (
    Play,
    Round,
    Victim,
    answering,
    asking,
    at_random,
    coming_back_first,
    handing_off,
    handing_off_in_vain,
    storm,
    taking_back,
    writing_ahead,
)
from tests.crash.world import Nursery, world
from tests.harness.rigs import PlatformRig

_REQUEST = Between("handoffs.request")
_TAKE = Between("hold._take")
_AFTER = {False: "before", True: "after"}


@dataclass(frozen=True)
class Chapter:
    name: str
    rig: type[PlatformRig]
    rounds: tuple[Round, ...]

    async def play(
        self, peer: Peer, nursery: Nursery, url: str | None = None, *, seed: int = 0
    ) -> None:
        async with world(self.rig, peer, nursery, url) as here:
            for one in self.rounds:
                await one.run(here, seed)


def named(rounds: Sequence[Round], *names: str) -> tuple[Round, ...]:
    """The rounds with these names."""
    by_name = {one.name: one for one in rounds}
    return tuple(by_name[name] for name in names)


def chapters(
    name: str, rig: type[PlatformRig], rounds: Sequence[Round], size: int
) -> list[Chapter]:
    """Chapters of at most `size` rounds."""
    starts = range(0, len(rounds), size)
    return [
        Chapter(f"{name} {n}", rig, tuple(rounds[s : s + size])) for n, s in enumerate(starts, 1)
    ]


def of_handoffs(*victims: Victim) -> list[Round]:
    return [
        Round(f"{name}: {victim} is killed", handing_off(moment, victim, threaded="thread" in name))
        for name, moment in HANDING_OFF.items()
        for victim in victims
    ]


def of_pieces() -> list[Round]:
    """Rounds in which the first messages of a handoff are too long for one message."""
    late = list(HANDING_OFF).index("the recap is queued")
    moments = {**dict(list(HANDING_OFF.items())[late:]), **IN_PIECES}
    return [
        Round(f"{name}: {victim} is killed", handing_off(moment, victim))
        for name, moment in moments.items()
        for victim in (Victim.GATEWAY, Victim.BOTH)
    ]


def of_answers(seed: int = 1) -> list[Round]:
    return [
        *(Round(name, answering(moment), seed) for name, moment in ANSWERING.items()),
        *(
            Round(name, answering(moment, grows=True), seed)
            for name, moment in SHOWN_AS_IT_COMES.items()
        ),
        *(Round(name, answering(moment, task=True), seed) for name, moment in WITH_A_TOOL.items()),
    ]


def of_odd_things() -> list[Round]:
    """Rounds for less common events around a handoff."""
    vain = ("claimed", "the agent replies", "the recap was sent", "before the commit")
    ahead = (
        "the thread is kept", "the agent replies", "the reply is kept", "the recap was sent",
        "before the commit", "after the commit",
    )  # fmt: skip
    first = ("claimed", "the thread is kept", "the reply is kept", "the recap was sent")
    plays: dict[str, Play] = {}
    for name in vain:
        plays[f"{name}, three times"] = handing_off_in_vain(HANDING_OFF[name])
    for name in ahead:
        plays[f"{name}, and the person writes already"] = writing_ahead(HANDING_OFF[name])
    for name in first:
        plays[f"{name}, and the terminal is first"] = coming_back_first(HANDING_OFF[name])
    for name in ("it is taken", "the agent thinks", "the answer was sent"):
        plays[f"{name}, and more is written"] = answering(ANSWERING[name], more=2)
    for after in (False, True):
        for victim in Victim:
            name = f"{_AFTER[after]} the request: {victim} is killed"
            plays[name] = asking(Between(_REQUEST.work, after=after), victim)
            name = f"{_AFTER[after]} it is taken back: {victim} is killed"
            plays[name] = taking_back(Between(_TAKE.work, after=after), victim)
    return [Round(name, play) for name, play in plays.items()]


def of_chance(count: int) -> list[Round]:
    return [Round("at random", at_random(), seed) for seed in range(1, count + 1)]


def of_storms(count: int) -> list[Round]:
    return [Round("a storm", storm(), seed) for seed in range(1, count + 1)]
