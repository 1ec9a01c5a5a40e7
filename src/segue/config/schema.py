"""The names of all settings, such as `endpoints.work.url`, and the type of each.

They are read off the structs of `segue.config.settings`, as a tree: a Section has named members, a
Family has entries that look alike, and a Leaf is one setting. Everything that has to know every
setting walks this tree: reading the file, overriding it by variables, `segue config`, completion
and docs/settings.md.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin

import msgspec
from msgspec import Struct, structs

from segue.config import machine
from segue.config.settings import Settings, url
from segue.core.errors import SettingsError
from segue.core.secret import Secret
from segue.core.setting import Described, Entries
from segue.core.text import one_line
from segue.platforms import registry
from segue.platforms.spec import FieldKind, PlatformSettings, PlatformSpec

_ENDPOINTS = "endpoints"
_CHATS = "reset.for"


class Leaf(Struct, frozen=True):
    """A setting."""

    kind: Any
    """The type of its value, with its limits."""
    description: Described

    @property
    def is_secret(self) -> bool:
        """Whether its value is never shown."""
        return self.kind is Secret

    @property
    def is_text(self) -> bool:
        """Whether it is a text in the file, whatever the program makes of it."""
        return self.kind in (str, Secret) or self.description.read is not None

    @property
    def choices(self) -> list[str]:
        """The possible values, if they are few."""
        if self.kind is bool:
            return ["true", "false"]
        if isinstance(self.kind, type) and issubclass(self.kind, StrEnum):
            return [choice.value for choice in self.kind]
        return []

    def is_unset(self, given: object) -> bool:
        """Return whether this value in the file means that the setting is not set."""
        if self.is_text and isinstance(given, str):
            return not given.strip()
        return given is not None and given == self.description.unset

    def convert(self, given: object, name: str, *, strict: bool = True) -> Any:
        """Return `given` with the type that it has in the file, or raise Wrong.

        If not `strict`, `given` is what a user typed.
        """
        return convert(given, str if self.is_text else self.kind, name, strict=strict)


class SectionMember(Struct, frozen=True):
    """A named member of a section."""

    node: Node
    field: str
    """The field that holds it. It may have another name in the file."""
    is_required: bool = False
    default: object = None


class Section(Struct, frozen=True):
    """A table whose members have different names and types."""

    make: Callable[..., Any]
    """Makes its value out of its fields."""
    members: Mapping[str, SectionMember]

    def names(self) -> list[str]:
        return list(self.members)

    def node(self, name: str) -> Node:
        return self.members[name].node

    def knows(self, name: str) -> bool:
        return name in self.members


class Family(Struct, frozen=True):
    """A table whose entries have the same type."""

    entries: Entries
    key: Callable[[str], str]
    """Makes the name of an entry out of its text."""
    node: Callable[[str], Node]

    def names(self) -> list[str]:
        """Return the possible names; empty if the user chooses them."""
        return list(map(str, self.entries.names())) if self.entries.names else []

    def knows(self, name: str) -> bool:
        return self.entries.names is None or name in self.names()


Node = Leaf | Section | Family


# The tree


def root() -> Section:
    """Return the tree of all settings."""
    return _section(Settings)


@functools.cache
def _section(kind: type[Struct]) -> Section:
    members: dict[str, SectionMember] = {}
    for field in structs.fields(kind):
        node = _node(field.type)
        if node is not None:
            default = None if field.default is msgspec.NODEFAULT else field.default
            members[field.encode_name] = SectionMember(node, field.name, field.required, default)
    return Section(kind, members)


def _node(kind: Any) -> Node | None:
    """Return the node of a field of this type, or None if the field is no setting."""
    if isinstance(kind, type) and issubclass(cast("type[Any]", kind), Struct):
        return _section(kind)
    for about in getattr(kind, "__metadata__", ()):
        if isinstance(about, Described):
            return Leaf(_without_description(kind), about)
        if isinstance(about, Entries):
            key, entry = get_args(get_args(kind)[0])
            return Family(about, key, functools.partial(_entry, entry, about))
    return None


def _without_description(annotated: Any) -> Any:
    """Return the type of a value, with its limits and without None."""
    plain, *about = get_args(annotated)
    kinds = get_args(plain) if get_origin(plain) in (Union, UnionType) else ()
    if NoneType in kinds:
        return next(kind for kind in kinds if kind is not NoneType)
    return annotated if any(isinstance(it, msgspec.Meta) for it in about) else plain


def _entry(kind: Any, entries: Entries, name: str) -> Node:
    """Return the node of an entry whose type is `kind`."""
    if kind is PlatformSettings:
        return _platform(registry.SPECS.get(name))
    if description := entries.described.get(name):
        return Leaf(kind, description)
    node = cast("Node", _node(kind))
    if isinstance(node, Section) and entries.own_name:
        return Section(functools.partial(kind, **{entries.own_name: name}), node.members)
    return node


def _platform(spec: PlatformSpec | None) -> Section:
    """Return the table of a platform, with its own fields beside those of all platforms.

    Without a `spec`, it is that of any platform, as in the docs.
    """
    members = dict(_section(PlatformSettings).members)
    own = cast("Family", members.pop("values").node)
    if spec is None:
        name = own.entries.placeholder
        return Section(PlatformSettings, {**members, name: SectionMember(own.node(name), name)})
    for field in spec.fields:
        description = Described(
            field.label, (spec.variable(field),), read=url if field.kind is FieldKind.URL else None
        )
        kind = Secret if field.kind is FieldKind.SECRET else str
        members[field.name] = SectionMember(Leaf(kind, description), field.name)
    return Section(functools.partial(_platform_settings, spec), members)


def _platform_settings(spec: PlatformSpec, **given: Any) -> PlatformSettings:
    """Make the value of a platform's table, whose own fields are among those that are `given`."""
    values = {it.name: given.pop(it.name) for it in spec.fields if it.name in given}
    folder = machine.platform_folder(spec.platform)
    return PlatformSettings(platform=spec.platform, values=values, folder=folder, **given)


