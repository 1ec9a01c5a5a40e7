"""The Discord fake's state: lookups, permissions, and which events a session gets.

`topics/threads.mdx`, `topics/permissions.mdx`, `topics/opcodes-and-status-codes.mdx`,
`events/gateway.mdx` and `events/gateway-events.mdx` of discord/discord-api-docs. What clients make
of it is in discord.py's `gateway.py`, in hikari's `impl/shard.py` and its tests, and in
twilight-gateway.

The numbers are those of `resources/channel.mdx` (Channel Types), `topics/permissions.mdx` and
`resources/message.mdx` (Message Types, Message Flags).

`errors.json` has the status and the text of each error. Their format is documented in
`reference.mdx` (Error Messages) and `topics/rate-limits.mdx`, the codes in
`topics/opcodes-and-status-codes.mdx`. The documentation paraphrases the texts and gives no
statuses: these are as reported by bots, such as in discord-api-docs 61, 6647, 6884 and 6928,
undiscord 399 and discord.py 1219, 6883 and 10201.

`objects.json` has the shapes of the API's objects. Their fields are those of `resources/*.mdx`,
`events/gateway-events.mdx` and `interactions/receiving-and-responding.mdx`, and those that the
models of discord.py (`types/*.py`), hikari (`impl/entity_factory.py`) and twilight-model require.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import File, Interaction, Pulse, Refuse, Trouble, Upload, User
from tests.fakes.protocols.errors import Codes
from tests.fakes.protocols.gateway import Event, GatewaySession, GatewayShown, GatewayState
from tests.fakes.protocols.keys import Keys
from tests.fakes.protocols.snowflakes import Snowflakes
from tests.fakes.protocols.templates import Json, Templates

BOT = 1100000000000000001
"""The id of the bot's user and of its application."""
USUAL = 309237763136
"""The bot's permissions in a channel, unless a test says otherwise: to view it, read its history,
write there and in threads, open public threads, embed links, attach files and add reactions."""


class Kind(IntEnum):
    """The kinds of channel and of thread; the values are the types on the wire."""

    TEXT = 0
    DM = 1
    VOICE = 2
    ANNOUNCEMENT = 5
    FORUM = 15
    ANNOUNCEMENT_THREAD = 10
    PUBLIC_THREAD = 11


class MessageType(IntEnum):
    DEFAULT = 0
    THREAD_CREATED = 18
    REPLY = 19
    CHAT_INPUT_COMMAND = 20
    THREAD_STARTER_MESSAGE = 21


class Flag(IntFlag):
    """Flags of a message."""

    SUPPRESS_EMBEDS = 1 << 2
    HAS_THREAD = 1 << 5
    EPHEMERAL = 1 << 6


class Permission(IntFlag):
    VIEW_CHANNEL = 1 << 10
    SEND_MESSAGES = 1 << 11
    ATTACH_FILES = 1 << 15
    READ_MESSAGE_HISTORY = 1 << 16
    MENTION_EVERYONE = 1 << 17
    MANAGE_THREADS = 1 << 34
    CREATE_PUBLIC_THREADS = 1 << 35
    SEND_MESSAGES_IN_THREADS = 1 << 38


class Settings(peers.Settings, frozen=True, kw_only=True):
    """The bot's settings in the Developer Portal, and the deadlines and limits of the server."""

    username: str = "segue"
    content: bool = True
    """The Message Content intent is enabled."""
    heartbeats: tuple[float, float] = (41.25, 82.5)  # the interval, and the longest pause
    interaction_seconds: float = 3.0
    starts: int = 1000
    """How many sessions the bot may begin in a day. Discord resets the token of one that begins
    more."""
    start_seconds: float = 0.0
    """One session may begin in this time: 5 seconds on Discord, and here no limit by default. One
    that begins earlier gets Invalid Session."""
    resume_url: str = ""
    """Where sessions are resumed, if not where they begin."""
    active_threads: int = 1000
    """How many threads that are not archived there may be."""
    revives: bool = True
    """A message in an archived thread unarchives it. False: it is refused, as one bot reported."""


class Chat(peers.Chat[int], frozen=True, kw_only=True):
    """A channel. In a direct message KICKED means that the user accepts none from the bot."""

    kind: Kind
    guild: int = 0
    """0 in a direct message."""
    permissions: int = USUAL
    overwrites: tuple[tuple[int, int, int], ...] = ()
    """What it says of others than the bot: their ids, and what it allows and denies."""

    @property
    def threads(self) -> Kind | None:
        """The kind of its threads, if it has any."""
        public = {Kind.TEXT: Kind.PUBLIC_THREAD, Kind.FORUM: Kind.PUBLIC_THREAD}
        return {**public, Kind.ANNOUNCEMENT: Kind.ANNOUNCEMENT_THREAD}.get(self.kind)


