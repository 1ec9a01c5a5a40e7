"""The state of the test platform, its refusals, and the updates that changes cause."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

import msgspec

from segue.testing import peers
from segue.testing.http import Response
from segue.testing.peers import Pulse, Trouble, Updates, User
from segue.testing.platform.wire import (
    Call,
    Changed,
    Commanded,
    Opened,
    Refusal,
    Rules,
    Said,
    Sent,
    Update,
    WireChat,
    WireEntry,
    WireFile,
    WireMessage,
    WireQuote,
    WireUser,
)


class Shape(StrEnum):
    """The kinds of chat."""

    DM = "dm"
    """One user and the bot; threads are topics."""
    GROUP = "group"
    """Threads start at a message that the platform posts with the title."""
    CHANNEL = "channel"
    """Like a group, with many members."""
    FORUM = "forum"
    """A group whose threads are topics."""
    NO_THREADS = "no_threads"
    """A group without threads."""
    THREADS_REFUSED = "threads_refused"
    """A group in which the bot may not open threads."""


class Chat(peers.Chat[str], frozen=True, kw_only=True):
    shape: Shape
    topic: str
    public: bool = False
    """Anyone can read it."""

    def wire(self) -> WireChat:
        kind = self.shape.value if self.shape in (Shape.DM, Shape.CHANNEL) else "group"
        return WireChat(
            id=self.id, type=kind, name=self.title, topic=self.topic, members=len(self.members)
        )


class Thread(peers.Thread[str], frozen=True, kw_only=True):
    key: str | None = None
    """The idempotency key of the call that opened it."""


class Message(peers.Message[str], frozen=True, kw_only=True):
    format: str = "plain"
    key: str | None = None
    """The idempotency key of the call that sent it."""
    forwarded_from: str | None = None


class Shown(peers.Shown[str, Message, Thread], frozen=True, kw_only=True):
    menu: tuple[WireEntry, ...]
    refused: tuple[str, ...]
    """The code of each refused call."""


class Refuse(peers.Refuse):
    """Raised by the handler of a call: it is answered with this status and refusal."""

    def __init__(
        self, status: int, code: str, reason: str, *, retry_after: float | None = None
    ) -> None:
        headers = {} if retry_after is None else {"Retry-After": f"{retry_after:.3f}"}
        refusal = Refusal(code=code, reason=reason, retry_after=retry_after)
        response = Response(status, headers, msgspec.json.encode(refusal))
        super().__init__(f"{code}: {reason}", response)


def malformed(reason: object) -> Refuse:
    return Refuse(400, "malformed", str(reason))


def missing(what: str, name: str) -> Refuse:
    return Refuse(404, f"{what}_not_found", f"There is no {what} {name!r}.")


def too_often(seconds: float) -> Refuse:
    return Refuse(
        429, "slow_down", f"Too many calls; come back in {seconds:.3f} s.", retry_after=seconds
    )


def injected(trouble: Trouble, seconds: float) -> Refuse:
    """Return the error for a fault that a test ordered."""
    if trouble is Trouble.BUSY:
        return too_often(seconds)
    if trouble is Trouble.FORBIDDEN:
        return Refuse(403, "forbidden", "The bot may not do that.")
    return Refuse(500, "internal", "Something went wrong.")


BOT: User[str] = User(id="bot:1", name="The bot", bot=True)
Files: TypeAlias = tuple[WireFile, ...]


class State(peers.State[Rules, str, Chat, Thread, Message]):
    def __init__(self, rules: Rules, pulse: Pulse) -> None:
        super().__init__(rules, pulse, Updates(pulse), injected)
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
        kind = Commanded if command else Said
        self.emit(kind, message, message=self._wire(message, files))

    def change(self, before: Message, after: Message) -> None:
        """Replace the message, and queue an update for the bot."""
        changed = self.edit(before, after)
        self.emit(Changed, changed, message=self._wire(changed))

    def emit(
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
