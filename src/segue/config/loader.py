"""From the file and the variables to the settings, and back to where each one came from.

The variables are laid over the tables of the file. The result becomes the structs of
`segue.config.settings`, one setting after the other, so that an error can name its setting, the
file or variable that it is in, and what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import tzinfo
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec import Struct

from segue.config import environment, file, machine, schema
from segue.config.machine import ENVIRONMENT
from segue.config.schema import Family, Leaf, Node, Section, Wrong
from segue.config.settings import Settings, absolute_path, url
from segue.core.address import Platform
from segue.core.errors import BadSettings
from segue.core.secret import Secret
from segue.core.text import one_line
from segue.platforms.spec import PlatformSettings

FILE = "file"
DEFAULT = "default"
OPENAI_URL = "OPENAI_BASE_URL"

_LOG = "gateway.log"
_CHOSEN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class _Sources(NamedTuple):
    """What settings are made of."""

    path: Path
    tables: dict[str, Any]
    """What is in the file, without what only a newer version knows."""
    whole: dict[str, Any]
    """The same with the variables laid over it."""
    variables: dict[str, str]
    """The variables that override a setting, by its name."""
    warnings: tuple[str, ...]


def load(environ: Mapping[str, str]) -> Settings:
    """Return the settings, or raise BadSettings with the setting's name and valid values."""
    return _settings(_sources(environ), environ)


def _sources(environ: Mapping[str, str]) -> _Sources:
    path = machine.settings_file(environ)
    found = file.read(path)
    tables, warnings = file.adapt(found[0] if found else b"", path)
    if found:
        warnings += file.warnings(path, found[1], tables)
    elif environ.get("SEGUE_CONFIG"):
        warnings.append(f"SEGUE_CONFIG names {path}, but there is no such file.")
    try:
        whole, variables = environment.laid_over(tables, environ)
    except Wrong as wrong:
        raise BadSettings(path=path, reason=one_line(str(wrong))) from wrong
    return _Sources(path, tables, whole, variables, tuple(warnings))


def _settings(sources: _Sources, environ: Mapping[str, str]) -> Settings:
    path = sources.path
    values = _SettingReader(path, sources.variables, _usual(environ)).settings(sources.whole)
    model_from = sources.variables.get("model", f"model in {path}")
    return Settings(
        **values,
        path=path,
        model_from=model_from if "model" in values else "",
        openai_url=_openai_url(environ),
        warnings=sources.warnings,
    )


def _usual(environ: Mapping[str, str]) -> dict[str, Callable[[], object]]:
    """Return the defaults that depend on this machine, by the names of the settings."""
    return {
        "store": machine.default_store,
        "models_folder": lambda: machine.data() / "models",
        "gateway_log": lambda: machine.data() / _LOG,
        "reset.zone": lambda: machine.time_zone(environ.get("TZ", "")),
    }


def _openai_url(environ: Mapping[str, str]) -> str | None:
    given = environ.get(OPENAI_URL, "").strip()
    try:
        return url(given) if given else None
    except ValueError as error:
        raise BadSettings(path=ENVIRONMENT, reason=f"{OPENAI_URL}: {error}") from error


def check(raw: bytes, path: Path) -> None:
    """Raise BadSettings if `raw` is not a valid settings file. The environment is ignored."""
    tables, _ = file.adapt(raw, path)
    usual = dict.fromkeys(_usual({}), lambda: None)
    _SettingReader(path, {}, usual).settings(tables)


# Reading the tables


