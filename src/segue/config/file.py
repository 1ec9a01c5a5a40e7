"""The settings file: reading it, changing one setting in it, and replacing it.

It is TOML. Each write records the version of Segue in the last line, as a comment, which every
version can read and which is no setting. So a file of another version works, too: a setting that
was renamed keeps its old name for one version, and what only a newer version knows is ignored with
a warning, while otherwise an unknown setting is an error.
"""

from __future__ import annotations

import copy
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_origin

import segue
from segue.config import schema
from segue.core.errors import BadSettings, SettingsError
from segue.system import files

Version = tuple[int, ...]

RENAMED: Mapping[str, str] = {}
"""The old name of each setting that the last version renamed, and the new one. Two old names may
lead to one new name. Remove the entries after the next version."""

_RECORD = re.compile(rb"(?m)^# Written by Segue (\d+(?:\.\d+)*)\.(?:\r?\n|\r?\Z)")


# Reading


def read(path: Path) -> tuple[bytes, int] | None:
    """Return the contents and mode of the file, or None if it does not exist."""
    try:
        with path.open("rb") as file:
            return file.read(), os.fstat(file.fileno()).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadSettings(path=path, reason=f"they cannot be read ({error.strerror})") from error


def parse(raw: bytes, path: Path) -> dict[str, Any]:
    """Parse `raw` as TOML without validating it, or raise BadSettings."""
    import tomllib  # noqa: PLC0415 - not everybody has a settings file

    try:
        return tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(path=path, reason=f"this is no TOML: {error}") from error


def adapt(raw: bytes, path: Path) -> tuple[dict[str, Any], list[str]]:
    """Parse the file into tables with today's names, and return warnings about the others.

    Settings that are unknown stay where they are, which is an error, unless a newer version wrote
    the file: then they are left out.
    """
    tables = copy.deepcopy(parse(raw, path))
    warnings: list[str] = []
    for old, new in RENAMED.items():
        value = take(tables, schema.parts(old))
        if value is None:
            continue
        if _find(tables, schema.parts(new)) is None:
            put(tables, schema.parts(new), value, lambda _: dict[str, Any]())
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
        unknown = [where for where, node, _ in schema.found(tables) if node is None]
        for where in unknown:
            take(tables, where)
        if unknown:
            listed = ", ".join(".".join(where) for where in unknown)
            newer = ".".join(map(str, version))
            warnings.append(
                f"{path} was written by Segue {newer}; this is {segue.__version__}, which ignores"
                f" {listed}. Update Segue to use them."
            )
    return tables, warnings


def _find(tables: object, where: tuple[str, ...]) -> object:
    for part in where:
        tables = cast("dict[str, object]", tables).get(part) if isinstance(tables, dict) else None
    return tables


def warnings(path: Path, mode: int, tables: Mapping[str, Any]) -> list[str]:
    """Return warnings about the permissions of the file."""
    if not stat.S_ISREG(mode):
        return []
    if mode & 0o022:
        return [f"Others can change {path}. Type `chmod 600 {path}`."]
    has_secrets = any(
        isinstance(node, schema.Leaf) and node.is_secret and value
        for _, node, value in schema.found(tables)
    )
    if has_secrets and mode & 0o044:
        return [f"{path} holds keys, and others can read it. Type `chmod 600 {path}`."]
    return []


# Changing


def value(name: str, given: Sequence[str]) -> object:
    """Return `given` as a value for the file, or raise SettingsError.

    A list is given as several values, or as one value that is a TOML list.
    """
    leaf = schema.leaf(name)
    if not all(text.isprintable() for text in given):
        raise schema.refused(f"{name}: a value has only characters that can be seen")
    if get_origin(leaf.kind) is tuple:
        return _several(name, given)
    if len(given) != 1:
        raise schema.refused(f"{name} takes one value, not {len(given)}")
    try:
        meant = leaf.convert(given[0], name, strict=False)
    except schema.Wrong as wrong:
        raise schema.refused(str(wrong)) from wrong
    if isinstance(meant, float) and meant.is_integer():
        return int(meant)
    return str(meant) if isinstance(meant, str) else meant


def _several(name: str, given: Sequence[str]) -> list[Any]:
    import tomllib  # noqa: PLC0415 - only for lists

    if len(given) != 1 or not given[0].startswith("["):
        return list(given)
    try:
        return tomllib.loads(f"list = {given[0]}")["list"]
    except tomllib.TOMLDecodeError as error:
        raise schema.refused(f"{name}: that is no list in TOML: {error}") from error


def changed(
    raw: bytes, name: str, meant: object, path: Path, old_names: Iterable[str] = ()
) -> bytes:
    """Return the file `raw` with one setting changed, and without its old names. Comments and order
    are preserved."""
    import tomlkit  # noqa: PLC0415 - only for writing

    where = schema.parts(name)
    wanted = copy.deepcopy(parse(raw, path))
    document = tomlkit.parse(raw.decode())
    for old in old_names:
        take(wanted, schema.parts(old))
        take(document, schema.parts(old))
    put(wanted, where, meant, lambda _: dict[str, Any]())
    put(document, where, meant, lambda last: tomlkit.table(is_super_table=not last))
    after = tomlkit.dumps(document).encode()
    # Do not trust the library's output for unusual files.
    if parse(after, path) != wanted:
        reason = f"{path} is written in a way in which {name} cannot be put into it"
        raise schema.refused(f"{reason}; `segue config edit` can")
    return after


def put(tables: Any, where: tuple[str, ...], meant: object, new: Callable[[bool], Any]) -> None:
    """Set the value at `where`.

    `new` makes each missing table on the way. Its argument says whether the table is the last one.
    """
    for depth, part in enumerate(where[:-1]):
        if not isinstance(tables.get(part), dict):
            tables[part] = new(depth == len(where) - 2)
        tables = tables[part]
    tables[where[-1]] = meant


def take(tables: Any, where: tuple[str, ...]) -> Any:
    """Remove the value at `where` and return it; None if it is not there."""
    found = cast("object", tables)
    for part in where[:-1]:
        found = cast("dict[str, object]", found).get(part) if isinstance(found, dict) else None
    return cast("dict[str, Any]", found).pop(where[-1], None) if isinstance(found, dict) else None


# Writing


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


def replace(path: Path, data: bytes) -> None:
    """Replace the file with `data`, readable by its owner only, or raise SettingsError.

    The replacement is atomic: a concurrent reader sees the old file or the new one. Symbolic links
    are followed and kept.
    """
    try:
        if path.exists() and not path.is_file():
            raise _unwritable(path, "it is no ordinary file")
        files.make_folder(Path(os.path.realpath(path)).parent)
        files.replace(path, data)
    except OSError as error:
        raise _unwritable(path, error.strerror or error) from error


def _unwritable(path: Path, reason: object) -> SettingsError:
    return SettingsError(
        f"The settings in {path} cannot be written: {reason}. Make the file and its folder writable"
        " for you."
    )
