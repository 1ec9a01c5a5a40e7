"""The description of a platform, and its settings.

A spec is a plain value. `segue.config` derives the platform's settings and environment variables
from it, `segue setup` its options and questions, and the registry its adapter.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from enum import Enum, StrEnum, auto
from pathlib import Path
from typing import Annotated, Protocol

from msgspec import Struct, field

from segue.core.address import Platform
from segue.core.secret import Secret
from segue.core.setting import Described, Entries

_ANY_TYPE = "application/octet-stream"
_MEGABYTE = 1024 * 1024


# Files


class UploadKind(Struct, frozen=True, kw_only=True):
    """Types of files that a platform takes in one way."""

    name: str
    """The platform's name for it."""
    most: int
    """Largest file in bytes."""
    types: tuple[str, ...]
    """Media types. One that ends in a slash stands for all that start with it."""
    sent_as: str = ""
    """The media type to give. Empty if it is that of the file."""

    def has(self, media_type: str) -> bool:
        families = tuple(it for it in self.types if it.endswith("/"))
        return media_type in self.types or media_type.startswith(families)


class UploadRules(Struct, frozen=True, kw_only=True):
    """The files that can be sent on a platform. The adapter need not be loaded to know them, so the
    user is not asked to approve a file that cannot be sent."""

    most: int
    """Largest file in bytes. 0 if no files can be sent."""
    kinds: tuple[UploadKind, ...] = ()
    """The types of files. Empty if any type can be sent."""

    def kind(self, media_type: str, size: int) -> UploadKind | None:
        """Return how such a file is sent, or None if it cannot be."""
        return next((it for it in self.kinds if it.has(media_type) and size <= it.most), None)

    def refusal(self, name: str, size: int) -> str:
        """Return why a file cannot be sent, or an empty string if it can."""
        if not self.most:
            return "no files can be sent there"
        if size > self.most:
            return f"only {self.most // _MEGABYTE} MB can be sent there"
        kind = media_type(name)
        if not self.kinds or self.kind(kind, size) is not None:
            return ""
        largest = max((it.most for it in self.kinds if it.has(kind)), default=0)
        if not largest:
            return f"files of the type {kind} cannot be sent there"
        return f"files of the type {kind} can have at most {largest // _MEGABYTE} MB there"


def media_type(name: str) -> str:
    """Return the media type of a file with this name."""
    return mimetypes.guess_type(name)[0] or _ANY_TYPE


# Platforms


class FieldKind(Enum):
    """The kind of a field's value."""

    SECRET = auto()
    """Never shown, and kept from the agent's commands."""
    TEXT = auto()
    URL = auto()


class Field(Struct, frozen=True):
    """A value that a platform needs, such as a token."""

    name: str
    """Its name in the platform's table of the settings file."""
    label: str
    """Its name in questions: `Bot token`."""
    kind: FieldKind = FieldKind.SECRET
    required: bool = True

    def held(self, value: str, origin: str) -> str | Secret:
        """Return `value` as PlatformSettings hold it."""
        return Secret(value, origin) if self.kind is FieldKind.SECRET else value


TOKEN = Field("token", "Bot token")
SERVER = Field("url", "Your own server of the platform", FieldKind.URL, required=False)


class SetupTerminal(Protocol):
    """What a platform's preparation can do in the terminal."""

    @property
    def asks(self) -> bool:
        """Whether there is a user."""
        ...

    def say(self, text: str) -> None: ...

    def show(self, link: str) -> None:
        """Show the link, as a QR code if the terminal can."""
        ...


class SignIn(Struct, frozen=True):
    """How `segue setup` gets a value that users do not have, such as a token."""

    fields: tuple[Field, ...]
    """What users have instead, such as a password. It is used once, and not kept."""
    gives: str
    """The name of the field that it gets."""
    make: str
    """`package.module:function`, which is called with all values and the platform's folder, and
    returns those that changed. A coroutine function. Raises ConnectFailed."""


class UserIds(Struct, frozen=True):
    """The form of a platform's user ids, which never change, unlike names."""

    pattern: str
    """A regular expression that every id matches as a whole."""
    example: str


