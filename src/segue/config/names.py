"""The names of settings, such as `endpoints.work.url`, and how to change one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast, get_origin

import msgspec
from msgspec import Struct, structs

from segue.config import file
from segue.config.values import KEY_VARIABLES
from segue.core.address import Platform
from segue.core.approval import Policy
from segue.core.errors import SettingRefused, UnknownSetting
from segue.core.reset import ResetMode
from segue.platforms import registry
from segue.platforms.spec import FieldKind, Groups

_ENDPOINTS = "endpoints"
_PLATFORMS = "platforms"


def every(endpoints: Iterable[str] = (), chats: Iterable[str] = file.RESET_KEYS) -> list[str]:
    """Return all possible names, including those for these `endpoints` and `chats`.

    `chats` are the kinds of chats with a separate reset policy.
    """
    within = {
        "keys": KEY_VARIABLES,
        "approvals.platforms": Platform,
        _ENDPOINTS: _fields(endpoints, file.EndpointTable),
        _PLATFORMS: [
            f"{platform}.{field}"
            for platform, spec in registry.SPECS.items()
            for field in file.platform_table(spec).__struct_fields__
        ],
        "reset.for": _fields(chats, file.PolicyTable),
    }
    return [
        f"{table}.{name}" if name else table
        for table in _names(file.Contents, "")
        for name in within.get(table, ("",))
    ]


def _fields(names: Iterable[str], table: type[Struct]) -> list[str]:
    return [f"{name}.{field}" for name in names for field in table.__struct_fields__]


def _names(table: type[Struct], prefix: str) -> Iterable[str]:
    """Yield the settings of `table` in the file's order.

    A table with names that the user chooses counts as one setting.
    """
    for field in structs.fields(table):
        name = f"{prefix}{field.encode_name}"
        if _is_table(field.type):
            yield from _names(field.type, f"{name}.")
        else:
            yield name


def is_secret(name: str) -> bool:
    """Return whether its value is a secret, which is never shown."""
    where = parts(name)
    if where[0] == _PLATFORMS:
        _, field = registry.fields().get(name, (None, None))
        return field is not None and field.kind is FieldKind.SECRET
    return where[0] == "keys" or (where[0], where[-1]) == (_ENDPOINTS, "key")


def parts(name: str) -> tuple[str, ...]:
    """Return the path of the setting in the file. An endpoint's name may contain full stops."""
    table, _, rest = name.partition(".")
    if table == _ENDPOINTS:
        return (table, *rest.rsplit(".", 1))
    return tuple(name.split("."))


def kind(name: str) -> Any:
    """Return the type of its value, or raise UnknownSetting if it is unknown or a table."""
    where = parts(name)
    found = kind_at(where)
    if found is None or not all(where) or _is_table(found) or get_origin(found) is dict:
        raise unknown(name)
    return found


def kind_at(where: tuple[str, ...]) -> Any:
    """Return the type of the setting or table at this path; None if there is none."""
    found: Any = file.Contents
    for part in where:
        if _is_table(found):
            fields = {field.encode_name: field.type for field in structs.fields(found)}
            found = fields.get(part)
        elif get_origin(found) is dict:
            spec = registry.SPECS.get(part) if where[0] == _PLATFORMS else None
            found = file.platform_table(spec) if spec else found.__args__[1]
        else:
            found = None
    return found


def choices(name: str) -> list[str]:
    """Return the possible values if they are few. Raises UnknownSetting like `kind`."""
    wanted = kind(name)
    if wanted is bool:
        return ["true", "false"]
    return list(wanted) if wanted in (Policy, ResetMode, Groups) else []


def unknown(name: str, endpoints: Iterable[str] = ()) -> UnknownSetting:
    import difflib  # noqa: PLC0415 - only when something is wrong

    near = difflib.get_close_matches(name, every(endpoints), 1)
    return UnknownSetting(name=name, hint=f" (there is {near[0]!r})" if near else "")


def value(name: str, given: Sequence[str]) -> object:
    """Return `given` as a value for the file, or raise UnknownSetting or SettingRefused.

    A list is given as several values, or as one value that is a TOML list.
    """
    wanted = kind(name)
    if not all(text.isprintable() for text in given):
        raise SettingRefused(reason=f"{name}: a value has only characters that can be seen")
    if get_origin(wanted) is tuple:
        return _several(name, given)
    if len(given) != 1:
        raise SettingRefused(reason=f"{name} takes one value, not {len(given)}")
    try:
        meant = msgspec.convert(given[0], wanted, strict=False)
    except msgspec.ValidationError as error:
        raise SettingRefused(reason=file.told(error, wanted, name)) from error
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
        raise SettingRefused(reason=f"{name}: that is no list in TOML: {error}") from error


def changed(
    raw: bytes, name: str, meant: object, path: Path, old_names: Iterable[str] = ()
) -> bytes:
    """Return the file `raw` with one setting changed, and without its old names. Comments and order
    are preserved."""
    import tomlkit  # noqa: PLC0415 - only for writing

    where = parts(name)
    wanted = copy.deepcopy(file.tables(raw, path))
    document = tomlkit.parse(raw.decode())
    for old in old_names:
        take(wanted, parts(old))
        take(document, parts(old))
    put(wanted, where, meant, lambda _: dict[str, Any]())
    put(document, where, meant, lambda last: tomlkit.table(is_super_table=not last))
    after = tomlkit.dumps(document).encode()
    # Do not trust the library's output for unusual files.
    if file.tables(after, path) != wanted:
        reason = f"{path} is written in a way in which {name} cannot be put into it"
        raise SettingRefused(reason=f"{reason}; `segue config edit` can")
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


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(cast("type[Any]", kind), Struct)
