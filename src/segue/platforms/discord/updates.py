"""Discord's events, as they arrive and as Inbounds: the adapter's edge.

The first part has the parts of Discord's objects that we use
(https://discord.com/developers/docs/reference). The second part makes Inbounds of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.text import one_line
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind

Digits = Annotated[str, Meta(pattern=r"^[0-9]{1,20}$")]
"""An id, or a set of permissions. Ids that were given later are greater."""

WITH_THREADS = {0: 11, 5: 10}
"""Types of channels with threads, and the types of these threads."""
FORUMS = (15, 16)
"""Types of channels where everything is in a thread, which Discord calls a post."""
_DM = 1
_THREADS = (10, 11, 12)


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
        files = list(self.attachments)
        for snapshot in self.message_snapshots:
            files += snapshot.message.attachments
        return tuple(files)


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


# As Inbounds

_WRITTEN = frozenset({0, 19})
"""The types of messages that users write: ordinary ones, and replies."""
_KEPT = timedelta(days=1)
_COMMAND = 2
_BUTTON = 3
"""The types of interactions."""
_MENTION = re.compile(r"<@!?([0-9]{1,20})>")
_CHANNEL = re.compile(r"<#([0-9]{1,20})>")


def address(channel: Channel) -> Address:
    """The address of a channel, a direct message or a thread."""
    return Address(
        platform=Platform.DISCORD,
        chat_type=ChatType.DM if channel.is_dm else ChatType.CHANNEL,
        chat_id=channel.parent or channel.id,
        thread_id=channel.id if channel.parent else None,
    )


def is_ignored(message: Message, me: str) -> bool:
    """Whether it is a message of a bot, a webhook or Discord itself."""
    by = message.author
    is_user = not (by.bot or by.system or by.id == me or message.webhook_id)
    return not is_user or message.type not in _WRITTEN


def said(message: Message, channel: Channel, parent: Channel, me: str) -> Inbound | None:
    """The Inbound for a message that is not ignored. None if there is nothing in it. `parent` is
    the channel of a thread, or `channel` itself."""
    forwarded = message.message_snapshots
    files = _attachments(message)
    texts = (_words(message, me), *(_text(it.message) for it in forwarded))
    text = "\n\n".join(filter(None, texts))
    if not (text or files):
        return None
    quote = _quote(message, me)
    is_named = any(user.id == me for user in message.mentions)
    is_reply_to_us = quote is not None and quote.ours
    return _inbound(
        InboundKind.MESSAGE,
        message.id,
        channel,
        parent,
        message.author,
        text=text,
        message_id=message.id,
        attachments=files,
        addressed=channel.is_dm or is_named or is_reply_to_us,
        forwarded_from="" if forwarded else None,
        quote=quote,
    )


def _quote(message: Message, me: str) -> Quote | None:
    """The message that this one replies to."""
    replied = message.referenced_message
    if replied is None:
        return None
    return Quote(
        author=replied.author.name,
        text=content.quoted(_text(replied), _attachments(replied)),
        ours=replied.author.id == me,
        message_id=replied.id,
    )


def mentioned_channels(text: str) -> Sequence[str]:
    """The ids of the channels and threads that a text mentions, each once."""
    return list(dict.fromkeys(_CHANNEL.findall(text)))


def with_channels(text: str, names: Mapping[str, str]) -> str:
    """The text with these names in the place of ids."""
    return _CHANNEL.sub(lambda it: f"#{names[it[1]]}" if it[1] in names else it[0], text)


def edited(message: Message, inbound: Inbound, now: datetime) -> Inbound | None:
    """The Inbound for an edit, from that of the message as it is now. None if the user did not just
    edit it: link previews and pins arrive as updates too."""
    at = message.edited_timestamp
    if at is None or at < now - _KEPT:
        return None
    return replace(inbound, kind=InboundKind.EDIT, update_id=f"{message.id} {at.isoformat()}")


def deleted(deletion: Deletion, channel: Channel) -> Inbound:
    """The Inbound for a message that was deleted. Its author is not known."""
    return Inbound(
        kind=InboundKind.DELETED,
        update_id=f"deleted {deletion.id}",
        address=address(channel),
        sender=Sender(platform=Platform.DISCORD, user_id=""),
        message_id=deletion.id,
    )


def acted(interaction: Interaction, channel: Channel, parent: Channel) -> Inbound | None:
    """The Inbound for a command or a pressed button."""
    user = interaction.user
    if user is None and interaction.member is not None:
        user = interaction.member.user
    if user is None:
        return None
    data = interaction.data
    if interaction.type == _COMMAND:
        kind = InboundKind.COMMAND
        message_id = interaction.id
        values = [str(option.value) for option in data.options]
        text = " ".join([f"/{data.name}", *values]).strip()
    elif interaction.type == _BUTTON and interaction.message is not None:
        kind = InboundKind.BUTTON
        message_id = interaction.message.id
        text = data.custom_id
    else:
        return None
    return _inbound(
        kind,
        interaction.id,
        channel,
        parent,
        user,
        text=text,
        message_id=message_id,
        press_id=f"{interaction.id}/{interaction.token}",
    )


def _inbound(
    kind: InboundKind, update_id: str, channel: Channel, parent: Channel, user: Profile, **more: Any
) -> Inbound:
    return Inbound(
        kind=kind,
        update_id=update_id,
        address=address(channel),
        sender=Sender(platform=Platform.DISCORD, user_id=user.id, name=user.name),
        chat_name=user.name if channel.is_dm else parent.title,
        topic=(channel.name or "") if channel.parent else "",
        readers="" if channel.is_dm else content.members(parent.title),
        **more,
    )


def _words(message: Message, me: str) -> str:
    """The text without the bot's name at its start, and with the names of the users in it."""
    names = {user.id: user.name for user in message.mentions}

    def named(mention: re.Match[str]) -> str:
        name = names.get(mention[1])
        return mention[0] if name is None else content.mention(name)

    text = _text(message)
    first = _MENTION.match(text)
    if first is not None and first[1] == me:
        text = content.without_name(text[first.end() :], text)
    return _MENTION.sub(named, text)


def _text(said: Body) -> str:
    """The text of a message, with its stickers and its poll in words."""
    lines = [said.content, *(f"[A sticker: {one_line(it.name)}]" for it in said.sticker_items)]
    if said.poll is not None:
        media = (answer.poll_media or Detail() for answer in said.poll.answers)
        question = said.poll.question or Detail()
        lines.append(content.poll(question.text, (it.text for it in media)))
    return "\n".join(filter(None, lines))


def _attachments(message: Message) -> tuple[Attachment, ...]:
    """The files of a message. Their URLs expire, so a file is named by its message."""
    return tuple(
        content.attachment(
            FileKind.DOCUMENT,
            f"{message.channel_id}/{message.id}/{file.id}",
            name=file.filename,
            media_type=file.content_type or "",
            size=file.size,
        )
        for file in message.files
    )