class PlatformSpec(Struct, frozen=True, kw_only=True):
    """Everything that the rest of the program knows about a platform before it is used."""

    platform: Platform
    title: str
    """Its name as the platform writes it."""
    fields: tuple[Field, ...] = (TOKEN, SERVER)
    """Its own settings, in the order in which `segue setup` asks for them."""
    sign_in: SignIn | None = None
    guide: str = ""
    """Instructions for getting the values of the fields, one step per line."""
    extra: str = ""
    """The extra that installs its libraries."""
    libraries: tuple[str, ...] = ()
    """Top-level modules that are there only with the extra."""
    from_source: tuple[str, ...] = ()
    """Packages of the extra that are published only as source. They need no compiler."""
    make: str = ""
    """`package.module:function`, which makes the built-in adapter from PlatformSettings; empty if
    there is none."""
    prepare: str = ""
    """`package.module:function`, which `segue setup` awaits with the known values and a
    SetupTerminal before it asks for others; empty if there is nothing to prepare. It returns the
    values that it found."""
    send_to: str = "the bot"
    """Where users send their pairing code, in words."""
    uploads: UploadRules | None = None
    """The files that can be sent there. None if only its adapter knows."""
    has_groups: bool = True
    """Whether the bot can be in groups."""
    user_ids: UserIds = UserIds(r"\S+", "")

    @property
    def asked(self) -> tuple[Field, ...]:
        """All fields that `segue setup` has options for."""
        if self.sign_in is None:
            return self.fields
        return self.fields + self.sign_in.fields

    def missing(self, values: Mapping[str, str]) -> list[Field]:
        """Return the fields to ask a user for: the required ones. If one is missing that signing in
        gives, ask for the fields of signing in instead."""
        missing = [it for it in self.fields if it.required and not values.get(it.name)]
        if self.sign_in is None or not any(it.name == self.sign_in.gives for it in missing):
            return missing
        asked = [it for it in missing if it.name != self.sign_in.gives]
        return asked + [it for it in self.sign_in.fields if not values.get(it.name)]

    def setting(self, field: Field) -> str:
        """Return the name of the field's setting: `platforms.slack.app_token`."""
        return f"platforms.{self.platform}.{field.name}"

    def variable(self, field: Field) -> str:
        """Return the variable that overrides the field's setting: `SEGUE_SLACK_APP_TOKEN`."""
        return f"SEGUE_{self.platform}_{field.name}".upper()


class Groups(StrEnum):
    """Which messages the agent answers in a group chat."""

    ADDRESSED = "addressed"
    """Messages to the agent: a mention, a reply to it, or any message in one of its threads."""
    ALL = "all"


def function_name(text: str) -> str:
    """Return the name of a function, which is not imported yet, or raise ValueError."""
    module, colon, function = text.partition(":")
    names = [*module.split("."), function]
    if not (colon and all(name.isidentifier() for name in names)):
        raise ValueError("expected package.module:function")
    return text


class PlatformSettings(Struct, frozen=True, kw_only=True):
    """The settings of one platform."""

    platform: Platform
    enabled: Annotated[
        bool,
        Described(
            "whether a gateway serves the platform",
            default="true, if the platform has a table or any other setting",
        ),
    ] = True
    adapter: Annotated[
        str,
        Described(
            "your own adapter, as `package.module:function`",
            default="the built-in one",
            read=function_name,
        ),
    ] = ""
    groups: Annotated[
        Groups,
        Described(
            "whether the agent answers all messages of its owner in chats with several people, or"
            " only those that address it (by name, as a reply, or in a thread opened by Segue)"
        ),
    ] = Groups.ADDRESSED
    values: Annotated[
        Mapping[
            str,
            Annotated[
                str | Secret,
                Described(
                    "a value that the platform needs, such as its `token` (`SEGUE_TELEGRAM_TOKEN`),"
                    " or the `url` of your own server; tokens and other secrets are never shown:"
                    " see below",
                    ("SEGUE_PLATFORM_FIELD",),
                ),
            ],
        ],
        Entries("FIELD"),
    ] = field(default_factory=dict[str, str | Secret])
    """The fields that are set, by name. In the file they are in the same table as the others."""
    folder: Path = Path()
    """A private folder for the adapter's files. It may not exist."""

    def value(self, name: str) -> str:
        """Return the value of a field, secret or not; empty if it is not set."""
        found = self.values.get(name, "")
        return found.reveal() if isinstance(found, Secret) else found
