"""What a test tells this Telegram to do: the control side in types."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from segue.testing import peers
from segue.testing.peers import Clear, Look, Shared
from segue.testing.telegram.snapshot import FileKind, Kind, Origin, Settings, Status


class SetBot(peers.Order, frozen=True):
    settings: Settings


class AddUser(peers.Order, frozen=True):
    """Answered with the user's id."""

    name: str
    username: str = ""
    bot: bool = False


class AddChat(peers.Order, frozen=True):
    """Answered with the chat's id; that of a private chat is the person's."""

    kind: Kind
    members: tuple[int, ...]
    title: str = ""
    description: str = ""
    status: Status = Status.MEMBER
    manage_topics: bool = False
    topics: bool | None = None


class SetRights(peers.Order, frozen=True):
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


class Say(peers.Order, frozen=True):
    """Answered with the id of the message, or of the first one when there are several files."""

    user: int
    chat: int
    text: str
    thread: int | None = None
    reply_to: int | None = None
    files: tuple[Upload, ...] = ()
    album: str = ""
    """The album of the files, if others said some of it before."""
    anonymous: bool = False
    """As an administrator who shows as the group itself."""
    origin: Origin | None = None
    """They forward what that one wrote."""
    via_bot: int = 0
    quote: str = ""
    external: Origin | None = None


class Rewrite(peers.Order, frozen=True):
    chat: int
    message: int
    text: str


class React(peers.Order, frozen=True):
    """A person reacts to a message with an emoji."""

    chat: int
    message: int


class Press(peers.Order, frozen=True):
    """Answered with the id of the query."""

    user: int
    chat: int
    message: int
    label: str
    old: bool = False
    """The message is too old for the bot to see."""


class Join(peers.Order, frozen=True):
    """A person adds the bot to a chat, or begins the private one anew."""

    user: int
    chat: int


class Migrate(peers.Order, frozen=True):
    """A group becomes a supergroup; answered with the id of that."""

    chat: int
    topics: bool = False


class OpenTopic(peers.Order, frozen=True):
    """A person opens one; answered with its id."""

    user: int
    chat: int
    name: str


class CloseTopic(peers.Order, frozen=True):
    """A person closes it, or reopens it."""

    user: int
    chat: int
    thread: int
    closed: bool = True


class DeleteTopic(peers.Order, frozen=True):
    """A person deletes it, and all that is in it. The bot is not told."""

    chat: int
    thread: int
    silently: bool = False
    """What is sent there comes to the main chat, as it did for some weeks in 2026."""


class Erase(peers.Order, frozen=True):
    """A person deletes a message. The bot is not told."""

    chat: int
    message: int


class Deliver(peers.Order, frozen=True):
    """An update as it is, JSON or not; `{id}` in it becomes its id."""

    frame: str


class Recall(peers.Order, frozen=True):
    """Answered with the calls so far, but for polls; of one method, if one is named."""

    method: str | None = None


class Fetch(peers.Order, frozen=True):
    """Answered with the bytes of a file."""

    file: str


Order: TypeAlias = (
    SetBot | AddUser | AddChat | SetRights | Say | Rewrite | React | Press | Join | Migrate
    | OpenTopic | CloseTopic | DeleteTopic | Erase | Deliver | Recall | Fetch
    | Clear[Settings] | Look[int] | Shared
)  # fmt: skip
