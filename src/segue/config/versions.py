"""Settings files of other versions: renamed settings, and settings that only a newer one knows.

Each write records the version in the last line of the file, as a comment: every version can read
that, and it is no setting.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import segue
from segue.config import file, names
from segue.config.values import KEY_VARIABLES
from segue.core.address import Platform
from segue.platforms import registry

Version = tuple[int, ...]

RENAMED: Mapping[str, str] = {}
"""The old name of each setting that the last version renamed, and the new one. Two old names may
lead to one new name. Remove the entries after the next version."""

_RECORD = re.compile(rb"(?m)^# Written by Segue (\d+(?:\.\d+)*)\.(?:\r?\n|\r?\Z)")
_CLOSED: Mapping[tuple[str, ...], frozenset[str]] = {
    ("keys",): frozenset(KEY_VARIABLES),
    ("platforms",): frozenset(registry.SPECS),
    ("approvals", "platforms"): frozenset(Platform),
    ("reset", "for"): frozenset(file.RESET_KEYS),
}
"""Tables whose entries have names that the program chooses."""


def recorded(raw: bytes) -> Version:
    """Return the newest version that wrote the file; empty if none is recorded."""
    return max((_parsed(found.decode()) for found in _RECORD.findall(raw)), default=())


def _parsed(version: str) -> Version:
    return tuple(int(part) for part in version.split("."))


def with_record(raw: bytes) -> bytes:
    """Return the file with this version recorded in its last line, or the newer one that wrote it:
    its settings may still be in it."""
    newest = max(recorded(raw), _parsed(segue.__version__))
    rest = _RECORD.sub(b"", raw)
    end = b"" if not rest or rest.endswith(b"\n") else b"\n"
    return rest + end + f"# Written by Segue {'.'.join(map(str, newest))}.\n".encode()


def adapt(raw: bytes, path: Path) -> tuple[dict[str, Any], list[str]]:
    """Parse the file into tables with today's names, and return warnings about the others.

    Settings that are unknown stay where they are, which is an error, unless a newer version wrote
    the file: then they are left out.
    """
    tables = copy.deepcopy(file.tables(raw, path))
    warnings: list[str] = []
    for old, new in RENAMED.items():
        value = names.take(tables, names.parts(old))
        if value is None:
            continue
        if _find(tables, names.parts(new)) is None:
            names.put(tables, names.parts(new), value, lambda _: dict[str, Any]())
            warnings.append(
                f"{old} in {path} is called {new} now. Rename it: the next version will not know"
                f" the old name."
            )
        else:
            warnings.append(
                f"{old} in {path} is called {new} now, which is also set. Remove {old}."
            )
    version = recorded(raw)
    if version > _parsed(segue.__version__):
        unknown = list(_unknown(tables, ()))
        for where in unknown:
            names.take(tables, where)
        if unknown:
            listed = ", ".join(".".join(where) for where in unknown)
            newer = ".".join(map(str, version))
            warnings.append(
                f"{path} was written by Segue {newer}; this is {segue.__version__}, which ignores"
                f" {listed}. Update Segue to use them."
            )
    return tables, warnings


def _unknown(tables: dict[str, Any], where: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield where there is a setting or a table that this version does not know."""
    for name, value in tables.items():
        at = (*where, name)
        if names.kind_at(at) is None or name not in _CLOSED.get(where, {name}):
            yield at
        elif isinstance(value, dict):
            yield from _unknown(cast("dict[str, Any]", value), at)


def _find(tables: object, where: tuple[str, ...]) -> object:
    for part in where:
        tables = cast("dict[str, object]", tables).get(part) if isinstance(tables, dict) else None
    return tables
