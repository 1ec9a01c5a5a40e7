"""The control interface of the Telegram fake: the orders of a test."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from segue.testing import peers
from segue.testing.peers import Clear, Look, Shared
from segue.testing.telegram.snapshot import FileKind, Kind, Origin, Settings, Status


class SetBot(peers.Order, frozen=True):
    settings: Settings


class AddUser(peers.Order, frozen=True):
    """Returns the user's id."""

    name: str
    username: str = ""
    bot: bool = False


class AddChat(peers.Order, frozen=True):
    """Returns the chat's id. A private chat has the id of its user."""

    kind: Kind
    members: tuple[int, ...]
    title: str = ""
    description: str = ""
    status: Status = Status.MEMBER
    manage_topics: bool = False
    topics: bool | None = None


class SetRights(peers.Order, frozen=True):
    """Change the bot's status in that chat. The bot gets an update."""

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
    """Returns the message's id, or the id of the first message if there are several files."""

    user: int
    chat: int
    text: str
    thread: int | None = None
    reply_to: int | None = None
    files: tuple[Upload, ...] = ()
    album: str = ""
    """The album of the files, if earlier messages belong to it."""
    anonymous: bool = False
    """Send it as an administrator who appears as the group itself."""
    origin: Origin | None = None
    """The original author, for a forwarded message."""
    via_bot: int = 0
    quote: str = ""
    external: Origin | None = None


class Rewrite(peers.Order, frozen=True):
    chat: int
    message: int
    text: str


class React(peers.Order, frozen=True):
    """A user reacts to a message with an emoji."""

    chat: int
    message: int


class Press(peers.Order, frozen=True):
    """Returns the id of the callback query."""

    user: int
    chat: int
    message: int
    label: str
    old: bool = False
    """The message is too old for the bot to access."""


class Join(peers.Order, frozen=True):
    """A user adds the bot to a chat, or restarts the private chat."""

    user: int
    chat: int


class Migrate(peers.Order, frozen=True):
    """A group becomes a supergroup. Returns the supergroup's id."""

    chat: int
    topics: bool = False


class OpenTopic(peers.Order, frozen=True):
    """A user opens a topic. Returns its id."""

    user: int
    chat: int
    name: str


class CloseTopic(peers.Order, frozen=True):
    """A user closes or reopens a topic."""

    user: int
    chat: int
    thread: int
    closed: bool = True


class DeleteTopic(peers.Order, frozen=True):
    """A user deletes a topic and everything in it. The bot gets no update."""

    chat: int
    thread: int
    silently: bool = False
    """Later messages to the topic go to the main chat, as they did for some weeks in 2026."""


class Erase(peers.Order, frozen=True):
    """A user deletes a message. The bot gets no update."""

    chat: int
    message: int


class Deliver(peers.Order, frozen=True):
    """Deliver an update exactly as given, JSON or not. `{id}` is replaced by its id."""

    frame: str


class Recall(peers.Order, frozen=True):
    """Returns the calls so far, without polls; only of `method` if it is given."""

    method: str | None = None


class Fetch(peers.Order, frozen=True):
    """Returns the content of a file."""

    file: str


Order: TypeAlias = (
    SetBot | AddUser | AddChat | SetRights | Say | Rewrite | React | Press | Join | Migrate
    | OpenTopic | CloseTopic | DeleteTopic | Erase | Deliver | Recall | Fetch
    | Clear[Settings] | Look[int] | Shared
)  # fmt: skip