class _SettingReader:
    """Makes the values of settings out of tables."""

    def __init__(
        self, path: Path, variables: Mapping[str, str], usual: Mapping[str, Callable[[], object]]
    ) -> None:
        self._path = path
        self._variables = variables
        self._usual = usual

    def settings(self, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of Settings, or raise BadSettings, with every misspelt name."""
        if messages := schema.misspelt(tables):
            raise BadSettings(path=self._path, reason="; ".join(messages))
        try:
            return self._fields(schema.root(), tables, "")
        except Wrong as wrong:
            raise BadSettings(path=self._path, reason=one_line(str(wrong))) from wrong

    def _fields(self, section: Section, given: object, name: str) -> dict[str, Any]:
        """Return the fields of a section's value that are set or have a default of this machine."""
        tables: dict[str, Any] = schema.convert(given, dict[str, Any], name)
        for inner in tables:
            if not section.knows(inner):
                raise Wrong(schema.no_setting(name, inner, section.names()))
        fields: dict[str, Any] = {}
        for inner, member in section.members.items():
            full = f"{name}.{inner}" if name else inner
            value = self._value(member.node, tables.get(inner), full, tables)
            if value is None and full in self._usual:
                value = self._usual[full]()
            elif value is None and member.is_required:
                raise Wrong(f"{full} is missing")
            elif value is None:
                continue
            fields[member.field] = value
        return fields

    def _value(self, node: Node, given: object, name: str, around: Mapping[str, Any]) -> Any:
        """Return the value of a node, or None if it is not set. `around` is the table of it."""
        if isinstance(node, Leaf):
            return None if given is None else self._leaf(node, given, name)
        if isinstance(node, Section):
            return node.make(**self._fields(node, {} if given is None else given, name))
        return None if given is None else self._entries(node, given, name, around)

    def _entries(
        self, family: Family, given: object, name: str, around: Mapping[str, Any]
    ) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        for entry, inner in schema.convert(given, dict[str, Any], name).items():
            if not family.knows(entry):
                raise Wrong(schema.no_setting(name, entry, family.names()))
            if not _CHOSEN_NAME.fullmatch(entry):
                text = f"{name}.{entry!r}"
                raise Wrong(f"{text}: a name has letters, digits, full stops, - and _ only")
            node = family.node(entry)
            if family.entries.inherit:
                inner = _inherited(node, around, inner)
            value = self._value(node, inner, f"{name}.{entry}", {})
            if value is not None:
                values[family.key(entry)] = value
        return values

    def _leaf(self, leaf: Leaf, given: object, name: str) -> Any:
        if leaf.is_unset(given):
            return None
        variable = self._variables.get(name, "")
        source = ENVIRONMENT if variable else self._path
        try:
            value = leaf.convert(given, variable or name, strict=not variable)
            if leaf.is_text:
                value = value.strip()
            if leaf.is_secret:
                return Secret(value, variable or f"{name} in {self._path}")
            read = leaf.description.read
            return read(value) if read else value
        except Wrong as wrong:
            raise BadSettings(path=source, reason=one_line(str(wrong))) from wrong
        except ValueError as error:
            raise BadSettings(path=source, reason=f"{variable or name}: {error}") from error


def _inherited(node: Node, around: Mapping[str, Any], given: Any) -> Any:
    """Return an entry with what it leaves out taken from the table around its own."""
    if not isinstance(given, dict):
        return given
    usual = {name: around[name] for name in cast("Section", node).names() if name in around}
    return usual | cast("dict[str, Any]", given)


# One setting although another one is wrong


def store_address(environ: Mapping[str, str]) -> str:
    """Return the store's address even if other settings have errors, or raise BadSettings."""
    try:
        return load(environ).store
    except BadSettings as error:
        return _despite(error, environ, "store") or machine.default_store()


def gateway_log(environ: Mapping[str, str]) -> Path:
    """Return the gateway's log file even if other settings have errors, or raise BadSettings."""
    try:
        return load(environ).gateway_log
    except BadSettings as error:
        given = _despite(error, environ, "gateway_log")
        try:
            return absolute_path(given) if given else machine.data() / _LOG
        except ValueError as wrong:
            path = machine.settings_file(environ)
            raise BadSettings(path=path, reason=f"gateway_log: {wrong}") from wrong


def _despite(error: BadSettings, environ: Mapping[str, str], name: str) -> str:
    """Return the setting `name` although the file has an `error`; empty if it is not set.

    Raise BadSettings if the file may mean a value that cannot be read.
    """
    import difflib  # noqa: PLC0415 - only when something is wrong

    if variable := environment.decides(environ, name):
        return environ[variable].strip()
    path = machine.settings_file(environ)
    reason = f"{error.fields['reason']}. So it is not clear what {name} is"
    unclear = BadSettings(path=path, reason=reason)
    found = file.read(path)
    raw = found[0] if found else b""
    try:
        tables, _ = file.adapt(raw, path)
    except BadSettings:  # it is no TOML
        if name.encode() in raw:
            raise unclear from error
        return ""
    given = tables.get(name, "")
    unknown = tables.keys() - schema.root().members.keys()
    if not isinstance(given, str) or difflib.get_close_matches(name, unknown):
        raise unclear from error
    return given


# Where settings come from

Value = str | bool | float | tuple[str, ...] | Secret | None


class Setting(Struct, frozen=True, kw_only=True):
    """A setting as `segue config show` lists it."""

    name: str
    value: Value
    """None if it is not set and has no default."""
    origin: str
    """The variable that overrides it, `file`, or `default`."""


def explain(environ: Mapping[str, str]) -> tuple[Setting, ...]:
    """Return each setting with its value and origin. Raises BadSettings like `load`."""
    sources = _sources(environ)
    settings = _settings(sources, environ)
    in_file = {
        ".".join(where)
        for where, node, value in schema.found(sources.tables)
        if isinstance(node, Leaf) and value != ""  # which counts as not set
    }
    origins = dict.fromkeys(in_file, FILE) | sources.variables | {OPENAI_URL: OPENAI_URL}
    return tuple(
        Setting(name=name, value=value, origin=origins.get(name, DEFAULT))
        for name, value in values(settings)
    )


def changed(before: Settings, after: Settings) -> frozenset[str]:
    """Return the names of the settings, or of their tables, that differ."""
    differing = {*values(before)} ^ {*values(after)}
    return frozenset(name.partition(".")[0] for name, _ in differing)


def values(settings: Settings) -> Iterator[tuple[str, Value]]:
    """Yield the name and value of each setting that can have one."""
    absent: dict[str, Callable[[str], object]] = {
        "keys": lambda _: None,
        "approvals.platforms": lambda _: settings.approvals.policy,
        "platforms": lambda name: PlatformSettings(platform=Platform(name), enabled=False),
    }
    yield from _values(schema.root(), settings, "", absent)
    if settings.openai_url:  # not a setting in the file
        yield OPENAI_URL, settings.openai_url


def _values(
    node: Node, value: Any, name: str, absent: Mapping[str, Callable[[str], object]]
) -> Iterator[tuple[str, Value]]:
    """Yield what is in this value. `absent` makes the entries that a table does not have."""
    if isinstance(node, Leaf):
        yield name, _shown(node, value)
        return
    if isinstance(node, Section):
        parts = [(inner, _field(value, it.field)) for inner, it in node.members.items()]
    elif name in absent:
        parts = [(it, value[it] if it in value else absent[name](it)) for it in node.names()]
    else:
        parts = list(value.items())
    for inner, found in parts:
        yield from _values(node.node(inner), found, f"{name}.{inner}" if name else inner, absent)


def _field(value: Any, name: str) -> object:
    if isinstance(value, PlatformSettings) and name not in PlatformSettings.__struct_fields__:
        return value.values.get(name)
    return getattr(value, name)


def _shown(leaf: Leaf, value: Any) -> Value:
    if value is None:
        return cast("Value", leaf.description.unset)
    return str(value) if isinstance(value, Path | tzinfo | Enum) else value
