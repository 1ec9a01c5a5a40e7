"""Convert a Discord event to an Inbound: the adapter's edge."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.text import one_line
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind
from segue.platforms.discord.wire import (
    Body,
    Channel,
    Deletion,
    Detail,
    Interaction,
    Message,
    Profile,
)

_WRITTEN = frozenset({0, 19})
"""The types of messages that users write: ordinary ones, and replies."""
_KEPT = timedelta(days=1)
_COMMAND, _BUTTON = 2, 3
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
    forwarded, files = message.message_snapshots, _attachments(message)
    texts = (_words(message, me), *(_text(it.message) for it in forwarded))
    text = "\n\n".join(filter(None, texts))
    if not (text or files):
        return None
    quote, replied = None, message.referenced_message
    if replied is not None:
        seen, ours = content.quoted(_text(replied), _attachments(replied)), replied.author.id == me
        quote = Quote(author=replied.author.name, text=seen, ours=ours, message_id=replied.id)
    to_us = channel.is_dm or (quote and quote.ours) or any(it.id == me for it in message.mentions)
    more = {"text": text, "attachments": files, "quote": quote, "addressed": bool(to_us)}
    more |= {"message_id": message.id, "forwarded_from": "" if forwarded else None}
    return _inbound(InboundKind.MESSAGE, message.id, channel, parent, message.author, **more)


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
    it, data, member = interaction, interaction.data, interaction.member
    if (user := it.user or (member and member.user)) is None:
        return None
    kind, text, message_id = InboundKind.COMMAND, f"/{data.name}", it.id
    if it.type == _BUTTON and it.message is not None:
        kind, text, message_id = InboundKind.BUTTON, data.custom_id, it.message.id
    elif it.type != _COMMAND:
        return None
    text = " ".join((text, *(str(option.value) for option in data.options))).strip()
    more = {"text": text, "message_id": message_id, "press_id": f"{it.id}/{it.token}"}
    return _inbound(kind, it.id, channel, parent, user, **more)


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
    text, names = _text(message), {user.id: user.name for user in message.mentions}
    if (first := _MENTION.match(text)) and first[1] == me:
        text = content.without_name(text[first.end() :], text)
    return _MENTION.sub(lambda it: content.mention(names[it[1]]) if it[1] in names else it[0], text)


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
    at, file = f"{message.channel_id}/{message.id}", partial(content.attachment, FileKind.DOCUMENT)
    return tuple(
        file(f"{at}/{it.id}", name=it.filename, media_type=it.content_type or "", size=it.size)
        for it in message.files
    )
