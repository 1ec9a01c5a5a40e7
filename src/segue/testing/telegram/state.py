"""The Telegram fake's state, and the rules for chats and threads."""

from __future__ import annotations

import itertools
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import Pulse, Updates, User
from segue.testing.telegram import errors
from segue.testing.telegram.errors import Refuse, bad, forbidden
from segue.testing.telegram.snapshot import (
    BotCommand,
    Chat,
    File,
    FileKind,
    Kind,
    Message,
    Settings,
    Shown,
    Status,
    Topic,
)

UpdateType = Literal[
    "message", "edited_message", "channel_post", "edited_channel_post", "business_connection",
    "business_message", "edited_business_message", "deleted_business_messages", "guest_message",
    "message_reaction", "message_reaction_count", "inline_query", "chosen_inline_result",
    "callback_query", "shipping_query", "pre_checkout_query", "purchased_paid_media", "poll",
    "poll_answer", "my_chat_member", "chat_member", "chat_join_request", "chat_boost",
    "removed_chat_boost", "managed_bot",
]  # fmt: skip
USUAL = frozenset(get_args(UpdateType)) - {
    "chat_member", "message_reaction", "message_reaction_count"
}  # fmt: skip
"""The types of update that a bot receives without asking for them by name."""
_FIRST_UPDATE = 480_000_001
_FIRST_USER = 5_000_000_001
_FIRST_GROUP = -4_000_000_001
_FIRST_SUPERGROUP = -1_002_000_000_001
_TOPIC_COLOR = 7322096


