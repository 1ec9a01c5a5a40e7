"""The Discord fake's state: lookups, permissions, and which events a session gets.

`topics/threads.mdx`, `topics/permissions.mdx`, `topics/opcodes-and-status-codes.mdx`,
`events/gateway.mdx` and `events/gateway-events.mdx` of discord/discord-api-docs. What clients make
of it is in discord.py's `gateway.py`, in hikari's `impl/shard.py` and its tests, and in
twilight-gateway.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, TypeAlias

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import File, Interaction, Pulse, Upload, User
from segue.testing.peers.templates import Json
from tests.fakes.discord import errors, snapshot
from tests.fakes.discord.errors import refuse
from tests.fakes.discord.objects import Objects
from tests.fakes.discord.snapshot import BOT, Chat, Flag, Kind, Message, MessageType, Thread
from tests.fakes.protocols.gateway import Event, GatewaySession, GatewayState
from tests.fakes.protocols.keys import Keys
from tests.fakes.protocols.snowflakes import Snowflakes

Place: TypeAlias = peers.Place[Chat, Thread]
_GUILDS, _GUILD_MESSAGES, _DIRECT_MESSAGES, _CONTENT = 1 << 0, 1 << 9, 1 << 12, 1 << 15
_PRIVILEGED = 1 << 1 | 1 << 8 | _CONTENT
_INTENTS = sum(1 << bit for bit in (*range(17), 20, 21, 24, 25))
_DAY = 24 * 60 * 60
_FREE = ("READY", "RESUMED", "INTERACTION_CREATE")


class State(GatewayState[snapshot.Settings, int, Chat, Thread, Message]):
    def __init__(self, settings: snapshot.Settings, pulse: Pulse) -> None:
        super().__init__(settings, pulse, errors.injected)
        self.objects = Objects(self)
        self.snowflakes = Snowflakes(1420070400000)
        self.guilds: dict[int, peers.Chat[int]] = {}
        self.users[BOT] = User(id=BOT, name=settings.username, username=settings.username, bot=True)
        self.absent: set[tuple[int, int]] = set()
        """Guilds, and the users who have left them."""
        self.commands: dict[int, dict[str, Json]] = {}
        """The application commands by guild, 0 for the global ones, and by name."""
        self.interactions: dict[int, Interaction[int]] = {}
        self.nonces = Keys[tuple[int, int]](180.0)
        """The channel and the id of a message. The documentation says "the past few minutes"."""

    def name(self) -> int:
        return self.snowflakes.new()

    def store(self, upload: Upload) -> File:
        return self.add_file(str(self.name()), upload)

    # Lookups

    def place(self, name: int) -> Place:
        if (found := self.locate(name)) is None:
            raise refuse(10003)
        return found

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

    def thread(self, at: Place) -> Thread:
        if at.thread is None:
            raise refuse(50024)
        return at.thread

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

    # Sessions

    def identify(self, intents: int) -> tuple[int, str] | None:
        if intents & ~_INTENTS:
            self.errors.append(f"gateway: there are no intents {intents:b}")
            return 4013, "Invalid intent(s)"
        allowed = _CONTENT if self.settings.content else 0
        return (4014, "Disallowed intent(s)") if intents & _PRIVILEGED & ~allowed else None

    def start_limit(self) -> Json:
        """`events/gateway.mdx` (Session Start Limit Object)"""
        now, total = asyncio.get_running_loop().time(), self.settings.starts
        begun = [at for at in self.identified if at > now - _DAY]
        after = round((begun[0] + _DAY - now) * 1000) if begun else 0
        left = max(total - len(begun), 0)
        return {"total": total, "remaining": left, "reset_after": after, "max_concurrency": 1}

    def may_begin(self) -> bool:
        if self.start_limit()["remaining"] == 0:
            self.errors.append("gateway: more sessions than the session start limit allows")
        now = asyncio.get_running_loop().time()
        return all(at <= now - self.settings.start_seconds for at in self.identified)

    def greet(self, session: GatewaySession) -> None:
        guilds = [it for it in self.guilds.values() if it.joined]
        there = [{"id": str(it.id), "unavailable": True} for it in guilds]
        more = {
            "url": self.settings.resume_url or self.socket_url,
            "bot": BOT,
            "session": session.name,
        }
        session.tell("READY", self.objects("ready", guilds=there, **more))
        for it in guilds:
            session.tell("GUILD_CREATE", self.objects.guild(it))

    def wanted(self, event: Event, intents: int) -> Event | None:
        need = 0 if event.t in _FREE else _GUILDS
        if event.t.startswith("MESSAGE_"):
            need = _GUILD_MESSAGES if "guild_id" in event.d else _DIRECT_MESSAGES
            has_content = event.t != "MESSAGE_DELETE"
            if "guild_id" in event.d and has_content and not intents & _CONTENT:
                event = replace(event, d=self.objects.concealed(event.d))
        return event if need & intents == need else None

    # Changes and their events

    def tell(self, event: str, data: Json, chat: Chat | None = None) -> None:
        """Queue an event for the bot, unless it is about a channel that the bot cannot see."""
        if chat is None or self.sees(chat):
            data = {**data, "guild_id": str(chat.guild)} if chat and chat.guild else data
            self.gateway.tell(event, data)

    def say(self, message: Message) -> Message:
        """Post the message. Its author and those it mentions become members of its thread."""
        chat = self.chats[message.chat]
        if message.thread is not None:
            thread = self.threads[chat.id, message.thread]
            if thread.closed:
                thread = self.update(replace(thread, closed=False))
            self.join(thread, message.author, *message.mentions)
        if self.sees(chat):
            self.gateway.miss(message.id)
        return self.show("MESSAGE_CREATE", self.post(message))

    def change(self, before: Message, after: Message) -> Message:
        return self.show("MESSAGE_UPDATE", self.edit(before, after))

    def show(self, event: str, it: Message) -> Message:
        if it.only_for is None:
            self.tell(event, self.objects.message(it, event=True), self.chats[it.chat])
        return it

    def open(self, chat: Chat, title: str, by: int, source: Message | None = None) -> Thread:
        """Open a thread, from a message if it is given, with the id of that message.

        In a forum, that is its first message. Elsewhere the platform posts a message about it.
        """
        name, kind = source.id if source else self.name(), chat.threads or Kind.PUBLIC_THREAD
        thread = Thread(id=name, chat=chat.id, title=title, by=by, kind=kind, members=(by,))
        self.update(thread, "THREAD_CREATE", newly_created=True)
        note = Message(id=self.name(), chat=chat.id, author=by, service=True)
        if source is None:
            kind, refers = MessageType.THREAD_CREATED, (name, 0)
            self.say(replace(note, type=kind, text=title, reference=refers))
        elif chat.kind is Kind.FORUM:
            self.say(replace(source, thread=name))
        else:
            self.change(source, replace(source, flags=source.flags | Flag.HAS_THREAD))
            kind, refers = MessageType.THREAD_STARTER_MESSAGE, (chat.id, name)
            self.say(replace(note, type=kind, thread=name, reference=refers))
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
        every = [it for some in self.commands.values() for it in some.values()]
        commands = {it["name"]: it["description"] for it in every}
        return snapshot.Shown(**self.shown(chat, commands=commands))
