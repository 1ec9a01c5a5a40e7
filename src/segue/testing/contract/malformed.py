"""Malformed and oversized updates, derived from valid ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

Path = tuple[str | int, ...]

_JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 7, 2**63, -(2**70), 0.5, 1e308, "", " ", "0", "\0", "\u202e",
    "x" * 5000, [], [[]], [None], {}, {"": None}, {"id": {}}, [{"id": 1}],
)  # fmt: skip
_DEEP = 50_000
_LONG = 20_000
_KINDS = frozenset(
    ("type", "t", "msgtype", "subtype", "field", "object", "status", "mode", "command")
)
"""Fields that say what an update is. With another value, no adapter would look at the rest."""


@dataclass(frozen=True, slots=True)
class Specimen:
    """A valid update, and the fields that an adapter requires."""

    update: dict[str, Any]
    required: Sequence[Path]
    """If one of these is missing or has another type, the update is malformed."""


_DEEP_UPDATES = 200
"""Updates after which none is nested deeply. Those are large, so a few are enough."""


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
        if raw and number == _DEEP_UPDATES:
            ways = ways[:-1]
        way = ways[number % len(ways)]
        yield way(chance.choice(specimens), chance)


def oversized(specimen: Specimen, stand_ins: Mapping[object, str], serial: str) -> Iterator[str]:
    """Yield the specimen as JSON with texts of 20,000 characters, in one field at a time and in
    all at once. Those that identify the sender and the chat are exchanged for the `stand_ins`, and
    kept where all others are long. A number follows the text `serial`, which identifies the update;
    if it is empty, all updates are the same one."""
    update = _exchanged(specimen.update, stand_ins)
    texts = [path for path in _texts(update) if path[-1] not in _KINDS]
    others = [it for it in texts if _at(update, it) not in stand_ins.values()]
    for number, paths in enumerate((*([path] for path in texts), others)):
        numbered = _numbered(update, serial, f"{number}")
        yield _text(_lengthened(numbered, paths, "x" * _LONG, keep=False))
        numbered = _numbered(update, serial, f"{number}b")
        yield _text(_lengthened(numbered, paths, "9" * _LONG, keep=True))


def _numbered(update: Any, serial: str, number: str) -> Any:
    """The update with `number` after the text `serial`, if it has one."""
    return _exchanged(update, {serial: serial + number}) if serial else update


def _exchanged(value: Any, stand_ins: Mapping[object, str]) -> Any:
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        return {name: _exchanged(it, stand_ins) for name, it in found.items()}
    if isinstance(value, list | tuple):
        return [_exchanged(it, stand_ins) for it in cast("Sequence[Any]", value)]
    for old, new in stand_ins.items():
        if isinstance(value, str | int) and type(value) is type(old) and value == old:
            return type(value)(new)
    return value


def _texts(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of all texts."""
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        items = enumerate(cast("list[Any]", value))
    for name, it in items:
        yield from _texts(it, (*path, name))


def _lengthened(update: Any, paths: Iterable[Path], text: str, *, keep: bool) -> Any:
    """The update with `text` in these places, or with `text` after what is there."""
    update = deepcopy(update)
    for *parents, name in paths:
        parent = _at(update, parents)
        parent[name] = f"{parent[name]}{text}" if keep else text
    return update


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
