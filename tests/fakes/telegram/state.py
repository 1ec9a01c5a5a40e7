"""The Telegram fake's state, and the rules for chats and threads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Literal

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import File, Pulse, Status, Updates, Upload, User
from tests.fakes.telegram import errors
from tests.fakes.telegram.errors import Refuse, bad, forbidden
from tests.fakes.telegram.snapshot import BotCommand, Chat, Kind, Message, Settings, Shown, Topic

UpdateType = Literal["message", "edited_message", "callback_query", "my_chat_member"]
_FIRST_UPDATE = 480_000_001
_FIRST_GROUP = -4_000_000_001
_FIRST_SUPERGROUP = -1_002_000_000_001


class State(peers.State[Settings, int, Chat, Topic, Message]):
    def __init__(self, settings: Settings, bot: int, pulse: Pulse) -> None:
        super().__init__(settings, pulse, Updates(pulse, _FIRST_UPDATE), errors.injected)
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
        topic = self.threads[chat.id, number] = Topic(chat=chat.id, id=number, title=title, by=by)
        return topic

    def service(
        self, chat: Chat, by: int, more: Mapping[str, object], thread: int | None = None
    ) -> Message:
        """Post a service message, in a topic if it has a thread or opens one."""
        number = self.message_id(chat)
        thread = number if "forum_topic_created" in more else thread
        at = Message(chat=chat.id, id=number, thread=thread, topic=thread is not None, author=by)
        return self.keep(replace(at, service=True, more=more))

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