class Thread(peers.Thread[int], frozen=True, kw_only=True):
    """`closed` means archived."""

    kind: Kind = Kind.PUBLIC_THREAD
    locked: bool = False
    members: tuple[int, ...] = ()


class Message(peers.Message[int], frozen=True, kw_only=True):
    type: MessageType = MessageType.DEFAULT
    flags: int = 0
    nonce: int | str | None = None
    mentions: tuple[int, ...] = ()
    """The users who are notified."""
    everyone: bool = False
    """Everyone is notified."""
    components: tuple[Any, ...] = ()
    embeds: tuple[Any, ...] = ()
    reference: tuple[int, int] | None = None
    """The channel and the message, or 0, that it refers to."""
    forwarded: str | None = None
    """The text of the message that it forwards."""
    only_for: int | None = None
    """The user who alone sees it, as an ephemeral answer."""


class Shown(GatewayShown[int, Message, Thread], frozen=True, kw_only=True):
    commands: Mapping[str, str]
    """The application commands and their descriptions, of all guilds."""


refuse = Codes(Path(__file__).with_name("errors.json"), invalid=50035)
check = refuse.check


def injected(trouble: Trouble, seconds: float) -> Refuse:
    """Return the error for a fault that a test ordered.

    BROKEN is 503, because discord.py repeats a call after 500, 502, 504 and 524 by itself.
    """
    if trouble is Trouble.BUSY:
        return refuse.too_often(seconds)
    return refuse(50001 if trouble is Trouble.FORBIDDEN else 503)


SIGNED = "00ff"
"""The signature in the URL of an attachment."""
_CONTENT_LIMITED = 1 << 19
"""The application's flag for the Message Content intent of a bot in few guilds."""


class Objects(Templates):
    """Most are made of an id, or of what the state has under it."""

    def __init__(self, state: State) -> None:
        super().__init__(Path(__file__).with_name("objects.json"))
        self._state = state

    def born(self, name: int) -> str | None:
        """The date in a snowflake: `reference.mdx` (Snowflakes)."""
        return self.date(self._state.snowflakes.time(name))

    def user(self, name: int) -> Json:
        it = self._state.users[name]
        shown = None if it.bot else it.name
        return self("user", it=it, username=it.username or it.name.lower(), name=shown)

    def member(self, guild: int, user: int | None) -> Json:
        return self("member", guild=guild, user=user)

    def application(self, name: int) -> Json:
        settings = self._state.settings
        guilds = self._state.guilds.values()
        more = {"flags": _CONTENT_LIMITED if settings.content else 0}
        more["guilds"] = sum(it.joined for it in guilds)
        return self("application", bot=name, settings=settings, **more)

    def guild(self, it: peers.Chat[int]) -> Json:
        """As in GUILD_CREATE. Without the GUILD_PRESENCES intent, the bot is its only member."""
        chats = {name: chat for name, chat in self._state.chats.items() if chat.guild == it.id}
        inside = [one for one in self._state.threads.values() if one.chat in chats]
        active = [one for one in inside if not one.closed]
        bot = self.member(it.id, BOT)
        return self("guild", it=it, bot=bot, chats=chats.values(), active=active)

    def place(self, at: Place) -> Json:
        return self.channel(at.chat) if at.thread is None else self.thread(at.thread)

    def channel(self, it: Chat) -> Json:
        """A channel. The bot's permissions are in an overwrite for it."""
        shape = "dm" if it.kind is Kind.DM else "channel"
        denied = ~it.permissions & (1 << 50) - 1
        inside = self._state.replies(it.id, None)
        made = self(shape, it=it, last=inside and inside[-1].id, bot=BOT, denied=denied)
        for name, allow, deny in it.overwrites:
            kind = 0 if name in self._state.guilds else 1
            more = {"id": str(name), "type": kind, "allow": str(allow), "deny": str(deny)}
            made["permission_overwrites"].append(more)
        return made

    def thread(self, it: Thread) -> Json:
        chat = self._state.chats[it.chat]
        inside = self._state.replies(it.chat, it.id)
        more = {"count": len(inside), "people": len(it.members)}
        more["last"] = inside[-1].id if inside else 0
        mine = self("thread_member", it=it, bot=BOT) if BOT in it.members else None
        return self("thread", it=it, chat=chat, member=mine, **more)

    def attachment(self, it: File) -> Json:
        """`reference.mdx` (Signed Attachment CDN URLs): only a signed URL works, for some time."""
        now = int(time.time())
        path = f"{self._state.url}/attachments/1/{it.id}/{it.name}"
        url = f"{path}?ex={now + 86400:x}&is={now:x}&hm={SIGNED}"
        return self("attachment", it=it, url=url)

    def message(self, it: Message, *, event: bool = False) -> Json:
        """A message; in an `event` with the guild and the author's member."""
        chat = self._state.chats[it.chat]
        (where, name) = it.reference or (0, 0)
        forwards = it.forwarded is not None
        refers = self("reference", chat=chat, type=int(forwards), where=where, name=name)
        made = self(
            "message",
            it=it,
            where=it.thread or it.chat,
            reference=refers if where else None,
            replied=None if forwards else self._state.messages.get((chat.id, name)),
            forward=[self("forward", it=it)] if forwards else None,
        )
        if event and chat.guild:
            kind = self._state.threads.get((chat.id, it.thread or 0), chat).kind
            made |= {"guild_id": str(chat.guild), "channel_type": kind}
            made["member"] = self.member(chat.guild, None)
        return made

    def concealed(self, data: Json) -> Json:
        """A guild's message as a bot without the Message Content intent gets it, unless it is its
        own or mentions the bot: `events/gateway.mdx` (Message Content Intent)."""
        involved = msgspec.json.encode([data.get("author"), data.get("mentions")])
        hidden = {} if f'"{BOT}"'.encode() in involved else self("hidden")
        return data | {name: it for name, it in hidden.items() if name in data}

    def interaction(self, it: Interaction[int], at: Message | None) -> Json:
        where = self._state.place(it.place)
        guild = where.chat.guild
        more = {"chat": where.chat, "place": self.place(where)}
        who = {"member": self.member(guild, it.user)} if guild else {"user": self.user(it.user)}
        made = self("interaction", it=it, bot=BOT, context=int(not guild), message=at, **more)
        return {**made, **who}


