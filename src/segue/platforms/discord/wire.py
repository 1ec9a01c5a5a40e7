"""The parts of Discord's objects that we use: https://discord.com/developers/docs/reference."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

Digits = Annotated[str, Meta(pattern=r"^[0-9]{1,20}$")]
"""An id, or a set of permissions. Ids that were given later are greater."""

WITH_THREADS = {0: 11, 5: 10}
"""Types of channels with threads, and the types of these threads."""
FORUMS = (15, 16)
"""Types of channels where everything is in a thread, which Discord calls a post."""
_DM, _THREADS = 1, (10, 11, 12)


class Named(Struct, frozen=True):
    """Any object with an id."""

    id: Digits


class Resource(Named, frozen=True):
    """An application, a guild (which users call a server), a role, an overwrite of permissions, a
    tag or a command. Its kind decides which fields are set."""

    name: str = ""
    description: str | None = None
    owner_id: Digits | None = None
    roles: tuple[Resource, ...] = ()
    permissions: Digits = "0"
    allow: Digits = "0"
    deny: Digits = "0"
    moderated: bool = False
    flags: int = 0
    approximate_guild_count: int = 0


class Profile(Named, frozen=True):
    username: str
    global_name: str | None = None
    bot: bool = False
    system: bool = False

    @property
    def name(self) -> str:
        return self.global_name or self.username


class Channel(Named, frozen=True):
    """A channel, a direct message or a thread."""

    type: int
    name: str | None = None
    guild_id: Digits | None = None
    parent_id: Digits | None = None
    """The channel of a thread, or the category of a channel."""
    owner_id: Digits | None = None
    """The user who opened a thread."""
    recipients: tuple[Profile, ...] = ()
    permission_overwrites: tuple[Resource, ...] = ()
    available_tags: tuple[Resource, ...] = ()
    flags: int = 0
    message_count: int = 0
    """Of a thread, without its first message."""

    @property
    def is_dm(self) -> bool:
        return self.type == _DM

    @property
    def parent(self) -> str | None:
        """The channel of a thread."""
        return self.parent_id if self.type in _THREADS else None

    @property
    def title(self) -> str:
        return ", ".join(it.name for it in self.recipients) if self.is_dm else f"#{self.name}"


class Media(Named, frozen=True):
    filename: str
    url: str
    size: int = 0
    content_type: str | None = None


class Body(Struct, frozen=True):
    content: str = ""
    attachments: tuple[Media, ...] = ()
    sticker_items: tuple[Detail, ...] = ()
    poll: Detail | None = None


class Detail(Struct, frozen=True):
    """An object without an id: a poll, its question or answer, a sticker, a forwarded message, what
    a command or a button says, a member of a guild, the beginning of a session. Its kind decides
    which fields are set."""

    name: str = ""
    text: str = ""
    question: Detail | None = None
    answers: tuple[Detail, ...] = ()
    poll_media: Detail | None = None
    message: Body = Body()
    custom_id: str = ""
    options: tuple[Detail, ...] = ()
    value: str | int | float | bool = ""
    user: Profile | None = None
    roles: tuple[str, ...] = ()
    application: Named = Named("0")
    guilds: tuple[Named, ...] = ()
    threads: tuple[Channel, ...] = ()


class SessionStartLimit(Struct, frozen=True):
    remaining: int = 1
    reset_after: float = 0.0
    """Milliseconds."""


class GatewayInfo(Struct, frozen=True):
    """https://discord.com/developers/docs/events/gateway#get-gateway-bot"""

    url: str
    session_start_limit: SessionStartLimit = SessionStartLimit()


class Message(Body, frozen=True, kw_only=True):
    id: Digits
    channel_id: Digits
    author: Profile
    type: int
    edited_timestamp: datetime | None = None
    flags: int = 0
    webhook_id: str | None = None
    mentions: tuple[Profile, ...] = ()
    referenced_message: Message | None = None
    message_snapshots: tuple[Detail, ...] = ()
    """The message that it forwards. Discord does not say who wrote it."""

    @property
    def began_thread(self) -> bool:
        """Whether it is the first message of a thread, which has its id."""
        return bool(self.flags & 1 << 5)

    @property
    def files(self) -> tuple[Media, ...]:
        """Its files, and those of the message that it forwards."""
        said = (self, *(it.message for it in self.message_snapshots))
        return tuple(file for it in said for file in it.attachments)


class Deletion(Named, frozen=True):
    """A message that was deleted. Discord says neither who wrote it nor who deleted it."""

    channel_id: Digits


class Interaction(Named, frozen=True):
    """A command or a pressed button."""

    type: int
    token: str
    channel_id: Digits
    data: Detail
    user: Profile | None = None
    member: Detail | None = None
    """Has the user, except in a direct message."""
    message: Named | None = None
    """The message with the button."""
