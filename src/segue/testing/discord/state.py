"""The Discord fake's state: lookups, permissions, and the events that changes cause.

`topics/threads.mdx`, `topics/permissions.mdx` and `events/gateway-events.mdx` of
discord/discord-api-docs.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.discord import errors, snapshot
from segue.testing.discord.errors import refuse
from segue.testing.discord.gateway import Events
from segue.testing.discord.objects import Objects
from segue.testing.discord.snapshot import BOT, Chat, Flag, Kind, Message, MessageType, Thread
from segue.testing.peers import File, Interaction, Pulse, Upload, User
from segue.testing.peers.snowflakes import Snowflakes
from segue.testing.peers.templates import Json


class Place(NamedTuple):
    """A channel, or a thread in it."""

    chat: Chat
    thread: Thread | None

    @property
    def ids(self) -> tuple[int, int | None]:
        return self.chat.id, None if self.thread is None else self.thread.id


class State(peers.State[snapshot.Settings, int, Chat, Thread, Message]):
    def __init__(self, settings: snapshot.Settings, pulse: Pulse) -> None:
        self.events = Events(pulse, self)
        super().__init__(settings, pulse, self.events, errors.injected)
        self.objects = Objects(self)
        self.snowflakes = Snowflakes(1420070400000)
        self.guilds: dict[int, peers.Chat[int]] = {}
        self.users[BOT] = User(id=BOT, name=settings.username, username=settings.username, bot=True)
        self.commands: dict[int, dict[str, Json]] = {}
        """The application commands by guild, 0 for the global ones, and by name."""
        self.interactions: dict[int, Interaction[int]] = {}
        self.nonces: dict[str, tuple[float, int, int]] = {}
        """When a nonce was used, in which channel, and for which message."""

    def name(self) -> int:
        return self.snowflakes.new()

    def store(self, upload: Upload) -> File:
        return self.add_file(str(self.name()), upload)

    # Lookups

    @property
    def gateway(self) -> str:
        return self.url.replace("http", "ws", 1)

    def place(self, name: int) -> Place:
        thread = next((it for it in self.threads.values() if it.id == name), None)
        if (chat := self.chats.get(name if thread is None else thread.chat)) is None:
            raise refuse(10003)
        return Place(chat, thread)

    def sees(self, it: Chat) -> bool:
        """Whether the bot is told of the channel."""
        return not it.guild or (self.can(it, "VIEW_CHANNEL") and self.guilds[it.guild].joined)

    def can(self, chat: Chat, permission: str) -> bool:
        return not chat.guild or bool(chat.permissions & snapshot.Permission[permission])

    def private(self, user: int) -> Chat:
        """The direct message with that user, which exists once it is asked for."""
        dms = (it for it in self.chats.values() if it.kind is Kind.DM and it.members == (user,))
        chat = next(dms, None) or Chat(id=self.name(), kind=Kind.DM, members=(user,))
        return self.chats.setdefault(chat.id, chat)

    def message(self, at: Place, name: int) -> Message:
        message = self.messages.get((at.chat.id, name))
        if message is None or (message.chat, message.thread) != at.ids:
            raise refuse(10008)
        return message

    def mentioned(self, text: str) -> tuple[int, ...]:
        found = map(int, re.findall(r"<@!?(\d+)>", text))
        return tuple(name for name in dict.fromkeys(found) if name in self.users)

    def written(self, at: Place, author: int, text: str = "") -> Message:
        """A new message, which nobody sees yet."""
        (chat, thread), name = at.ids, self.name()
        made = Message(id=name, chat=chat, thread=thread, author=author, text=text)
        return replace(made, mentions=self.mentioned(text))

    def thread(self, chat: Chat, name: int, title: str, by: int) -> Thread:
        """A new thread, which nobody sees yet."""
        kind = chat.threads or Kind.PUBLIC_THREAD
        return Thread(id=name, chat=chat.id, title=title, by=by, kind=kind, members=(by,))

    # Changes and their events

    def tell(self, event: str, data: Json, chat: Chat | None = None) -> None:
        """Queue an event for the bot, unless it is about a channel that the bot cannot see."""
        if chat is None or self.sees(chat):
            data = {**data, "guild_id": str(chat.guild)} if chat and chat.guild else data
            self.events.tell(event, data)

    def say(self, message: Message) -> Message:
        """Post the message. Its author and those it mentions become members of its thread."""
        chat = self.chats[message.chat]
        if message.thread is not None:
            thread = self.threads[chat.id, message.thread]
            if thread.closed:
                thread = self.update(replace(thread, closed=False))
            self.join(thread, message.author, *message.mentions)
        if self.sees(chat):
            self.events.miss(message.id)
        return self.show("MESSAGE_CREATE", self.post(message))

    def change(self, before: Message, after: Message) -> Message:
        return self.show("MESSAGE_UPDATE", self.edit(before, after))

    def show(self, event: str, it: Message) -> Message:
        if it.only_for is None:
            self.tell(event, self.objects.message(it, event=True), self.chats[it.chat])
        return it

    def open(self, thread: Thread, source: Message | None = None) -> Thread:
        """Open a thread, from a message if it is given. Outside of forums a message tells of it."""
        chat, by = self.chats[thread.chat], thread.by or BOT
        self.update(thread, "THREAD_CREATE", newly_created=True)
        note = Message(id=self.name(), chat=chat.id, author=by, service=True)
        if source is not None and chat.kind is not Kind.FORUM:
            self.change(source, replace(source, flags=source.flags | Flag.HAS_THREAD))
            kind, refers = MessageType.THREAD_STARTER_MESSAGE, (chat.id, source.id)
            self.say(replace(note, type=kind, thread=thread.id, reference=refers))
        elif chat.kind is not Kind.FORUM:
            kind, refers = MessageType.THREAD_CREATED, (thread.id, 0)
            self.say(replace(note, type=kind, text=thread.title, reference=refers))
        return thread

    def update(self, thread: Thread, event: str = "THREAD_UPDATE", **more: Any) -> Thread:
        self.threads[thread.chat, thread.id] = thread
        self.tell(event, self.objects.thread(thread) | more, self.chats[thread.chat])
        return thread

    def join(self, thread: Thread, *names: int) -> None:
        """Add members. The bot learns of the others only with the GUILD_MEMBERS intent."""
        members = tuple(dict.fromkeys((*thread.members, *names)))
        joined = self.threads[thread.chat, thread.id] = replace(thread, members=members)
        if BOT in members and BOT not in thread.members:
            self.update(joined, "THREAD_CREATE")

    def snapshot(self, chat: int | None) -> snapshot.Shown:
        events, every = self.events, [it for some in self.commands.values() for it in some.values()]
        more = {"connected": events.connected, "sessions": len(events.sessions)}
        more |= {"unconfirmed": len(events.missed)}
        commands = {it["name"]: it["description"] for it in every}
        return snapshot.Shown(**self.shown(chat, commands=commands, **more))