Place: TypeAlias = peers.Place[Chat, Thread]
_GUILDS = 1 << 0
_GUILD_MESSAGES = 1 << 9
_DIRECT_MESSAGES = 1 << 12
_CONTENT = 1 << 15
_PRIVILEGED = 1 << 1 | 1 << 8 | _CONTENT
_INTENTS = sum(1 << bit for bit in (*range(17), 20, 21, 24, 25))
_DAY = 24 * 60 * 60
_FREE = ("READY", "RESUMED", "INTERACTION_CREATE")


class State(GatewayState[Settings, int, Chat, Thread, Message]):
    def __init__(self, settings: Settings, pulse: Pulse) -> None:
        super().__init__(settings, pulse, injected)
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
        return not chat.guild or bool(chat.permissions & Permission[permission])

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
        (chat, thread) = at.ids
        name = self.name()
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
        now = asyncio.get_running_loop().time()
        total = self.settings.starts
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
        name = source.id if source else self.name()
        kind = chat.threads or Kind.PUBLIC_THREAD
        thread = Thread(id=name, chat=chat.id, title=title, by=by, kind=kind, members=(by,))
        self.update(thread, "THREAD_CREATE", newly_created=True)
        note = Message(id=self.name(), chat=chat.id, author=by, service=True)
        if source is None:
            kind = MessageType.THREAD_CREATED
            refers = (name, 0)
            self.say(replace(note, type=kind, text=title, reference=refers))
        elif chat.kind is Kind.FORUM:
            self.say(replace(source, thread=name))
        else:
            self.change(source, replace(source, flags=source.flags | Flag.HAS_THREAD))
            kind = MessageType.THREAD_STARTER_MESSAGE
            refers = (chat.id, name)
            self.say(replace(note, type=kind, thread=name, reference=refers))
        return thread

    def update(self, thread: Thread, event: str = "THREAD_UPDATE", **more: Any) -> Thread:
        self.threads[thread.chat, thread.id] = thread
        self.tell(event, self.objects.thread(thread) | more, self.chats[thread.chat])
        return thread

    def join(self, thread: Thread, *names: int) -> None:
        """Add members. The bot learns of the others only with the GUILD_MEMBERS intent."""
        members = tuple(dict.fromkeys((*thread.members, *names)))
        joined = replace(thread, members=members)
        self.threads[thread.chat, thread.id] = joined
        if BOT in members and BOT not in thread.members:
            self.update(joined, "THREAD_CREATE")

    def snapshot(self, chat: int | None) -> Shown:
        commands: dict[str, str] = {}
        for some in self.commands.values():
            commands |= {it["name"]: it["description"] for it in some.values()}
        return Shown(**self.shown(chat, commands=commands))
