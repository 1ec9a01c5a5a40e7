"""The state that all platforms have in common, as types: users, chats, threads and messages.

A fake adds the fields that only its platform has. A test sees them in a `Shown`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

Id = TypeVar("Id", bound=int | str)
"""The type of the platform's ids."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Properties of the bot's account and of the server. The defaults suit most tests."""

    missing: tuple[str, ...] = ()
    """Methods that this server does not support yet."""
    revoked: bool = False
    """The token is no longer valid."""
    chat_seconds: float = 0.0
    """Minimum seconds between two messages in one chat; 0 for no limit."""
    per_second: float = 0.0
    """Maximum messages per second across all chats; 0 for no limit."""


class Status(StrEnum):
    """The bot's status in a chat."""

    ADMINISTRATOR = "administrator"
    MEMBER = "member"
    LEFT = "left"
    KICKED = "kicked"


class User(Struct, Generic[Id], frozen=True, kw_only=True):
    id: Id
    name: str
    username: str = ""
    bot: bool = False


class Chat(Struct, Generic[Id], frozen=True, kw_only=True):
    id: Id
    title: str = ""
    members: tuple[Id, ...] = ()
    """The members other than the bot."""
    status: Status = Status.MEMBER
    """The bot's status. KICKED in a direct message means that the user blocked it."""

    @property
    def joined(self) -> bool:
        return self.status not in (Status.LEFT, Status.KICKED)


class Thread(Struct, Generic[Id], frozen=True, kw_only=True):
    id: Id
    chat: Id
    title: str
    by: Id | None = None
    """The user who opened it."""
    closed: bool = False


class Button(Struct, frozen=True, kw_only=True):
    label: str
    data: str
    row: int = 0


class FileKind(StrEnum):
    DOCUMENT = "document"
    PHOTO = "photo"


class Upload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that a user or the bot sends."""

    name: str
    media_type: str
    content: bytes
    kind: FileKind = FileKind.DOCUMENT


class File(Struct, frozen=True, kw_only=True):
    """A file in a message. Its content is stored separately."""

    id: str
    name: str
    media_type: str
    size: int
    kind: FileKind


class Message(Struct, Generic[Id], frozen=True, kw_only=True):
    """One message as users see it."""

    id: Id
    chat: Id
    thread: Id | None = None
    author: Id
    text: str = ""
    """The displayed text, or a file's caption."""
    buttons: tuple[Button, ...] = ()
    files: tuple[File, ...] = ()
    reply_to: Id | None = None
    preview: bool = True
    """Whether the platform shows link previews."""
    service: bool = False
    """Posted by the platform itself, such as "Anna joined". Snapshots do not include it."""
    earlier: tuple[str, ...] = ()
    """The text before each edit, oldest first."""
    date: int = field(default_factory=lambda: int(time.time()))
    edited: int = 0
    """The date of the last edit."""
    at: float = field(default_factory=time.monotonic)
    """When it got this text, on the monotonic clock that all processes of the machine share."""

    @property
    def file(self) -> File | None:
        return self.files[0] if self.files else None

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(button.label for button in self.buttons)


class Interaction(Struct, Generic[Id], frozen=True):
    """A button that a user pressed, or a command, which the bot must acknowledge in time."""

    id: Id
    kind: int
    user: Id
    place: Id
    """The chat or thread."""
    message: Id | None
    """The message with the button."""
    data: Mapping[str, Any]
    token: str
    """What the bot acknowledges it with."""
    at: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long ago it was."""
        return time.monotonic() - self.at


class Typing(Struct, Generic[Id], frozen=True, kw_only=True):
    chat: Id
    thread: Id | None
    times: int


class Draft(Struct, Generic[Id], frozen=True, kw_only=True):
    """A preview of a message, shown until a message replaces it."""

    chat: Id
    thread: Id | None
    text: str
    id: int = 0
    times: int = 1
    """The number of changes."""


class Called(Struct, frozen=True, kw_only=True):
    """A call and its result."""

    method: str
    parameters: Mapping[str, object]
    status: int
    """0 if the connection was dropped."""
    description: str = ""
    """The reason for a refusal."""
    at: float = field(default_factory=time.monotonic)


AnyMessage = TypeVar("AnyMessage", bound=Message[Any])
AnyThread = TypeVar("AnyThread", bound=Thread[Any])


class Shown(Struct, Generic[Id, AnyMessage, AnyThread], frozen=True, kw_only=True):
    """A snapshot of what a test can see, only of one chat if the test asked for one."""

    version: int
    messages: tuple[AnyMessage, ...]
    """In order of arrival."""
    threads: tuple[AnyThread, ...]
    """Threads that are not deleted."""
    typing: tuple[Typing[Id], ...]
    drafts: tuple[Draft[Id], ...]
    answered: tuple[str, ...]
    """The button presses that the bot acknowledged."""
    calls: Mapping[str, int]
    """The number of calls of each method, including refused ones."""
    errors: tuple[str, ...]
    """The bot's mistakes. Must be empty at the end of every test."""
    hanging: int
    """The number of calls that hang now."""
    unconfirmed: int
    """The number of updates that the bot has not confirmed."""

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]
