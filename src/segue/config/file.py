"""The settings file: its schema, and error messages for files that do not match."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import Meta, Struct

from segue.config.values import KEY_VARIABLES
from segue.core.address import TARGETS, ChatType, Platform
from segue.core.approval import Policy
from segue.core.errors import BadSettings, SettingsUnwritable
from segue.core.reset import ResetMode
from segue.core.text import one_line
from segue.platforms import registry
from segue.platforms.spec import FieldKind, Groups, PlatformSpec
from segue.system import files

T = TypeVar("T")

_ENDPOINT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_TYPE = re.compile(r"`(\w+)`")
_IN_WORDS = {
    "bool": "true or false",
    "str": "text in quotation marks",
    "int": "a whole number",
    "float": "a number",
    "array": "a list",
    "object": "a table",
}
"""What users call the types in msgspec's messages."""
_MISSING = re.compile(r"Object missing required field `(.*)`")


class EndpointTable(Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    key: str = ""
    context: Annotated[int, Meta(ge=1024)] = 32_768
    images: bool = False
    small: bool = False


class ApprovalsTable(Struct, frozen=True, forbid_unknown_fields=True):
    policy: Policy = Policy.ASK
    platforms: dict[str, Policy] = {}
    allowed_commands: tuple[str, ...] = ()


class PlatformTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings that every platform has."""

    enabled: bool = True
    adapter: str = ""
    groups: Groups = Groups.ADDRESSED


def platform_table(spec: PlatformSpec) -> type[PlatformTable]:
    """Return the schema of a platform's table: the common settings and its own fields."""
    own = [(field.name, str, "") for field in spec.fields]
    table = msgspec.defstruct(
        "PlatformTable", own, bases=(PlatformTable,), frozen=True, forbid_unknown_fields=True
    )
    return cast("type[PlatformTable]", table)


class WebTable(Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool = True
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    lan: bool = False


class PolicyTable(Struct, frozen=True, forbid_unknown_fields=True):
    mode: ResetMode = ResetMode.NONE
    idle_minutes: Annotated[float, Meta(ge=0.001, le=36_500 * 24 * 60)] = 24 * 60.0
    hour: Annotated[int, Meta(ge=0, le=23)] = 4


class ResetTable(PolicyTable, frozen=True, forbid_unknown_fields=True):
    zone: str = ""
    chats: dict[str, PolicyTable] = msgspec.field(
        name="for", default_factory=dict[str, PolicyTable]
    )
    """Keyed by the names in RESET_KEYS. Missing values come from the table for all chats."""


RESET_KEYS: Mapping[str, tuple[Platform | None, ChatType | None]] = {
    **{platform.value: (platform, None) for platform in TARGETS},
    **{kind.value: (None, kind) for kind in ChatType},
    **{f"{platform}-{kind}": (platform, kind) for platform in TARGETS for kind in ChatType},
}
"""The names of chats that can have a separate reset policy."""


class Contents(Struct, frozen=True, forbid_unknown_fields=True):
    """The schema of the file."""

    store: str = ""
    model: str = ""
    private_network: bool = False
    server_accounts: tuple[str, ...] = ()
    models_folder: str = ""
    idle_minutes: Annotated[float, Meta(gt=0)] = 10.0
    gateway_log: str = ""
    keys: dict[str, str] = {}
    endpoints: dict[str, EndpointTable] = {}
    approvals: ApprovalsTable = ApprovalsTable()
    web: WebTable = WebTable()
    platforms: dict[str, dict[str, Any]] = {}
    """Each table is valid; `platform` gives it its type."""
    reset: ResetTable = ResetTable()

    def platform(self, spec: PlatformSpec) -> PlatformTable | None:
        """Return the table of a platform, or None if it has none."""
        found = self.platforms.get(spec.platform)
        return None if found is None else msgspec.convert(found, platform_table(spec))


def read(path: Path) -> tuple[bytes, int] | None:
    """Return the contents and mode of the file, or None if it does not exist."""
    try:
        with path.open("rb") as file:
            return file.read(), os.fstat(file.fileno()).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadSettings(path=path, reason=f"they cannot be read ({error.strerror})") from error


def tables(raw: bytes, path: Path) -> dict[str, Any]:
    """Parse `raw` as TOML without validating it, or raise BadSettings."""
    import tomllib  # noqa: PLC0415 - not everybody has a settings file

    try:
        return tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(path=path, reason=f"this is no TOML: {error}") from error


def validate(found: dict[str, Any], path: Path) -> Contents:
    """Return the contents of these tables, or raise BadSettings with the setting's name and valid
    values."""
    try:
        # One by one, because msgspec would not say which entry is wrong.
        for name, table in _tables(found, "endpoints"):
            _check_name("endpoints", name)
            _convert(table, EndpointTable, f"endpoints.{name}")
        for name, policy in _tables(found.get("approvals"), "platforms"):
            _check_name("approvals.platforms", name, *Platform)
            _convert(policy, Policy, f"approvals.platforms.{name}")
        for name, key in _tables(found, "keys"):
            _check_name("keys", name, *KEY_VARIABLES)
            _convert(key, str, f"keys.{name}")
        for name, table in _tables(found, "platforms"):
            _check_name("platforms", name, *registry.SPECS)
            _convert(table, platform_table(registry.SPECS[name]), f"platforms.{name}")
        return _convert(_with_resets(found), Contents, "")
    except _Wrong as wrong:
        raise BadSettings(path=path, reason=one_line(str(wrong))) from wrong


class _Wrong(Exception):
    """A validation error. Its message has no full stop."""


def _tables(found: object, name: str) -> list[tuple[str, object]]:
    """Return the entries of the table `name` in `found`; empty if either is not a table."""
    inner = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
    return list(cast("dict[str, object]", inner).items()) if isinstance(inner, dict) else []


def _with_resets(found: dict[str, Any]) -> dict[str, Any]:
    """Return `found` with the defaults filled in for the reset policy of each kind of chat."""
    if not (chats := _tables(found.get("reset"), "for")):
        return found
    reset = {name: value for name, value in found["reset"].items() if name != "for"}
    _convert(reset, ResetTable, "reset")
    usual = {name: reset[name] for name in PolicyTable.__struct_fields__ if name in reset}
    whole: dict[str, object] = {}
    for name, table in chats:
        _check_name("reset.for", name, *RESET_KEYS)
        _convert(table, PolicyTable, f"reset.for.{name}")
        whole[name] = {**usual, **cast("dict[str, object]", table)}
    return {**found, "reset": {**reset, "for": whole}}


def _check_name(table: str, name: str, *allowed: str) -> None:
    if allowed and name not in allowed:
        raise _Wrong(_no_setting(table, name, allowed))
    if not _ENDPOINT_NAME.fullmatch(name):
        raise _Wrong(f"{table}.{name!r}: a name has letters, digits, full stops, - and _ only")


def _convert(value: object, kind: type[T], setting: str) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _Wrong(told(error, kind, setting)) from error


def told(error: msgspec.ValidationError, kind: Any, setting: str) -> str:
    """Return what is wrong with `setting` and its valid values, without full stop or the value."""
    what, _, at = str(error).partition(" - at `$")
    within = at.rstrip("`")
    return _told(what, kind, within, f"{setting}{within}".lstrip("."))


def _told(what: str, kind: type[Any], within: str, setting: str) -> str:
    """Return msgspec's message with the setting's name and valid values added.

    The setting is at `within` in a value of the type `kind`.
    """
    if unknown := _UNKNOWN.fullmatch(what):
        names = [field.encode_name for field in msgspec.structs.fields(_type_at(kind, within))]
        return _no_setting(setting, unknown[1], names)
    if missing := _MISSING.fullmatch(what):
        return f"{setting}.{missing[1]} is missing"
    if what.startswith("Invalid enum value"):
        values = Groups if setting.endswith(".groups") else Policy
        what = f"expected one of {', '.join(ResetMode if 'reset.' in setting else values)}"
    what = _TYPE.sub(lambda found: _IN_WORDS.get(found[1], found[1]), what)
    what = what.replace("got text in quotation marks", "got text")
    return f"{setting}: {what[0].lower()}{what[1:]}"


def _no_setting(table: str, name: str, names: Sequence[str]) -> str:
    import difflib  # noqa: PLC0415 - only when something is wrong

    prefix = f"{table}." if table else ""
    near = difflib.get_close_matches(name, names, 1)
    hint = f" (did you mean {prefix}{near[0]}?)" if near else ""
    return f"there is no setting {prefix}{name}, only {', '.join(names)}{hint}"


def _type_at(kind: type[Any], within: str) -> type[Any]:
    """Return the type of the table at a path such as `.reset` in a table of the type `kind`."""
    for name in within.split(".")[1:]:
        kind = next(f.type for f in msgspec.structs.fields(kind) if f.encode_name == name)
    return kind


def warnings(path: Path, mode: int, contents: Contents) -> list[str]:
    """Return warnings about the permissions of the file."""
    if not stat.S_ISREG(mode):
        return []
    if mode & 0o022:
        return [f"Others can change {path}. Type `chmod 600 {path}`."]
    secrets = [table.key for table in contents.endpoints.values()]
    for spec in registry.SPECS.values():
        table = contents.platforms.get(spec.platform, {})
        secrets += [
            table.get(field.name) for field in spec.fields if field.kind is FieldKind.SECRET
        ]
    if (contents.keys or any(secrets)) and mode & 0o044:
        return [f"{path} holds keys, and others can read it. Type `chmod 600 {path}`."]
    return []


def replace(path: Path, data: bytes) -> None:
    """Replace the file with `data`, readable by its owner only, or raise SettingsUnwritable.

    The replacement is atomic: a concurrent reader sees the old file or the new one. Symbolic links
    are followed and kept.
    """
    try:
        if path.exists() and not path.is_file():
            raise SettingsUnwritable(path=path, reason="it is no ordinary file")
        files.make_folder(Path(os.path.realpath(path)).parent)
        files.replace(path, data)
    except OSError as error:
        raise SettingsUnwritable(path=path, reason=error.strerror or error) from error
