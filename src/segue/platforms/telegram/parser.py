"""Convert a Telegram update to an Inbound: the adapter's edge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind
from segue.platforms.telegram import wire
from segue.platforms.telegram.wire import Chat, Content, Me, Message, Update

_CHATS = {"private": ChatType.DM, "group": ChatType.GROUP, "supergroup": ChatType.GROUP}
_KEPT = 24 * 60 * 60
_INSIDE = frozenset({"creator", "administrator", "member"})


def parse(update: Update, me: Me, now: float) -> Inbound | None:
    """Return the user's action as an Inbound, or None if we ignore it. Ignored are bots (including
    our own messages), messages sent on behalf of a chat, channels, and Telegram's service messages
    except a change of chat id."""
    if update.message is not None:
        return _said(update, update.message, me)
    if (message := update.edited_message) is not None and _is_edited(message, now):
        said = _said(update, message, me)
        return said and msgspec.structs.replace(said, kind=InboundKind.EDIT)
    if update.callback_query is not None:
        return _pressed(update, update.callback_query)
    if update.my_chat_member is not None:
        return _joined(update, update.my_chat_member)
    return None


def address(chat: Chat, message: Message | None = None) -> Address | None:
    """The address of a chat or a message in it; None for channels and unknown chat types.

    In a group without topics, replies to a message have a `message_thread_id` too, but are not a
    separate place. The General topic is the chat itself.
    """
    if chat.type not in _CHATS:
        return None
    thread = message.message_thread_id if message and message.is_topic_message else None
    return Address(
        platform=Platform.TELEGRAM,
        chat_type=_CHATS[chat.type],
        chat_id=str(chat.id),
        thread_id=None if thread is None else str(thread),
    )


def closed_topic(update: Update) -> Address | None:
    """The topic that this update closed, or None."""
    message = update.message
    closed = message is not None and message.forum_topic_closed is not None
    return address(message.chat, message) if message and closed else None


# Kinds of updates


def _said(update: Update, message: Message, me: Me) -> Inbound | None:
    at, sender = address(message.chat, message), message.sender
    if at is not None and message.migrate_to_chat_id is not None:
        new = replace(at, chat_id=str(message.migrate_to_chat_id))
        group = Sender(platform=Platform.TELEGRAM, user_id=at.chat_id)
        return _inbound(InboundKind.MOVED, update, at, group, moved_to=new)
    if at is None or sender is None or sender.is_bot or message.sender_chat is not None:
        return None
    author, files, quote = _forwarded_from(message), _attachments(message), _quote(message, me)
    # Text that the sender only passed on is content, addressed to no bot.
    passed_on = message.text or message.caption, False, False
    if (words := _words(message, me) if author is None else passed_on) is None:
        return None
    text, command, to_us = words
    if not (text := text or _shared(message)) and not files:
        return None
    created = message.reply_to_message and message.reply_to_message.forum_topic_created
    return _inbound(
        InboundKind.COMMAND if command else InboundKind.MESSAGE,
        update,
        at,
        _sender(sender),
        message.chat,
        text=text,
        message_id=str(message.message_id),
        attachments=files,
        topic=created.name if created else "",
        addressed=at.chat_type is ChatType.DM or to_us or (quote is not None and quote.ours),
        forwarded_from=author,
        quote=quote,
    )


def _is_edited(message: Message, now: float) -> bool:
    """Whether the user has just edited the message. A first reaction, a link preview and a live
    location update also arrive as edits, without a date or with the date of an earlier edit.
    Telegram keeps updates for at most a day."""
    if message.location is not None or (message.media_group_id and not message.caption):
        return False
    return message.edit_date > now - _KEPT


def _pressed(update: Update, query: wire.CallbackQuery) -> Inbound | None:
    message = query.message
    at = None if message is None else address(message.chat, message)
    if message is None or at is None or query.data is None or query.sender.is_bot:
        return None
    return _inbound(
        InboundKind.BUTTON,
        update,
        at,
        _sender(query.sender),
        message.chat,
        # For a message that is no longer accessible, Telegram does not say which topic it is in.
        # The button must not act in another place.
        text=query.data if message.date else "",
        message_id=str(message.message_id),
        press_id=query.id,
        forwarded_from=_forwarded_from(message),
    )


def _joined(update: Update, change: wire.MemberUpdated) -> Inbound | None:
    at, sender = address(change.chat), change.sender
    came = _inside(change.new_chat_member) and not _inside(change.old_chat_member)
    if at is None or not came or sender.is_bot:
        return None
    return _inbound(InboundKind.JOINED, update, at, _sender(sender), change.chat)


def _inside(member: wire.Member) -> bool:
    return member.status in _INSIDE or (member.status == "restricted" and member.is_member)


def _inbound(
    kind: InboundKind,
    update: Update,
    at: Address,
    sender: Sender,
    chat: Chat | None = None,
    **more: Any,
) -> Inbound:
    if chat is not None:
        more["chat_name"] = chat.name
        # An update does not say how many members there are.
        more["readers"] = "" if chat.type == "private" else content.members(chat.title)
    return Inbound(kind=kind, update_id=str(update.update_id), address=at, sender=sender, **more)


def _sender(user: wire.User) -> Sender:
    return Sender(platform=Platform.TELEGRAM, user_id=str(user.id), name=user.name)


# Text


def _words(message: Message, me: Me) -> tuple[str, bool, bool] | None:
    """The text without the bot's name at its start, whether it is a command, and whether it is
    addressed to the bot. None for a command to another bot."""
    text = whole = message.text or message.caption
    to_us = False
    for entity in message.entities if message.text else message.caption_entities:
        marked, rest = content.marked(whole, entity.offset, entity.length)
        if entity.type == "bot_command" and entity.offset == 0:
            name, at, bot = marked.partition("@")
            is_other = at and bot.lower() != me.username.lower()
            return None if is_other else (name + rest, True, True)
        if _is_name(entity, marked, me):
            to_us = True
            text = text if entity.offset else content.without_name(rest, whole)
    return text, False, to_us


def _is_name(entity: wire.Entity, marked: str, me: Me) -> bool:
    if entity.type == "mention":
        return marked.lower() == f"@{me.username}".lower()
    return entity.type == "text_mention" and entity.user is not None and entity.user.id == me.id


# Authors


def _forwarded_from(message: Message) -> str | None:
    """The author of forwarded text, or the bot that the message was sent through; empty if unknown.
    None if the sender wrote it."""
    if message.forward_origin is not None:
        return _author(message.forward_origin)
    if message.forward_date is not None:
        return ""
    return None if message.via_bot is None else f"{message.via_bot.name} (a bot)"


def _author(origin: wire.Origin) -> str:
    user, chat = origin.sender_user, origin.sender_chat or origin.chat
    user_name = user.name if user else origin.sender_user_name
    return ", ".join(filter(None, (user_name, chat.name if chat else "", origin.author_signature)))


def _quote(message: Message, me: Me) -> Quote | None:
    """The message that this one replies to. In a topic, a message that is not a reply is sent as a
    reply to the message that created the topic; it has no quote."""
    part = message.quote.text if message.quote else ""
    if (other := message.external_reply) is not None:
        return Quote(author=_author(other.origin), text=part or _quoted(other))
    if (story := message.reply_to_story) is not None:
        return Quote(author=story.chat.name, text="[A story]")
    replied = message.reply_to_message
    if replied is None or (
        message.is_topic_message and replied.message_id == message.message_thread_id
    ):
        return None
    author, sender = _forwarded_from(replied), replied.sender_chat or replied.sender
    return Quote(
        author=author if author is not None else sender.name if sender else "",
        text=part or _quoted(replied),
        ours=author is None and replied.sender is not None and replied.sender.id == me.id,
    )


def _quoted(said: Content) -> str:
    return content.quoted(said.text or said.caption or _shared(said), _attachments(said))


# Content that is not text


def _attachments(message: Content) -> tuple[Attachment, ...]:
    """At most one attachment: each picture of an album is a separate message."""
    sticker, largest = message.sticker, None
    if message.photo:  # Telegram sends a picture in several sizes
        largest = max(message.photo, key=lambda size: size.width * size.height)
    for kind, file in (
        (FileKind.PHOTO, largest),
        (FileKind.ANIMATION, message.animation),  # also sent as a document
        (FileKind.DOCUMENT, message.document),
        (FileKind.VOICE, message.voice),
        (FileKind.AUDIO, message.audio),
        (FileKind.VIDEO, message.video or message.video_note),
        (_sticker(sticker) if sticker else FileKind.STICKER, sticker),
    ):
        if file is not None:
            named = {"name": file.file_name, "media_type": file.mime_type}
            return (content.attachment(kind, file.file_id, size=file.file_size, **named),)
    return ()


def _sticker(sticker: wire.File) -> FileKind:
    if sticker.is_animated:
        return FileKind.VECTOR_STICKER
    return FileKind.VIDEO_STICKER if sticker.is_video else FileKind.STICKER


def _shared(message: Content) -> str:
    """A place, contact, poll, checklist, story or dice in words; "" if there is none."""
    if (venue := message.venue) is not None:
        point = venue.location
        return content.place(point.latitude, point.longitude, venue.title, venue.address)
    if (point := message.location) is not None:
        return content.place(point.latitude, point.longitude)
    if (contact := message.contact) is not None:
        return content.contact(f"{contact.first_name} {contact.last_name}", contact.phone_number)
    if (poll := message.poll) is not None:
        return content.poll(poll.question, (option.text for option in poll.options))
    if (checklist := message.checklist) is not None:
        tasks = ((task.text, task.completion_date > 0) for task in checklist.tasks)
        return content.checklist(checklist.title, tasks)
    if message.story is not None:
        return content.story(message.story.chat.name)
    return content.dice(message.dice.emoji, message.dice.value) if message.dice else ""
