"""The Telegram fake's state, its error responses, and the rules for chats and threads.

The format of errors is documented at core.telegram.org/bots/api#making-requests and
#responseparameters. The texts are from tdlib/telegram-bot-api (`Client.cpp`:
`fail_query_with_error`, `check_chat_access`, `check_message`) and from tdlib/td, which it is built
on. Texts in capitals come from the servers behind it. Where a module names no source, the text is
as reported by bots.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from segue.testing import peers
from segue.testing.http import Response
from segue.testing.peers import File, Pulse, Status, Trouble, Updates, Upload, User
from tests.fakes.protocols.entities import Entity
from tests.fakes.protocols.errors import bad_gateway

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


class Refuse(peers.Refuse):
    """Raised by the handler of a call: it is answered with this status and description."""

    def __init__(
        self, status: int, description: str, *, mistake: bool = False, **parameters: int
    ) -> None:
        answer = {"ok": False, "error_code": status, "description": description}
        more = {"parameters": parameters} if parameters else {}
        body = msgspec.json.encode({**answer, **more})
        super().__init__(description, Response(status, body=body), mistake=mistake)


def bad(reason: str) -> Refuse:
    return Refuse(400, f"Bad Request: {reason}")


def mistake(reason: str) -> Refuse:
    """A call that no bot should make, such as one with a parameter that does not exist."""
    return Refuse(400, f"Bad Request: {reason}", mistake=True)


def forbidden(reason: str) -> Refuse:
    return Refuse(403, f"Forbidden: {reason}")


def too_often(seconds: float) -> Refuse:
    wait = max(math.ceil(seconds), 1)
    return Refuse(429, f"Too Many Requests: retry after {wait}", retry_after=wait)


def injected(trouble: Trouble, seconds: float) -> peers.Refuse:
    """Return the error for a fault that a test ordered."""
    if trouble is Trouble.BUSY:
        return too_often(seconds)
    if trouble is Trouble.FORBIDDEN:
        return forbidden("bot was kicked from the supergroup chat")
    return bad_gateway()


UpdateType = Literal["message", "edited_message", "callback_query", "my_chat_member"]
_FIRST_UPDATE = 480_000_001
_FIRST_GROUP = -4_000_000_001
_FIRST_SUPERGROUP = -1_002_000_000_001


class State(peers.State[Settings, int, Chat, Topic, Message]):
    def __init__(self, settings: Settings, bot: int, pulse: Pulse) -> None:
        super().__init__(settings, pulse, Updates(pulse, _FIRST_UPDATE), injected)
        self.bot = bot
        self.users[bot] = User(id=bot, name="Segue", username=settings.username, bot=True)
        self.allowed: tuple[str, ...] = ()
        """The types of update that the bot receives; empty for all."""
        self.leaky: set[tuple[int, int]] = set()
        """Deleted topics whose messages go to the main chat."""
        self.menu: tuple[BotCommand, ...] = ()

    def chat_id(self, kind: Kind) -> int:
        first = _FIRST_GROUP if kind is Kind.GROUP else _FIRST_SUPERGROUP
        return self.number(f"chat {first}", first, step=-1)

    def message_id(self, chat: Chat) -> int:
        """Id 1 is the creation of the chat. Private chats and groups share one counter. Each
        supergroup has its own, so messages and topics of two supergroups can have the same id."""
        alone = chat.kind not in (Kind.PRIVATE, Kind.GROUP)
        return self.number(f"message {chat.id}" if alone else "message", 2)

    # Lookups

    def user(self, name: int) -> User[int]:
        if (user := self.users.get(name)) is None:
            raise bad("user not found")
        return user

    def chat(self, name: int | str) -> Chat:
        """The chat with that id, as the bot sees it: `check_chat` of tdlib/telegram-bot-api."""
        number = int(name) if re.fullmatch(r"-?\d+", str(name)) else 0
        if (found := self.chats.get(number)) is not None:
            return found
        if (user := self.users.get(number)) is None:
            raise bad("chat not found")
        to_user = "bot can't initiate conversation with a user"
        raise forbidden("bots can't send messages to bots" if user.bot else to_user)

    def writable(self, name: int | str) -> Chat:
        """The same chat, if the bot may write there."""
        chat = self.chat(name)
        if chat.became is not None:
            reason = "Bad Request: group chat was upgraded to a supergroup chat"
            raise Refuse(400, reason, migrate_to_chat_id=chat.became)
        if chat.status is Status.KICKED:
            kicked = f"kicked from the {chat.type} chat"
            raise forbidden(f"bot was {'blocked by the user' if chat.private else kicked}")
        if chat.status is Status.LEFT:
            raise forbidden(f"bot is not a member of the {chat.type} chat")
        if chat.kind is Kind.CHANNEL and chat.status is not Status.ADMINISTRATOR:
            raise bad("need administrator rights in the channel chat")
        return chat

    def readable(self, name: int | str) -> Chat:
        """The same chat, if the bot may read there: also a group that was upgraded."""
        chat = self.chat(name)
        return chat if chat.private or chat.became is not None else self.writable(name)

    def message(self, chat: Chat, name: int, what: str) -> Message:
        if (found := self.messages.get((chat.id, name))) is None:
            raise bad(f"{what} not found")
        return found

    # Topics

    def has_topics(self, chat: Chat) -> bool:
        if chat.private:
            return self.settings.topics if chat.topics is None else chat.topics
        return chat.kind is Kind.FORUM

    def place(self, chat: Chat, thread: int | None, by: int) -> tuple[int | None, bool]:
        """The thread of a message with that `message_thread_id`, and whether it is a topic. The
        general topic of a forum has no id: python-telegram-bot issue 4739. In a closed topic, its
        creator and users who manage topics can still write; it stays closed."""
        if thread is None or (chat.id, thread) in self.leaky:
            return None, False
        topic = self.threads.get((chat.id, thread))
        if topic is None or not self.has_topics(chat):
            raise bad("message thread not found")
        manages = chat.manage_topics if by == self.bot else by == chat.members[0]
        if topic.closed and by != topic.by and not manages:
            raise bad("TOPIC_CLOSED")
        return thread, True

    def beside(self, chat: Chat, reply_to: int | None) -> tuple[int | None, bool]:
        """The place of a reply that names no thread. In a supergroup it has the thread of the other
        message, although that is no topic: tdlib/telegram-bot-api issues 356 and 447."""
        replied = None if reply_to is None else self.messages.get((chat.id, reply_to))
        if replied is None or not (replied.topic or chat.supergroup):
            return None, False
        return replied.thread or replied.id, replied.topic

    def forum(self, name: int | str) -> Chat:
        """The chat, if the bot may write there and it has topics."""
        chat = self.writable(name)
        if not self.has_topics(chat):
            raise bad("the chat is not a forum")
        return chat

    def open_topic(self, chat: Chat, title: str, by: int) -> Topic:
        """Open a topic with a service message. They have the same id."""
        more = {"forum_topic_created": {"name": title, "icon_color": 7322096}}
        number = self.service(chat, by, more).id
        topic = Topic(chat=chat.id, id=number, title=title, by=by)
        self.threads[chat.id, number] = topic
        return topic

    def service(
        self, chat: Chat, by: int, more: Mapping[str, object], thread: int | None = None
    ) -> Message:
        """Post a service message, in a topic if it has a thread or opens one."""
        number = self.message_id(chat)
        thread = number if "forum_topic_created" in more else thread
        at = Message(chat=chat.id, id=number, thread=thread, topic=thread is not None, author=by)
        return self.put(replace(at, service=True, more=more))

    def store(self, upload: Upload) -> File:
        return self.add_file(f"BQACAgIAAxkBAAI{self.number('file'):05d}", upload)

    def tell(self, kind: str, payload: object) -> None:
        """Queue an update, if the bot wants this type."""
        if not self.allowed or kind in self.allowed:
            self.tell_raw({kind: payload})

    def tell_raw(self, update: Mapping[str, object]) -> None:
        self.updates.add(lambda number: json.dumps({**update, "update_id": number}))

    def snapshot(self, chat: int | None) -> Shown:
        return Shown(**self.shown(chat), menu=self.menu)
