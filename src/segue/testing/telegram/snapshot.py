"""The state of the Telegram fake, as types: what it adds to the types of all platforms."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from segue.testing import peers
from segue.testing.telegram.markup import Entity


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


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The bot's settings at BotFather, and the properties of this server."""

    username: str = "segue_test_bot"
    topics: bool = True
    """Threaded mode in private chats: `has_topics_enabled`."""
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


class Chat(peers.Chat[int], frozen=True, kw_only=True):
    kind: Kind
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
    def supergroup(self) -> bool:
        return self.kind in (Kind.SUPERGROUP, Kind.FORUM)


class Topic(peers.Thread[int], frozen=True, kw_only=True):
    """Its id is the id of the message that opened it."""

    by: int
    """The user who opened it."""
    closed: bool = False


class Message(peers.Message[int], frozen=True, kw_only=True):
    """The author of a channel's post, and of an anonymous administrator's message, is 0."""

    topic: bool = False
    """Whether the thread is a topic: `is_topic_message`."""
    entities: tuple[Entity, ...] = ()
    preview: bool = True
    """Whether Telegram shows link previews."""
    service: bool = False
    """A service message, whose content is in `more`."""
    more: Mapping[str, object] = field(default_factory=dict[str, object])
    """Further fields that the bot gets."""
    date: int = 0
    edited: int = 0


class BotCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """#botcommand"""

    command: str
    description: str


class Shown(peers.Shown[int, Message, Topic], frozen=True, kw_only=True):
    """It does not include service messages."""

    answered: tuple[str, ...]
    """The callback queries that the bot answered."""
    menu: tuple[BotCommand, ...]
