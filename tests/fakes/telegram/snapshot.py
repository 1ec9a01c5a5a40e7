"""The state of the Telegram fake, as types: what it adds to the types of all platforms."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, field

from segue.testing import peers
from tests.fakes.protocols.entities import Entity

Topic: TypeAlias = peers.Thread[int]


class Kind(StrEnum):
    """The kinds of chat. A forum is a supergroup with topics."""

    PRIVATE = "private"
    """One user and the bot; has topics if the bot has them enabled."""
    GROUP = "group"
    """A basic group: it has no topics, and can be upgraded."""
    SUPERGROUP = "supergroup"
    FORUM = "forum"
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
    username: str = ""
    """The public name of a group that anyone can read."""
    hides_members: bool = False
    """Only administrators see who is in it."""

    @property
    def private(self) -> bool:
        return self.kind is Kind.PRIVATE

    @property
    def topics_managed(self) -> bool:
        return self.private or (self.status is peers.Status.ADMINISTRATOR and self.manage_topics)

    @property
    def supergroup(self) -> bool:
        return self.kind in (Kind.SUPERGROUP, Kind.FORUM)

    @property
    def type(self) -> str:
        """Its kind, as the bot sees it."""
        return "supergroup" if self.supergroup else self.kind.value


class Message(peers.Message[int], frozen=True, kw_only=True):
    topic: bool = False
    """Whether the thread is a topic: `is_topic_message`."""
    entities: tuple[Entity, ...] = ()
    more: Mapping[str, object] = field(default_factory=dict[str, object])
    """Further fields that the bot gets."""


class BotCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(pattern=r"^/?[a-z0-9_]{1,32}$")]
    description: Annotated[str, Meta(min_length=1, max_length=256)]


class Shown(peers.Shown[int, Message, Topic], frozen=True, kw_only=True):
    menu: tuple[BotCommand, ...]
