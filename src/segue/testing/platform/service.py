"""The test platform's state: users, chats, threads, messages and files."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from segue.testing.platform import control
from segue.testing.platform.control import Message, Shape, Thread
from segue.testing.platform.errors import missing
from segue.testing.platform.wire import (
    Changed,
    Commanded,
    Joined,
    Pressed,
    Rules,
    Said,
    Update,
    WireChat,
    WireEntry,
    WireFile,
    WireMessage,
    WireQuote,
    WireUser,
)

BOT = WireUser(id="bot:1", name="The bot", bot=True)
SEEDED = frozenset({Shape.GROUP, Shape.CHANNEL})
"""The chats in which a thread starts at a message."""

_TYPES = {Shape.DM: "dm", Shape.CHANNEL: "channel"}


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    shape: Shape
    name: str
    topic: str
    members: tuple[str, ...]

    def wire(self) -> WireChat:
        return msgspec.convert(
            {
                "id": self.id,
                "type": _TYPES.get(self.shape, "group"),
                "name": self.name,
                "topic": self.topic,
                "members": len(self.members),
            },
            WireChat,
        )


class Service:
    """The state, the actions of users, and the updates that they cause."""

    def __init__(self, rules: Rules, tell: Callable[[str], None]) -> None:
        """`tell` receives each update as a frame."""
        self.rules = rules
        self._tell = tell
        self._numbers = itertools.count(1)
        self.users = {BOT.id: BOT}
        self.chats: dict[str, Chat] = {}
        self.threads: dict[str, Thread] = {}
        self.messages: dict[str, Message] = {}
        self.files: dict[str, bytes] = {}
        self.typing: Counter[tuple[str, str | None]] = Counter()
        self.previews: dict[tuple[str, str | None], str] = {}
        self.menu: tuple[WireEntry, ...] = ()

    def name(self, kind: str) -> str:
        """A new id. It contains a colon, as the ids of some platforms do."""
        return f"{kind}:{next(self._numbers)}"

    def chat(self, name: str) -> Chat:
        if (chat := self.chats.get(name)) is None:
            raise missing("chat", name)
        return chat

    def thread(self, chat: str, name: str | None) -> None:
        """Raise Refuse if the thread does not exist in that chat."""
        if name is not None and (name not in self.threads or self.threads[name].chat != chat):
            raise missing("thread", name)

    def message(self, name: str) -> Message:
        if (message := self.messages.get(name)) is None:
            raise missing("message", name)
        return message

    # Actions of users

    def set_rules(self, order: control.SetRules) -> None:
        self.rules = order.rules

    def add_user(self, order: control.AddUser) -> str:
        user = WireUser(id=self.name("user"), name=order.name, bot=order.bot)
        self.users[user.id] = user
        return user.id

    def add_chat(self, order: control.AddChat) -> str:
        members = tuple(self._user(member).id for member in order.members)
        chat = Chat(
            id=self.name(f"!{order.shape}"),
            shape=order.shape,
            name=order.name,
            topic=order.topic,
            members=members,
        )
        self.chats[chat.id] = chat
        return chat.id

    def say(self, order: control.Say) -> str:
        self.thread(self.chat(order.chat).id, order.thread)
        message = Message(
            id=self.name("message"),
            chat=order.chat,
            thread=order.thread,
            author=self._user(order.user).id,
            text=order.text,
            forwarded_from=order.forwarded_from,
            reply_to=order.reply_to,
        )
        files = tuple(self._file(upload) for upload in order.files)
        self.post(message, files=files, command=order.command)
        return message.id

    def rewrite(self, order: control.Rewrite) -> None:
        self.change(self.message(order.message), order.text)

    def press(self, order: control.Press) -> None:
        message = self.message(order.message)
        there = (b.data for b in message.buttons if b.label == order.label)
        data = order.data or next(there, None)
        if data is None:
            raise missing("button", order.label)
        self._update(Pressed, message, order.user, message=message.id, data=data)

    def join(self, order: control.Join) -> None:
        chat = self.chat(order.chat).wire()
        self._add(Joined(id=self.name("update"), chat=chat, user=self._user(order.user)))

    def delete_thread(self, order: control.DeleteThread) -> None:
        if self.threads.pop(order.thread, None) is None:
            raise missing("thread", order.thread)

    # Effects, of users and of the bot

    def post(
        self, message: Message, *, files: tuple[WireFile, ...] = (), command: bool = False
    ) -> None:
        """Show the message in place of any preview, and queue an update for the bot."""
        self.previews.pop((message.chat, message.thread), None)
        self.messages[message.id] = message
        said = self._wire(message, files)
        kind = Commanded if command else Said
        self._update(kind, message, message.author, message=said)

    def change(self, message: Message, text: str, **more: object) -> None:
        """Replace the message's text, and queue an update for the bot."""
        earlier = (*message.earlier, message.text)
        changed = replace(message, text=text, earlier=earlier, at=time.monotonic(), **more)
        self.messages[message.id] = changed
        self._update(Changed, message, message.author, message=self._wire(changed))

    def _wire(self, message: Message, files: tuple[WireFile, ...] = ()) -> WireMessage:
        replied = None if message.reply_to is None else self.message(message.reply_to)
        return WireMessage(
            id=message.id,
            text=message.text,
            files=files,
            addressed=self._is_addressed(message),
            forwarded_from=message.forwarded_from,
            quote=replied and WireQuote(author=self._user(replied.author), text=replied.text),
        )

    def _is_addressed(self, message: Message) -> bool:
        alone = len(self.chat(message.chat).members) <= 1
        return alone or not self.rules.mentions or "@bot" in message.text

    def _update(
        self,
        kind: Callable[..., Update],
        at: Message,
        user: str,
        **more: object,
    ) -> None:
        if user == BOT.id and not self.rules.echo:
            return
        self._add(
            kind(
                id=self.name("update"),
                chat=self.chat(at.chat).wire(),
                user=self._user(user),
                thread=at.thread,
                **more,
            )
        )

    def _add(self, update: Update) -> None:
        self._tell(msgspec.json.encode(update).decode())

    def _user(self, name: str) -> WireUser:
        if (user := self.users.get(name)) is None:
            raise missing("user", name)
        return user

    def _file(self, upload: control.Upload) -> WireFile:
        name = self.name("file")
        self.files[name] = upload.content
        return WireFile(
            id=name, name=upload.name, media_type=upload.media_type, size=len(upload.content)
        )
