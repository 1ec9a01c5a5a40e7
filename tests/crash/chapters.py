"""All rounds, grouped into chapters. Each chapter runs in one world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from segue.testing.peers import Peer
from tests.crash.points import (
    AFTER_A_TOOL,
    ANSWERING,
    ENTERING,
    GOING_ON,
    HANDING_OFF,
    IN_PIECES,
    LEFT_BEHIND,
    MID_TURN,
    RETURNING,
    SHOWN_AS_IT_COMES,
    TAKING,
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
    entering,
    handing_off,
    handing_off_in_vain,
    leaving,
    leaving_in_vain,
    returning,
    storm,
    taking_back,
    taking_over,
    waiting_at_a_door,
    writing_ahead,
)
from tests.crash.world import Nursery, world
from tests.rigs import PlatformRig

_REQUEST = Between("handoffs.request")
_TAKE = Between("runner._take")
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


def of_turns_that_move(*victims: Victim) -> list[Round]:
    """Rounds in which a session is handed off in the middle of a turn."""
    return [
        *(
            Round(f"mid-turn, {name}: {victim} is killed", leaving(moment, victim))
            for name, moment in MID_TURN.items()
            for victim in victims
        ),
        *(
            Round(f"mid-turn, {name}: the gateway is killed", leaving(moment, Victim.GATEWAY))
            for name, moment in GOING_ON.items()
        ),
        *(
            Round(f"mid-turn, {name}: {victim} is killed", leaving(moment, victim, late=True))
            for name, moment in AFTER_A_TOOL.items()
            for victim in victims
        ),
    ]


def of_odd_moves() -> list[Round]:
    """Rounds for less common events around a handoff in the middle of a turn."""
    plays: dict[str, Play] = {}
    for name in ("claimed", "the recap was sent", "before the commit"):
        plays[f"mid-turn, {name}, three times"] = leaving_in_vain(MID_TURN[name])
    name = "before the commit then"
    plays[f"mid-turn, {name}, three times"] = leaving_in_vain(AFTER_A_TOOL[name], late=True)
    return [Round(name, play) for name, play in plays.items()]


def of_early_words() -> list[Round]:
    """Rounds in which the user writes in the thread before the session arrives there."""
    ahead = (
        "the thread is kept", "the agent replies", "the reply is kept", "the recap was sent",
        "before the commit", "after the commit",
    )  # fmt: skip
    plays: dict[str, Play] = {}
    for name in ahead:
        plays[f"{name}, and the person writes already"] = writing_ahead(HANDING_OFF[name])
    moments = {name: MID_TURN[name] for name in ahead if name in MID_TURN}
    for name, moment in {**moments, "the tool runs there": GOING_ON["the tool runs there"]}.items():
        play = leaving(moment, Victim.GATEWAY, ahead=True)
        plays[f"mid-turn, {name}, and the person writes already"] = play
    return [Round(name, play) for name, play in plays.items()]


def of_takeovers() -> list[Round]:
    """Rounds in which a terminal takes a session in the middle of an answer."""
    return [
        *(
            Round(f"mid-answer, {name}: {victim} is killed", taking_over(point, victim))
            for name, point in TAKING.items()
            for victim in Victim
        ),
        *(
            Round(f"mid-answer, {name}: the gateway is killed", taking_over(point, Victim.GATEWAY))
            for name, point in LEFT_BEHIND.items()
        ),
    ]


def of_returns(*victims: Victim) -> list[Round]:
    """Rounds in which a session returns to the thread that it has."""
    return [
        Round(f"{name}: {victim} is killed", returning(moment, victim))
        for name, moment in RETURNING.items()
        for victim in victims
    ]


def of_doors() -> list[Round]:
    """Rounds in which a message in its thread brings a session back."""
    free = [Round(f"{name}, free", entering(moment)) for name, moment in ENTERING.items()]
    held = [
        Round(f"{name}, after the question", entering(ANSWERING[name], asks=True))
        for name in ("it is taken", "the agent thinks", "the answer was sent")
    ]
    return [*free, *held]


def of_waiting_doors() -> list[Round]:
    """Rounds in which a message waits in the thread of a session that works elsewhere."""
    names = ("it is taken", "the agent thinks", "the answer is queued")
    return [
        Round(f"{name}, and a message waits at a door", waiting_at_a_door(ANSWERING[name]))
        for name in names
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
    first = ("claimed", "the thread is kept", "the reply is kept", "the recap was sent")
    plays: dict[str, Play] = {}
    for name in vain:
        plays[f"{name}, three times"] = handing_off_in_vain(HANDING_OFF[name])
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
