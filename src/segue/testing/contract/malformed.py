"""Malformed updates, derived from valid ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]

_JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 7, 2**63, -(2**70), 0.5, 1e308, "", " ", "0", "\0", "\u202e",
    "x" * 5000, [], [[]], [None], {}, {"": None}, {"id": {}}, [{"id": 1}],
)  # fmt: skip
_DEEP = 50_000


@dataclass(frozen=True, slots=True)
class Specimen:
    """A valid update, and the fields that an adapter requires."""

    update: dict[str, Any]
    required: Sequence[Path]
    """If one of these is missing or has another type, the update is malformed."""


def broken(
    specimens: Sequence[Specimen], count: int, seed: int, *, raw: bool = True
) -> Iterator[str]:
    """Yield `count` malformed updates as JSON and, if `raw`, as text that no JSON library reads.

    The same every time.
    """
    chance = random.Random(seed)
    ways = (_without, _mistyped, _mistyped, _mistyped)
    if raw:
        ways = (*ways, _cut, _scrambled, _another, _deep)
    for number in range(count):
        # Deeply nested updates are large, so a few are enough.
        way = ways[number % (len(ways) if number < 200 or not raw else len(ways) - 1)]
        yield way(chance.choice(specimens), chance)


def _without(specimen: Specimen, chance: random.Random) -> str:
    update = deepcopy(specimen.update)
    *parents, name = chance.choice(specimen.required)
    del _at(update, parents)[name]
    return _text(update)


def _mistyped(specimen: Specimen, chance: random.Random) -> str:
    update = deepcopy(specimen.update)
    *parents, name = chance.choice(specimen.required)
    parent = _at(update, parents)
    kind = _kind(parent[name])
    parent[name] = chance.choice([junk for junk in _JUNK if _kind(junk) != kind])
    return _text(update)


def _cut(specimen: Specimen, chance: random.Random) -> str:
    text = _text(specimen.update)
    return text[: chance.randrange(len(text))]


def _scrambled(specimen: Specimen, chance: random.Random) -> str:
    text = _text(specimen.update)
    at = chance.randrange(1, len(text))
    return text[at:] + chance.choice(("", "}", "\0", "\ufeff", "é", '"')) + text[:at]


def _another(_: Specimen, chance: random.Random) -> str:
    return _text(chance.choice(_JUNK))


def _deep(specimen: Specimen, chance: random.Random) -> str:
    """Deeply nested in an unused field, and malformed after that."""
    update = {"more": "@", **deepcopy(specimen.update)}
    *parents, name = chance.choice(specimen.required)
    del _at(update, parents)[name]
    begin, end = chance.choice((("[", "]"), ('{"a":', "}")))
    return _text(update).replace('"@"', begin * _DEEP + "1" + end * _DEEP)


def _at(update: Any, path: Sequence[str | int]) -> Any:
    for name in path:
        update = update[name]
    return update


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case _:
            return type(value).__name__


def _text(value: Any) -> str:
    return json.dumps(value)
