"""Convert a Telegram update to an Inbound: the adapter's edge."""

from __future__ import annotations

from dataclasses import replace

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms.base import Inbound, InboundKind
from segue.platforms.telegram import authors, mentions
from segue.platforms.telegram.attachments import attachments
from segue.platforms.telegram.content import shared
from segue.platforms.telegram.wire import (
    CallbackQuery,
    Chat,
    Me,
    Member,
    MemberUpdated,
    Message,
    Update,
    User,
)

_CHATS = {"private": ChatType.DM, "group": ChatType.GROUP, "supergroup": ChatType.GROUP}
_KEPT = 24 * 60 * 60
_INSIDE = frozenset({"creator", "administrator", "member"})


def parse(update: Update, me: Me, now: float) -> Inbound | None:
    """Return the user's action as an Inbound, or None if we ignore it. Ignored are bots (including
    our own messages), messages sent on behalf of a chat, channels, and Telegram's service messages
    except a change of chat id."""
    if update.message is not None:
        return _said(update, update.message, me, edited=False)
    if (message := update.edited_message) is not None:
        return _said(update, message, me, edited=True) if _is_edited(message, now) else None
    if update.callback_query is not None:
        return _pressed(update, update.callback_query)
    if update.my_chat_member is not None:
        return _joined(update, update.my_chat_member)
    return None


def address(chat: Chat, thread: int | None) -> Address | None:
    """The address of a chat, or None for channels and unknown chat types."""
    if chat.type not in _CHATS:
        return None
    return Address(
        platform=Platform.TELEGRAM,
        chat_type=_CHATS[chat.type],
        chat_id=str(chat.id),
        thread_id=None if thread is None else str(thread),
    )


def closed_topic(update: Update) -> Address | None:
    """The topic that this update closed, or None."""
    message = update.message
    if message is None or message.forum_topic_closed is None:
        return None
    return address(message.chat, _topic(message))


def _said(update: Update, message: Message, me: Me, *, edited: bool) -> Inbound | None:
    at, sender = address(message.chat, _topic(message)), message.sender
    if at is not None and message.migrate_to_chat_id is not None:
        return _moved(update, at, message.migrate_to_chat_id)
    if at is None or sender is None or sender.is_bot or message.sender_chat is not None:
        return None
    author, files = authors.forwarded_from(message), attachments(message)
    said = mentions.of(message, me) if author is None else mentions.passed_on(message)
    text = said.text or shared(message)
    if said.to_another or not (text or files):
        return None
    kind = InboundKind.COMMAND if said.command else InboundKind.MESSAGE
    created = None if (replied := message.reply_to_message) is None else replied.forum_topic_created
    quote = authors.quote(message, me)
    return Inbound(
        kind=InboundKind.EDIT if edited else kind,
        update_id=str(update.update_id),
        address=at,
        sender=_sender(sender),
        text=text,
        message_id=str(message.message_id),
        attachments=files,
        chat_name=message.chat.name,
        topic="" if created is None else created.name,
        addressed=at.chat_type is ChatType.DM or said.to_us or (quote is not None and quote.ours),
        readers=_readers(message.chat),
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


def _moved(update: Update, at: Address, chat: int) -> Inbound:
    return Inbound(
        kind=InboundKind.MOVED,
        update_id=str(update.update_id),
        address=at,
        sender=Sender(platform=Platform.TELEGRAM, user_id=at.chat_id),
        moved_to=replace(at, chat_id=str(chat)),
    )


def _pressed(update: Update, query: CallbackQuery) -> Inbound | None:
    message = query.message
    if message is None or query.data is None or query.sender.is_bot:
        return None
    at = address(message.chat, _topic(message))
    if at is None:
        return None
    return Inbound(
        kind=InboundKind.BUTTON,
        update_id=str(update.update_id),
        address=at,
        sender=_sender(query.sender),
        # For a message that is no longer accessible, Telegram does not say which topic it is in.
        # The button must not act in another place.
        text=query.data if message.date else "",
        message_id=str(message.message_id),
        press_id=query.id,
        chat_name=message.chat.name,
        readers=_readers(message.chat),
        forwarded_from=authors.forwarded_from(message),
    )


def _joined(update: Update, change: MemberUpdated) -> Inbound | None:
    at = address(change.chat, None)
    came = _inside(change.new_chat_member) and not _inside(change.old_chat_member)
    if at is None or not came or change.sender.is_bot:
        return None
    return Inbound(
        kind=InboundKind.JOINED,
        update_id=str(update.update_id),
        address=at,
        sender=_sender(change.sender),
        chat_name=change.chat.name,
        readers=_readers(change.chat),
    )


def _topic(message: Message) -> int | None:
    """The topic of a message. In a group without topics, replies to a message have a
    `message_thread_id` too, but are not a separate place. The General topic is the chat itself."""
    return message.message_thread_id if message.is_topic_message else None


def _inside(member: Member) -> bool:
    return member.status in _INSIDE or (member.status == "restricted" and member.is_member)


def _sender(user: User) -> Sender:
    return Sender(
        platform=Platform.TELEGRAM,
        user_id=str(user.id),
        name=authors.user_name(user),
    )


def _readers(chat: Chat) -> str:
    """A description of the chat's readers. An update does not say how many there are."""
    return "" if chat.type == "private" else f"the members of {chat.title or 'this chat'}"
