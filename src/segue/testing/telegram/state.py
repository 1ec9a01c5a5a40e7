"""The Telegram fake's state, and the rules for chats and threads."""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Iterator

from msgspec.structs import replace

from segue.testing.telegram.errors import Refuse, bad, forbidden, migrated
from segue.testing.telegram.snapshot import (
    Answered,
    Chat,
    Draft,
    File,
    FileKind,
    Kind,
    Menu,
    Message,
    Settings,
    Status,
    Topic,
    User,
)

ANONYMOUS = User(id=1087968824, name="Group", username="GroupAnonymousBot", bot=True)
"""The author that the bot sees when an administrator appears as the group itself."""
_FIRST_USER = 5_000_000_001
_FIRST_GROUP = -4_000_000_001
_FIRST_SUPERGROUP = -1_002_000_000_001
_CALLED = {Kind.GROUP: "group", Kind.CHANNEL: "channel"}


class State:
    def __init__(self, settings: Settings, bot: int) -> None:
        self.settings = settings
        self.bot = bot
        self.users: dict[int, User] = {}
        self.chats: dict[int, Chat] = {}
        self.topics: dict[tuple[int, int], Topic] = {}
        self.leaky: set[tuple[int, int]] = set()
        """Deleted topics whose messages go to the main chat."""
        self.messages: dict[tuple[int, int], Message] = {}
        self.files: dict[str, tuple[File, bytes]] = {}
        self.typing: Counter[tuple[int, int | None, str]] = Counter()
        self.drafts: dict[tuple[int, int | None], Draft] = {}
        self.queries: set[str] = set()
        self.answered: list[Answered] = []
        self.menus: list[Menu] = []
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
        return next(self._apart[chat.id] if chat.super else self._together)

    def number(self) -> int:
        return next(self._numbers)

    # Lookups

    def me(self) -> User:
        settings = self.settings
        return User(id=self.bot, name=settings.name, username=settings.username, bot=True)

    def user(self, name: int) -> User:
        if name == self.bot:
            return self.me()
        if (user := self.users.get(name)) is None:
            raise bad("user not found")
        return user

    def chat(self, name: int | str) -> Chat:
        """The chat with that id, as the bot sees it: `check_chat` of tdlib/telegram-bot-api."""
        try:
            found = self.chats.get(int(name))
        except ValueError:
            raise bad("chat not found") from None
        if found is not None:
            return found
        user = self.users.get(int(name))
        if user is None:
            raise bad("chat not found")
        raise forbidden(
            "bots can't send messages to bots"
            if user.bot
            else "bot can't initiate conversation with a user"
        )

    def writable(self, name: int | str) -> Chat:
        """The same chat, if the bot may write there."""
        chat = self.chat(name)
        if (refusal := self._shut(chat)) is not None:
            raise refusal
        return chat

    def _shut(self, chat: Chat) -> Refuse | None:
        called = _CALLED.get(chat.kind, "supergroup")
        if chat.became is not None:
            return migrated(chat.became)
        if chat.private and chat.status is Status.KICKED:
            return forbidden("bot was blocked by the user")
        if chat.status is Status.KICKED:
            return forbidden(f"bot was kicked from the {called} chat")
        if chat.status is Status.LEFT:
            return forbidden(f"bot is not a member of the {called} chat")
        if chat.kind is Kind.CHANNEL and chat.status is not Status.ADMINISTRATOR:
            return bad("need administrator rights in the channel chat")
        return None

    def message(self, chat: Chat, name: int, what: str) -> Message:
        found = self.messages.get((chat.id, name))
        if found is None:
            raise bad(f"{what} not found")
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
        topic = self.topics.get((chat.id, thread))
        if topic is None or not self.has_topics(chat):
            raise bad("message thread not found")
        if topic.closed and by != topic.by and not self._manages(chat, by):
            raise bad("TOPIC_CLOSED")
        return thread, True

    def _manages(self, chat: Chat, user: int) -> bool:
        return chat.manage_topics if user == self.bot else user == chat.members[0]

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

    def open_topic(self, chat: Chat, name: str, by: int) -> Topic:
        message = Message(
            chat=chat.id,
            id=self.message_id(chat),
            author=by,
            service={"forum_topic_created": {"name": name, "icon_color": 7322096}},
        )
        topic = Topic(chat=chat.id, id=message.id, name=name, by=by)
        self.topics[chat.id, topic.id] = topic
        self.keep(replace(message, thread=topic.id, topic=True))
        return topic

    def delete_topic(self, chat: Chat, thread: int) -> None:
        del self.topics[chat.id, thread]
        kept = self.messages.items()
        self.messages = {
            name: it for name, it in kept if not (it.chat == chat.id and it.thread == thread)
        }

    # Messages and files

    def keep(self, message: Message) -> Message:
        """Store the message, with the current date unless it has one."""
        kept = message if message.date else replace(message, date=int(time.time()))
        self.messages[kept.chat, kept.id] = kept
        return kept

    def add_file(self, kind: FileKind, name: str, media_type: str, content: bytes) -> File:
        file = File(
            id=f"BQACAgIAAxkBAAI{self.number():05d}",
            kind=kind,
            name=name,
            media_type=media_type,
            size=len(content),
        )
        self.files[file.id] = (file, content)
        if kind is FileKind.PHOTO:
            self.files[f"{file.id}s"] = (file, content)  # a smaller size of the photo
        return file

    def file(self, name: str) -> tuple[File, bytes]:
        if (found := self.files.get(name)) is None:
            raise bad("invalid file_id")
        return found
