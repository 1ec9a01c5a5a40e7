"""The test platform's state, and the updates that its changes cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from segue.testing import peers
from segue.testing.peers import Pulse, Updates, User
from segue.testing.platform import errors
from segue.testing.platform.errors import missing
from segue.testing.platform.snapshot import Chat, Message, Shown, Thread
from segue.testing.platform.wire import (
    Call,
    Changed,
    Commanded,
    Opened,
    Rules,
    Said,
    Sent,
    Update,
    WireEntry,
    WireFile,
    WireMessage,
    WireQuote,
    WireUser,
)

BOT: User[str] = User(id="bot:1", name="The bot", bot=True)
Files: TypeAlias = tuple[WireFile, ...]


class State(peers.State[Rules, str, Chat, Thread, Message]):
    def __init__(self, rules: Rules, pulse: Pulse) -> None:
        super().__init__(rules, pulse, Updates(pulse), errors.injected)
        self.users[BOT.id] = BOT
        self.menu: tuple[WireEntry, ...] = ()
        self.keyed: dict[str, tuple[Call, Sent | Opened]] = {}
        """The call made with each idempotency key, and its answer."""

    def name(self, kind: str) -> str:
        """A new id. It contains a colon, as the ids of some platforms do."""
        return f"{kind}:{self.number('id')}"

    # Lookups

    def user(self, name: str) -> WireUser:
        if (user := self.users.get(name)) is None:
            raise missing("user", name)
        return WireUser(id=user.id, name=user.name, bot=user.bot)

    def chat(self, name: str) -> Chat:
        if (chat := self.chats.get(name)) is None:
            raise missing("chat", name)
        return chat

    def place(self, chat: str, thread: str | None) -> None:
        """Raise Refuse if there is no such chat, or no such thread in it."""
        self.chat(chat)
        if thread is not None and (chat, thread) not in self.threads:
            raise missing("thread", thread)

    def message(self, chat: str, name: str) -> Message:
        if (message := self.messages.get((chat, name))) is None:
            raise missing("message", name)
        return message

    # Changes

    def say(self, message: Message, *, files: Files = (), command: bool = False) -> None:
        """Show the message, and queue an update for the bot."""
        self.post(message)
        self.tell(Commanded if command else Said, message, message=self._wire(message, files))

    def change(self, before: Message, after: Message) -> None:
        """Replace the message, and queue an update for the bot."""
        changed = self.edit(before, after)
        self.tell(Changed, changed, message=self._wire(changed))

    def tell(
        self, kind: Callable[..., Update], at: Message, user: str = "", **more: object
    ) -> None:
        """Queue an update about that message, caused by its author or by `user`."""
        by = self.user(user or at.author)
        if by.id == BOT.id and not self.settings.echo:
            return
        chat = self.chat(at.chat).wire()
        update = kind(id=self.name("update"), chat=chat, user=by, thread=at.thread, **more)
        self.updates.inject(msgspec.json.encode(update).decode())

    def _wire(self, message: Message, files: Files = ()) -> WireMessage:
        quote = None
        if message.reply_to is not None:
            replied = self.message(message.chat, message.reply_to)
            author = self.user(replied.author)
            quote = WireQuote(id=replied.id, author=author, text=replied.text)
        alone = len(self.chat(message.chat).members) <= 1
        return WireMessage(
            id=message.id,
            text=message.text,
            files=files,
            addressed=alone or not self.settings.mentions or "@bot" in message.text,
            forwarded_from=message.forwarded_from,
            quote=quote,
        )

    def snapshot(self, chat: str | None) -> Shown:
        codes = (reason.partition(":")[0] for reason in self.refusals)
        return Shown(**self.shown(chat), menu=self.menu, refused=tuple(codes))
