"""What there is on this Telegram, in types: its people, chats, topics and messages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from segue.testing import peers
from segue.testing.telegram.entities import Entity
from segue.testing.telegram.wire import BotCommand, Scope


class Kind(StrEnum):
    """The kinds of chat that there are."""

    PRIVATE = "private"
    """One person and the bot; with topics, where the bot has them switched on."""
    GROUP = "group"
    """A basic group, which has no topics and can be upgraded."""
    SUPERGROUP = "supergroup"
    """Without topics; a reply there has a thread all the same."""
    FORUM = "forum"
    """A supergroup with topics."""
    CHANNEL = "channel"


class Status(StrEnum):
    """What the bot is in a chat: core.telegram.org/bots/api#chatmember"""

    ADMINISTRATOR = "administrator"
    MEMBER = "member"
    LEFT = "left"
    KICKED = "kicked"


class FileKind(StrEnum):
    DOCUMENT = "document"
    PHOTO = "photo"
    """Telegram keeps neither its name nor its type."""
    VOICE = "voice"
    AUDIO = "audio"
    VIDEO = "video"


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the bot's owner chose at BotFather, and what this server is like."""

    name: str = "Segue"
    username: str = "segue_test_bot"
    topics: bool = True
    """Threaded mode in private chats: `has_topics_enabled`."""
    users_open_topics: bool = True
    reads_all: bool = True
    """Privacy mode is off: `can_read_all_group_messages`."""
    missing: tuple[str, ...] = ()
    """Methods that this server does not have yet."""
    revoked: bool = False
    """The token is nobody's any more."""
    webhook: str = ""
    """Where updates go; no bot that polls can have one."""
    chat_seconds: float = 0.0
    """The least time between two messages in one chat; 0: there is none. Telegram's is 1."""
    per_second: float = 0.0
    """Messages in a second to all chats; 0: any number. Telegram's is 30."""


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
    """Beside the bot."""
    status: Status = Status.MEMBER
    """The bot's; KICKED in a private chat: it is blocked."""
    manage_topics: bool = False
    """The bot's right."""
    topics: bool | None = None
    """Of a private chat: whether it has any, if not as the bot has."""
    became: int | None = None
    """The supergroup that this group was upgraded to."""

    @property
    def private(self) -> bool:
        return self.kind is Kind.PRIVATE

    @property
    def super(self) -> bool:
        """Whether it counts its messages by itself."""
        return self.kind in (Kind.SUPERGROUP, Kind.FORUM, Kind.CHANNEL)


class Topic(Struct, frozen=True, kw_only=True):
    chat: int
    id: int
    """The thread's, which is the id of the message that opened it."""
    name: str
    by: int
    """Who opened it."""
    closed: bool = False


class Button(Struct, frozen=True, kw_only=True):
    label: str
    data: str | None = None
    url: str | None = None
    row: int = 0


class File(Struct, frozen=True, kw_only=True):
    """A file in a message; its bytes are kept apart."""

    id: str
    kind: FileKind
    name: str
    media_type: str
    size: int


class OriginKind(StrEnum):
    """core.telegram.org/bots/api#messageorigin"""

    USER = "user"
    HIDDEN_USER = "hidden_user"
    """Of a person who does not let forwards link to them: their name is all there is."""
    CHAT = "chat"
    """An administrator who shows as the group itself."""
    CHANNEL = "channel"


class Origin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who wrote a forwarded message first."""

    kind: OriginKind
    id: int = 0
    """The user's, or the chat's."""
    name: str = ""
    """Of a hidden user."""


class Message(Struct, frozen=True, kw_only=True):
    """One message as people see it."""

    chat: int
    id: int
    thread: int | None = None
    """What the bot is told as `message_thread_id`."""
    topic: bool = False
    """Whether that is a topic: `is_topic_message`."""
    author: int
    """A user's id; 0 for a channel's and for an anonymous administrator's."""
    text: str = ""
    """As it is displayed; a file's caption."""
    entities: tuple[Entity, ...] = ()
    source: str = ""
    """As the bot wrote it, with its markup."""
    buttons: tuple[Button, ...] = ()
    file: File | None = None
    album: str = ""
    reply_to: int | None = None
    quote: str = ""
    """The part of that message which the reply quotes."""
    external: Origin | None = None
    """Who wrote the message of another chat that it replies to."""
    origin: Origin | None = None
    """It is forwarded."""
    via_bot: int = 0
    """The bot that wrote it, for its author to send."""
    preview: bool = True
    """Links in it are fetched."""
    quiet: bool = False
    service: Mapping[str, object] | None = None
    """Of a message that Telegram itself writes: what it says."""
    earlier: tuple[str, ...] = ()
    """What it said before each edit, the oldest first."""
    reactions: tuple[str, ...] = ()
    """The bot's."""
    date: int = 0
    edited: int = 0
    at: float = field(default_factory=time.monotonic)
    """When it came to say this, on the clock that all processes of the machine share."""

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(button.label for button in self.buttons)


class Typing(Struct, frozen=True, kw_only=True):
    chat: int
    thread: int | None
    action: str
    times: int


class Draft(Struct, frozen=True, kw_only=True):
    """What is shown as being written; gone once a message comes there."""

    chat: int
    thread: int | None
    id: int
    text: str
    times: int = 1
    """How often it changed."""


class Answered(Struct, frozen=True, kw_only=True):
    """A button that was pressed, and the bot's word on it."""

    query: str
    text: str
    alert: bool


class Menu(Struct, frozen=True, kw_only=True):
    """The commands that people are offered somewhere."""

    scope: Scope
    language: str
    commands: tuple[BotCommand, ...]


class Called(Struct, frozen=True, kw_only=True):
    """A call, and how it went."""

    method: str
    parameters: Mapping[str, object]
    """As they came; a file is its name and size."""
    status: int
    """0: the connection was cut."""
    description: str = ""
    at: float = field(default_factory=time.monotonic)


class Shown(peers.Shown[Message], frozen=True, kw_only=True):
    """What there is to see; of the messages, not those of Telegram itself."""

    topics: tuple[Topic, ...]
    """Those that are not deleted."""
    typing: tuple[Typing, ...]
    drafts: tuple[Draft, ...]
    answered: tuple[Answered, ...]
    menus: tuple[Menu, ...]
    counts: Mapping[str, int]
    """How often each method was called, refused or not."""
    errors: tuple[str, ...]
    """What the bot did wrong: must be empty at the end of every test."""
