"""What a test tells this Telegram to do: the control side in types."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from segue.testing.platform.orders import Calm, Fail, Hold, Inject, Open, Release, Repeat, Shut
from segue.testing.telegram.shown import FileKind, Kind, Settings, Status


class _Order(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=str.lower):
    pass


class SetBot(_Order, frozen=True):
    settings: Settings


class AddUser(_Order, frozen=True):
    """Answered with the user's id."""

    name: str
    username: str = ""
    bot: bool = False


class AddChat(_Order, frozen=True):
    """Answered with the chat's id; that of a private chat is the person's."""

    kind: Kind
    members: tuple[int, ...]
    title: str = ""
    description: str = ""
    status: Status = Status.MEMBER
    manage_topics: bool = False
    topics: bool | None = None


class SetRights(_Order, frozen=True):
    """What the bot is in that chat from now on; it is told."""

    user: int
    chat: int
    status: Status
    manage_topics: bool = False


class Upload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    media_type: str
    content: bytes
    kind: FileKind = FileKind.DOCUMENT


class Say(_Order, frozen=True):
    """Answered with the id of the message, or of the first one when there are several files."""

    user: int
    chat: int
    text: str
    thread: int | None = None
    reply_to: int | None = None
    files: tuple[Upload, ...] = ()
    anonymous: bool = False
    """As an administrator who shows as the group itself."""


class Rewrite(_Order, frozen=True):
    chat: int
    message: int
    text: str


class Press(_Order, frozen=True):
    """Answered with the id of the query."""

    user: int
    chat: int
    message: int
    label: str
    old: bool = False
    """The message is too old for the bot to see."""


class Join(_Order, frozen=True):
    """A person adds the bot to a chat, or begins the private one anew."""

    user: int
    chat: int


class Migrate(_Order, frozen=True):
    """A group becomes a supergroup; answered with the id of that."""

    chat: int


class OpenTopic(_Order, frozen=True):
    """A person opens one; answered with its id."""

    user: int
    chat: int
    name: str


class CloseTopic(_Order, frozen=True):
    """A person closes it, or reopens it."""

    user: int
    chat: int
    thread: int
    closed: bool = True


class DeleteTopic(_Order, frozen=True):
    """A person deletes it, and all that is in it. The bot is not told."""

    chat: int
    thread: int
    silently: bool = False
    """What is sent there comes to the main chat, as it did for some weeks in 2026."""


class Erase(_Order, frozen=True):
    """A person deletes a message. The bot is not told."""

    chat: int
    message: int


class Clear(_Order, frozen=True):
    """Everything is as it was at the start."""

    settings: Settings = Settings()


class Look(_Order, frozen=True):
    """Answered with Shown, once its version is past `after`, or when the time is over."""

    after: int = -1
    seconds: float = 0.0
    chat: int | None = None
    """Only what is in this chat."""


class Recall(_Order, frozen=True):
    """Answered with the calls so far, but for polls; of one method, if one is named."""

    method: str | None = None


class Fetch(_Order, frozen=True):
    """Answered with the bytes of a file."""

    file: str


Order: TypeAlias = (
    SetBot | AddUser | AddChat | SetRights | Say | Rewrite | Press | Join | Migrate | OpenTopic
    | CloseTopic | DeleteTopic | Erase | Clear | Look | Recall | Fetch
    | Fail | Calm | Inject | Repeat | Hold | Release | Shut | Open
)  # fmt: skip