# Looking up


def every(endpoints: Iterable[str] = (), chats: Iterable[str] | None = None) -> dict[str, Leaf]:
    """Return all settings by name, including those of these `endpoints`.

    `chats` are the chats with a rule of their own for resets. None for all possible ones.
    """
    chosen = {_ENDPOINTS: endpoints}
    if chats is not None:
        chosen[_CHATS] = chats
    return dict(_leaves(root(), "", chosen))


def _leaves(
    node: Node, name: str, chosen: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, Leaf]]:
    if isinstance(node, Leaf):
        yield name, node
        return
    for inner in chosen.get(name, node.names()):
        yield from _leaves(node.node(inner), f"{name}.{inner}" if name else inner, chosen)


def parts(name: str) -> tuple[str, ...]:
    """Return the path of the setting in the file. An endpoint's name may contain full stops."""
    table, _, rest = name.partition(".")
    if table == _ENDPOINTS:
        return (table, *rest.rsplit(".", 1))
    return tuple(name.split("."))


def leaf(name: str) -> Leaf:
    """Return the setting of this name.

    Raise SettingsError if there is none, or if it is an entry that cannot exist.
    """
    node: Node = root()
    within = ""
    for part in parts(name):
        if isinstance(node, Leaf) or not part:
            raise unknown(name)
        if not node.knows(part):
            if isinstance(node, Section):
                raise unknown(name)
            raise refused(no_setting(within, part, node.names()))
        node = node.node(part)
        within = f"{within}.{part}" if within else part
    if not isinstance(node, Leaf):
        raise unknown(name)
    return node


def unknown(name: str, endpoints: Iterable[str] = ()) -> SettingsError:
    import difflib  # noqa: PLC0415 - only when something is wrong

    near = difflib.get_close_matches(name, every(endpoints), 1)
    hint = f" (there is {near[0]!r})" if near else ""
    return SettingsError(
        f"There is no setting {name!r}{hint}. Type `segue config show` to see all settings."
    )


def refused(reason: str) -> SettingsError:
    return SettingsError(
        f"Nothing was changed: {reason}. Type `segue config show` to see the current settings."
    )


def no_setting(table: str, name: str, names: Sequence[str]) -> str:
    """Return that the table has no such member, and which it has."""
    import difflib  # noqa: PLC0415 - only when something is wrong

    prefix = f"{table}." if table else ""
    near = difflib.get_close_matches(name, names, 1)
    hint = f" (did you mean {prefix}{near[0]}?)" if near else ""
    return one_line(f"there is no setting {prefix}{name}, only {', '.join(names)}{hint}")


def found(
    tables: Mapping[str, Any], node: Section | Family | None = None, where: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Node | None, Any]]:
    """Yield where there is a setting in these tables, or anything else, with its value.

    The node of what no setting or table is called is None.
    """
    node = node or root()
    for name, value in tables.items():
        inner = node.node(name) if node.knows(name) else None
        if isinstance(inner, Section | Family) and isinstance(value, dict):
            yield from found(cast("dict[str, Any]", value), inner, (*where, name))
        else:
            yield (*where, name), inner, value


def misspelt(tables: Mapping[str, Any]) -> list[str]:
    """Return a message for each name in these tables that no setting or table has."""
    messages: list[str] = []
    for where, node, _ in found(tables):
        if node is not None:
            continue
        table: Section | Family = root()
        for name in where[:-1]:
            table = cast("Section | Family", table.node(name))
        messages.append(no_setting(".".join(where[:-1]), where[-1], table.names()))
    return messages


# Types


class Wrong(Exception):
    """A value that cannot be used. The message names the setting, and has no full stop."""


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


def convert(given: object, kind: Any, name: str, *, strict: bool = True) -> Any:
    """Return `given` with the type `kind`, or raise Wrong."""
    try:
        return msgspec.convert(given, kind, strict=strict)
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at `$")
        if what.startswith("Invalid enum value"):
            what = f"expected one of {', '.join(kind)}"
        what = _TYPE.sub(lambda found: _IN_WORDS.get(found[1], found[1]), what)
        what = what.replace("got text in quotation marks", "got text")
        raise Wrong(f"{name}{at.rstrip('`')}: {what[0].lower()}{what[1:]}") from error
