"""The state of the Discord fake, as types: what it adds to the types of all platforms.

The numbers are those of `resources/channel.mdx` (Channel Types), `topics/permissions.mdx` and
`resources/message.mdx` (Message Types, Message Flags) of discord/discord-api-docs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag
from typing import Any

from segue.testing import peers
from tests.fakes.protocols.gateway import GatewayShown

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
