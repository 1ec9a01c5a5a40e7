"""The Telegram fake's state, and the rules for chats and threads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, get_args

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import File, Pulse, Status, Updates, Upload, User
from segue.testing.telegram import errors
from segue.testing.telegram.errors import Refuse, bad, forbidden
from segue.testing.telegram.snapshot import (
    BotCommand,
    Chat,
    Kind,
    Message,
    Settings,
    Shown,
    Topic,
)

UpdateType = Literal[
    "message", "edited_message", "channel_post", "edited_channel_post", "callback_query",
    "my_chat_member",
]  # fmt: skip
USUAL: frozenset[str] = frozenset(get_args(UpdateType))
"""The types of update that a bot receives without asking for them by name."""
_FIRST_UPDATE = 480_000_001
_FIRST_GROUP = -4_000_000_001
_FIRST_SUPERGROUP = -1_002_000_000_001


class State(peers.State[Settings, int, Chat, Topic, Message]):
    def __init__(self, settings: Settings, bot: int, pulse: Pulse) -> None:
        super().__init__(settings, pulse, Updates(pulse, _FIRST_UPDATE), errors.injected)
        self.bot = bot
        self.users[bot] = User(id=bot, name="Segue", username=settings.username, bot=True)
        self.webhook = settings.webhook
        self.allowed = USUAL
        self.leaky: set[tuple[int, int]] = set()
        """Deleted topics whose messages go to the main chat."""
        self.menu: tuple[BotCommand, ...] = ()

    # Ids

    def chat_id(self, kind: Kind) -> int:
        first = _FIRST_GROUP if kind is Kind.GROUP else _FIRST_SUPERGROUP
        return self.number(f"chat {first}", first, step=-1)

    def message_id(self, chat: Chat) -> int:
        """Id 1 is the creation of the chat.

        Private chats and groups share one counter. Each supergroup has its own, so messages and
        topics of two supergroups can have the same id.
        """
        alone = chat.kind not in (Kind.PRIVATE, Kind.GROUP)
        return self.number(f"message {chat.id}" if alone else "message", 2)

    # Lookups

    def user(self, name: int) -> User[int]:
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
        called = "supergroup" if chat.supergroup else chat.kind.value
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
        if chat.supergroup:
            return replied.thread or replied.id, False
        return None, False

    def open_topic(self, chat: Chat, title: str, by: int) -> Topic:
        """Open a topic with a service message. They have the same id."""
        more = {"forum_topic_created": {"name": title, "icon_color": 7322096}}
        number = self.service(chat, by, more, opens=True).id
        self.threads[chat.id, number] = Topic(chat=chat.id, id=number, title=title, by=by)
        return self.threads[chat.id, number]

    # Messages and files

    def service(
        self,
        chat: Chat,
        by: int,
        more: Mapping[str, object],
        thread: int | None = None,
        *,
        opens: bool = False,
    ) -> Message:
        """Post a service message, in a topic if it has a thread or opens one."""
        number = self.message_id(chat)
        thread = number if opens else thread
        at = Message(chat=chat.id, id=number, thread=thread, topic=thread is not None, author=by)
        return self.keep(replace(at, service=True, more=more))

    def store(self, upload: Upload) -> File:
        return self.add_file(f"BQACAgIAAxkBAAI{self.number('file'):05d}", upload)

    def tell(self, kind: str, payload: object) -> None:
        """Queue an update, if the bot wants this type."""
        if kind in self.allowed:
            self.tell_raw({kind: payload})

    def tell_raw(self, update: Mapping[str, object]) -> None:
        self.updates.add(lambda number: json.dumps({**update, "update_id": number}))

    def snapshot(self, chat: int | None) -> Shown:
        return Shown(**self.shown(chat), menu=self.menu)
