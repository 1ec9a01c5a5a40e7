"""The words of the stores that are built: titles and sentences, the same in every run."""

from __future__ import annotations

import random

SENTENCES = 2_048
TITLES = 40_000
COMMON = "the"
"""A word in almost every message."""
IN_TITLES = "garden"
"""A word in one of sixty titles."""

_FREQUENT = "the of and to in is that it for you was with on as are be this have from not"
_SYLLABLES = "ba co de fi gra hu jo ka li mo ne or pa qua ri sta tu vel wi xen yo zi lan mer nis"
_QUALITIES = """
old new quick quiet small large first last open spare
blue green early late warm cold plain second weekly broken
"""
_THINGS = f"""
{IN_TITLES} kitchen invoice server parser travel router budget birthday school
tax photo backup release login search recipe trip flat bicycle
letter contract insurance holiday printer network database report meeting roof
heating window translation calendar summary interview lecture script deploy test
driver import export migration cluster camera alarm playlist novel chapter
puzzle dinner museum ticket train hotel visa passport fence shed
"""
_PARTS = """
plan notes list draft fix question review idea check order
setup change schedule comparison estimate outline problem answer update log
map table route text error cost costs call visit repair choice style start end
"""


def titles() -> list[str]:
    """Different titles of sessions."""
    return [
        f"{quality} {thing} {part}"
        for part in _PARTS.split()
        for quality in _QUALITIES.split()
        for thing in _THINGS.split()
    ][:TITLES]


def sentences() -> list[str]:
    """Sentences with words as frequent as in a language: the rarer, the more of them."""
    chance = random.Random(0)
    syllables = _SYLLABLES.split()
    rare = ["".join(chance.choices(syllables, k=chance.randint(2, 4))) for _ in range(3_000)]
    words = [*_FREQUENT.split(), *rare]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    found: list[str] = []
    for _ in range(SENTENCES):
        chosen = chance.choices(words, weights, k=chance.randint(5, 13))
        chosen.insert(chance.randint(1, 4), COMMON)
        found.append(" ".join(chosen).capitalize() + ".")
    return found
