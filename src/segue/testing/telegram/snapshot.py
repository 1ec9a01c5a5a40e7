"""The state of the Telegram fake, as types: users, chats, topics and messages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from segue.testing import peers
from segue.testing.telegram.entities import Entity
from segue.testing.telegram.wire import BotCommand, Scope


class Kind(StrEnum):
    """The kinds of chat."""

    PRIVATE = "private"
    """One user and the bot; has topics if the bot has them enabled."""
    GROUP = "group"
    """A basic group: it has no topics, and can be upgraded."""
    SUPERGROUP = "supergroup"
    """A supergroup without topics. A reply still has a thread."""
    FORUM = "forum"
    """A supergroup with topics."""
    CHANNEL = "channel"


class Status(StrEnum):
    """The bot's status in a chat: core.telegram.org/bots/api#chatmember"""

    ADMINISTRATOR = "administrator"
    MEMBER = "member"
    LEFT = "left"
    KICKED = "kicked"


class FileKind(StrEnum):
    DOCUMENT = "document"
    PHOTO = "photo"
    """Telegram keeps neither its name nor its media type."""
    VOICE = "voice"
    AUDIO = "audio"
    VIDEO = "video"


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The bot's settings at BotFather, and the properties of this server."""

    name: str = "Segue"
    username: str = "segue_test_bot"
    topics: bool = True
    """Threaded mode in private chats: `has_topics_enabled`."""
    users_open_topics: bool = True
    reads_all: bool = True
    """Privacy mode is off: `can_read_all_group_messages`."""
    missing: tuple[str, ...] = ()
    """Methods that this server does not support yet."""
    revoked: bool = False
    """The token is no longer valid."""
    webhook: str = ""
    """The URL that receives updates. A bot with a webhook cannot poll."""
    chat_seconds: float = 0.0
    """Minimum seconds between two messages in one chat; 0 for no limit. Telegram's is 1."""
    per_second: float = 0.0
    """Maximum messages per second across all chats; 0 for no limit. Telegram's is 30."""


class User(Struct, frozen=True, kw_only=True):
    id: int
    name: str
    username: str = ""
    bot: bool = False


class Chat(Struct, frozen=True, kw_only=True):
    id: int
    kind: Kind
    title: str = ""
    description: str = ""
    members: tuple[int, ...] = ()
    """The members other than the bot."""
    status: Status = Status.MEMBER
    """The bot's status. KICKED in a private chat means that the user blocked it."""
    manage_topics: bool = False
    """Whether the bot may manage topics."""
    topics: bool | None = None
    """Whether a private chat has topics; None to use the bot's setting."""
    became: int | None = None
    """The supergroup that this group was upgraded to."""

    @property
    def private(self) -> bool:
        return self.kind is Kind.PRIVATE

    @property
    def super(self) -> bool:
        """Whether the chat numbers its own messages."""
        return self.kind in (Kind.SUPERGROUP, Kind.FORUM, Kind.CHANNEL)


class Topic(Struct, frozen=True, kw_only=True):
    chat: int
    id: int
    """The thread id, which is the id of the message that opened the topic."""
    name: str
    by: int
    """The user who opened it."""
    closed: bool = False


class Button(Struct, frozen=True, kw_only=True):
    label: str
    data: str | None = None
    url: str | None = None
    row: int = 0


class File(Struct, frozen=True, kw_only=True):
    """A file in a message. Its content is stored separately."""

    id: str
    kind: FileKind
    name: str
    media_type: str
    size: int


class OriginKind(StrEnum):
    """core.telegram.org/bots/api#messageorigin"""

    USER = "user"
    HIDDEN_USER = "hidden_user"
    """A user who does not allow forwards to link to them; only their name is known."""
    CHAT = "chat"
    """An administrator who appears as the group itself."""
    CHANNEL = "channel"


class Origin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The original author of a forwarded message."""

    kind: OriginKind
    id: int = 0
    """The id of the user or the chat."""
    name: str = ""
    """The name of a hidden user."""


class Message(Struct, frozen=True, kw_only=True):
    """One message as users see it."""

    chat: int
    id: int
    thread: int | None = None
    """The bot gets it as `message_thread_id`."""
    topic: bool = False
    """Whether the thread is a topic: `is_topic_message`."""
    author: int
    """A user's id; 0 for a channel and for an anonymous administrator."""
    text: str = ""
    """The displayed text, or a file's caption."""
    entities: tuple[Entity, ...] = ()
    source: str = ""
    """The text as the bot sent it, with markup."""
    buttons: tuple[Button, ...] = ()
    file: File | None = None
    album: str = ""
    reply_to: int | None = None
    quote: str = ""
    """The part of that message which the reply quotes."""
    external: Origin | None = None
    """The author of the message, if it replies to one in another chat."""
    origin: Origin | None = None
    """The original author, if the message is forwarded."""
    via_bot: int = 0
    """The inline bot that wrote the message."""
    preview: bool = True
    """Whether Telegram shows link previews."""
    quiet: bool = False
    service: Mapping[str, object] | None = None
    """The content of a service message."""
    earlier: tuple[str, ...] = ()
    """The text before each edit, oldest first."""
    reactions: tuple[str, ...] = ()
    """The bot's reactions."""
    date: int = 0
    edited: int = 0
    at: float = field(default_factory=time.monotonic)
    """When it got this text, on the monotonic clock that all processes of the machine share."""

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(button.label for button in self.buttons)


class Typing(Struct, frozen=True, kw_only=True):
    chat: int
    thread: int | None
    action: str
    times: int


class Draft(Struct, frozen=True, kw_only=True):
    """A draft that users see until a message replaces it."""

    chat: int
    thread: int | None
    id: int
    text: str
    times: int = 1
    """The number of changes."""


class Answered(Struct, frozen=True, kw_only=True):
    """A pressed button, and the bot's answer."""

    query: str
    text: str
    alert: bool


class Menu(Struct, frozen=True, kw_only=True):
    """The command menu of one scope and language."""

    scope: Scope
    language: str
    commands: tuple[BotCommand, ...]


class Called(Struct, frozen=True, kw_only=True):
    """A call and its result."""

    method: str
    parameters: Mapping[str, object]
    """As they came, with the name, type and size of each file."""
    status: int
    """0 if the connection was dropped."""
    description: str = ""
    at: float = field(default_factory=time.monotonic)


class Shown(peers.Shown[Message], frozen=True, kw_only=True):
    """A snapshot of what a test can see. It does not include service messages."""

    topics: tuple[Topic, ...]
    """Topics that are not deleted."""
    typing: tuple[Typing, ...]
    drafts: tuple[Draft, ...]
    answered: tuple[Answered, ...]
    menus: tuple[Menu, ...]
    counts: Mapping[str, int]
    """The number of calls of each method, including refused ones."""
    errors: tuple[str, ...]
    """The bot's invalid calls. Must be empty at the end of every test."""