class State(peers.State[Settings, int, Chat, Topic, Message]):
    def __init__(self, settings: Settings, bot: int, pulse: Pulse) -> None:
        super().__init__(settings, pulse, Updates(pulse, _FIRST_UPDATE), errors.injected)
        self.bot = bot
        self.webhook = settings.webhook
        self.allowed: frozenset[str] = USUAL
        self.leaky: set[tuple[int, int]] = set()
        """Deleted topics whose messages go to the main chat."""
        self.files: dict[str, tuple[File, bytes]] = {}
        self.queries: set[str] = set()
        self.answered: list[str] = []
        self.menu: tuple[BotCommand, ...] = ()
        self._users = itertools.count(_FIRST_USER)
        self._groups = itertools.count(_FIRST_GROUP, -1)
        self._supergroups = itertools.count(_FIRST_SUPERGROUP, -1)
        self._numbers = itertools.count(1)
        # Private chats and groups share one counter. Each supergroup has its own, so messages and
        # topics of two supergroups can have the same id. Id 1 is the creation of the chat.
        self._together = itertools.count(2)
        self._apart: defaultdict[int, Iterator[int]] = defaultdict(lambda: itertools.count(2))

    # Ids

    def user_id(self) -> int:
        return next(self._users)

    def chat_id(self, kind: Kind) -> int:
        return next(self._groups if kind is Kind.GROUP else self._supergroups)

    def message_id(self, chat: Chat) -> int:
        alone = chat.kind not in (Kind.PRIVATE, Kind.GROUP)
        return next(self._apart[chat.id] if alone else self._together)

    def number(self) -> int:
        return next(self._numbers)

    # Lookups

    def me(self) -> User[int]:
        settings = self.settings
        return User(id=self.bot, name=settings.name, username=settings.username, bot=True)

    def user(self, name: int) -> User[int]:
        if name == self.bot:
            return self.me()
        if (user := self.users.get(name)) is None:
            raise bad("user not found")
        return user

    def chat(self, name: int | str) -> Chat:
        """The chat with that id, as the bot sees it: `check_chat` of tdlib/telegram-bot-api."""
        try:
            number = int(name)
        except ValueError:
            raise bad("chat not found") from None
        if (found := self.chats.get(number)) is not None:
            return found
        if (user := self.users.get(number)) is None:
            raise bad("chat not found")
        if user.bot:
            raise forbidden("bots can't send messages to bots")
        raise forbidden("bot can't initiate conversation with a user")

    def writable(self, name: int | str) -> Chat:
        """The same chat, if the bot may write there."""
        chat = self.chat(name)
        supergroup = chat.kind in (Kind.SUPERGROUP, Kind.FORUM)
        called = "supergroup" if supergroup else chat.kind.value
        if chat.became is not None:
            reason = "Bad Request: group chat was upgraded to a supergroup chat"
            raise Refuse(400, reason, migrate_to_chat_id=chat.became)
        if chat.private and chat.status is Status.KICKED:
            raise forbidden("bot was blocked by the user")
        if chat.status is Status.KICKED:
            raise forbidden(f"bot was kicked from the {called} chat")
        if chat.status is Status.LEFT:
            raise forbidden(f"bot is not a member of the {called} chat")
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

    def file(self, name: str) -> tuple[File, bytes]:
        if (found := self.files.get(name)) is None:
            raise bad("invalid file_id")
        return found

    # Topics

    def has_topics(self, chat: Chat) -> bool:
        if chat.private:
            return self.settings.topics if chat.topics is None else chat.topics
        return chat.kind is Kind.FORUM

    def place(self, chat: Chat, thread: int | None, by: int) -> tuple[int | None, bool]:
        """The thread of a message with that `message_thread_id`, and whether it is a topic.

        The general topic of a forum has no id: python-telegram-bot issue 4739. In a closed topic,
        its creator and users who manage topics can still write; it stays closed.
        """
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
        """The place of a reply that names no thread.

        In a supergroup the reply has the thread of the message it replies to, although that is not
        a topic: tdlib/telegram-bot-api issues 356 and 447.
        """
        replied = None if reply_to is None else self.messages.get((chat.id, reply_to))
        if replied is None:
            return None, False
        if replied.topic:
            return replied.thread, True
        if chat.kind in (Kind.SUPERGROUP, Kind.FORUM):
            return replied.thread or replied.id, False
        return None, False

    def open_topic(self, chat: Chat, title: str, by: int) -> Topic:
        topic = Topic(chat=chat.id, id=self.message_id(chat), title=title, by=by)
        self.threads[chat.id, topic.id] = topic
        made = {"name": title, "icon_color": _TOPIC_COLOR}
        self.service(chat, by, {"forum_topic_created": made}, topic.id)
        return topic

    # Messages and files

    def service(
        self, chat: Chat, by: int, more: Mapping[str, object], topic: int | None = None
    ) -> Message:
        """Post a service message, in that topic."""
        message = Message(
            chat=chat.id,
            # The message that opens a topic gives it its id.
            id=topic
            if topic is not None and (chat.id, topic) not in self.messages
            else self.message_id(chat),
            thread=topic,
            topic=topic is not None,
            author=by,
            service=True,
            more=more,
        )
        return self.keep(message)

    def keep(self, message: Message) -> Message:
        """Store the message, with the current date unless it has one."""
        return super().keep(replace(message, date=message.date or int(time.time())))

    def add_file(self, kind: FileKind, name: str, media_type: str, content: bytes) -> File:
        number = f"BQACAgIAAxkBAAI{self.number():05d}"
        file = File(id=number, kind=kind, name=name, media_type=media_type, size=len(content))
        self.files[file.id] = (file, content)
        if kind is FileKind.PHOTO:
            self.files[f"{file.id}s"] = (file, content)  # a smaller size of the photo
        return file

    def tell(self, kind: str, payload: object) -> None:
        """Queue an update, if the bot wants this type."""
        if kind in self.allowed:
            self.tell_raw({kind: payload})

    def tell_raw(self, update: Mapping[str, object]) -> None:
        self.updates.add(lambda number: json.dumps({**update, "update_id": number}))

    def snapshot(self, chat: int | None) -> Shown:
        shown = Shown(**self.shown(chat), answered=tuple(self.answered), menu=self.menu)
        return replace(shown, messages=tuple(it for it in shown.messages if not it.service))
