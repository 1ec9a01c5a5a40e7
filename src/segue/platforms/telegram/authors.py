"""The author of a message: its sender, or the author of text that the sender passed on."""

from __future__ import annotations

from segue.platforms.base import Quote
from segue.platforms.telegram.attachments import attachments
from segue.platforms.telegram.content import shared
from segue.platforms.telegram.wire import Content, Me, Message, Origin, User, Written


def forwarded_from(message: Written) -> str | None:
    """The author of forwarded text, or the bot that the message was sent through; empty if unknown.
    None if the sender wrote it."""
    if message.forward_origin is not None:
        return _author(message.forward_origin)
    if message.forward_date is not None:
        return ""
    return None if message.via_bot is None else f"{user_name(message.via_bot)} (a bot)"


def quote(message: Message, me: Me) -> Quote | None:
    """The message that this one replies to. In a topic, a message that is not a reply is sent as a
    reply to the message that created the topic; it has no quote."""
    part = "" if message.quote is None else message.quote.text
    if (other := message.external_reply) is not None:
        return Quote(author=_author(other.origin), text=part or _content(other))
    if (story := message.reply_to_story) is not None:
        return Quote(author=story.chat.name, text="[A story]")
    replied = message.reply_to_message
    if replied is None or (
        message.is_topic_message and replied.message_id == message.message_thread_id
    ):
        return None
    author = forwarded_from(replied)
    return Quote(
        author=_sender(replied) if author is None else author,
        text=part or _content(replied),
        ours=author is None and replied.sender is not None and replied.sender.id == me.id,
    )


def user_name(user: User) -> str:
    return f"{user.first_name} {user.last_name}".strip()


def _author(origin: Origin) -> str:
    if origin.sender_user is not None:
        return user_name(origin.sender_user)
    chat = origin.sender_chat or origin.chat
    names = (origin.sender_user_name, "" if chat is None else chat.name, origin.author_signature)
    return ", ".join(filter(None, names))


def _sender(message: Written) -> str:
    if message.sender_chat is not None:
        return message.sender_chat.name
    return "" if message.sender is None else user_name(message.sender)


def _content(said: Content) -> str:
    files = (f"[{file.name}]" for file in attachments(said))
    return "\n".join(filter(None, (*files, said.text or said.caption or shared(said))))
