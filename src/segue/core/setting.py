"""How a setting is described: beside its field, as a part of its type.

    hour: Annotated[int, Meta(ge=0, le=23), Described("the hour of the reset")] = 4

`segue.config` reads the settings file by these fields and descriptions, and they are what
docs/settings.md says. A field without a description is no setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct


class Described(Struct, frozen=True):
    """What there is to know about a setting, besides its type and its default."""

    meaning: str
    """In the Markdown of docs/settings.md, without a capital and a full stop."""
    variables: tuple[str, ...] = ()
    """The environment variables that override it. The first one that is set counts."""
    default: str = ""
    """The default in words, where the field has none or it does not speak for itself."""
    read: Callable[[str], object] | None = None
    """Makes the value out of a text, or raises ValueError with what was expected."""
    unset: object = None
    """What stands in the file if nothing is set, besides an empty text."""


class Entries(Struct, frozen=True):
    """What there is to know about a table whose entries all have the same type."""

    placeholder: str
    """The name of an entry in docs/settings.md."""
    names: Callable[[], Iterable[str]] | None = None
    """The possible names of entries. None if the user chooses them."""
    described: Mapping[str, Described] = {}
    """The entries with a description of their own."""
    own_name: str = ""
    """The field of an entry that holds its name."""
    inherit: bool = False
    """Whether an entry takes what it leaves out from the table around it."""
