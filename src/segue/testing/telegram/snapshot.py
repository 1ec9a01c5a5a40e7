"""The state of the Telegram fake, as types: what it adds to the types of all platforms."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct, field

from segue.testing import peers
from segue.testing.telegram.markup import Entity

Topic: TypeAlias = peers.Thread[int]
"""Its id is the id of the message that opened it."""


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


class Settings(peers.Settings, frozen=True, kw_only=True):
    """The bot's settings at BotFather."""

    username: str = "segue_test_bot"
    topics: bool = True
    """Threaded mode in private chats: `has_topics_enabled`."""
    reads_all: bool = True
    """Privacy mode is off: `can_read_all_group_messages`."""
    webhook: str = ""
    """The URL that receives updates. A bot with a webhook cannot poll."""


class Chat(peers.Chat[int], frozen=True, kw_only=True):
    kind: Kind
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


class Message(peers.Message[int], frozen=True, kw_only=True):
    """The author of a channel's post, and of an anonymous administrator's message, is 0."""

    topic: bool = False
    """Whether the thread is a topic: `is_topic_message`."""
    entities: tuple[Entity, ...] = ()
    more: Mapping[str, object] = field(default_factory=dict[str, object])
    """Further fields that the bot gets."""


class BotCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """#botcommand"""

    command: str
    description: str


class Shown(peers.Shown[int, Message, Topic], frozen=True, kw_only=True):
    menu: tuple[BotCommand, ...]
