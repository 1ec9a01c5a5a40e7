"""Telegram's updates, as they arrive and as Inbounds: the adapter's edge.

The first half has the parts of an update that we use, by their names on the wire
(https://core.telegram.org/bots/api#update). The second half makes an Inbound of each: `parse`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind


class User(Struct, frozen=True):
    id: int
    is_bot: bool
    first_name: str
    last_name: str = ""
    username: str = ""

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}".strip()


class Chat(Struct, frozen=True):
    id: int
    type: str
    title: str = ""
    first_name: str = ""

    @property
    def name(self) -> str:
        return self.title or self.first_name


class Entity(Struct, frozen=True):
    """A marked part of a text, such as a mention. Offsets are in UTF-16 units."""

    type: str
    offset: int
    length: int
    user: User | None = None


class File(Struct, frozen=True):
    """A picture in one size, document, recording, video or sticker."""

    file_id: str
    file_name: str = ""
    mime_type: str = ""
    file_size: int = 0
    width: int = 0
    height: int = 0
    is_animated: bool = False
    is_video: bool = False


class Item(Struct, frozen=True):
    """A location, venue, contact, poll, option, checklist, task, dice, story, new topic or quoted
    part of a message. Its kind decides which fields are set."""

    latitude: float = 0.0
    longitude: float = 0.0
    location: Item | None = None
    title: str = ""
    address: str = ""
    phone_number: str = ""
    first_name: str = ""
    last_name: str = ""
    question: str = ""
    options: tuple[Item, ...] = ()
    tasks: tuple[Item, ...] = ()
    text: str = ""
    completion_date: int = 0
    emoji: str = ""
    value: int = 0
    chat: Chat = Chat(id=0, type="")
    name: str = ""


class Origin(Struct, frozen=True):
    """The original author of a forwarded message. Its type decides which fields are set."""

    sender_user: User | None = None
    sender_user_name: str = ""
    sender_chat: Chat | None = None
    chat: Chat | None = None
    author_signature: str = ""


class Content(Struct, frozen=True):
    text: str = ""
    entities: tuple[Entity, ...] = ()
    caption: str = ""
    caption_entities: tuple[Entity, ...] = ()
    photo: tuple[File, ...] = ()
    document: File | None = None
    audio: File | None = None
    voice: File | None = None
    video: File | None = None
    video_note: File | None = None
    animation: File | None = None
    sticker: File | None = None
    location: Item | None = None
    venue: Item | None = None
    contact: Item | None = None
    poll: Item | None = None
    dice: Item | None = None
    checklist: Item | None = None
    story: Item | None = None
    origin: Origin = Origin()
    """The author, if it is from another chat."""


class Message(Content, frozen=True, kw_only=True, rename={"sender": "from"}):
    message_id: int
    chat: Chat
    date: int
    """0 for a message that is no longer accessible. Only its chat is known."""
    edit_date: int = 0
    sender: User | None = None
    sender_chat: Chat | None = None
    """Set for messages sent on behalf of a chat."""
    forward_origin: Origin | None = None
    forward_date: int | None = None
    """The only sign of a forwarded message that all servers send, before and after Bot API 7.0."""
    via_bot: User | None = None
    """The inline bot that wrote the message for the user."""
    message_thread_id: int | None = None
    is_topic_message: bool = False
    forum_topic_created: Item | None = None
    forum_topic_closed: dict[str, Any] | None = None
    reply_to_message: Message | None = None
    external_reply: Content | None = None
    """A message from another chat. Its text comes as the quote."""
    quote: Item = Item()
    reply_to_story: Item | None = None
    media_group_id: str = ""
    migrate_to_chat_id: int | None = None
    """The supergroup that this group has become."""

    @property
    def topic(self) -> int | None:
        """The topic that it is in. None in a chat without topics, and in the General topic."""
        return self.message_thread_id if self.is_topic_message else None


class CallbackQuery(Struct, frozen=True, rename={"sender": "from"}):
    id: str
    sender: User
    message: Message | None = None
    data: str | None = None


class Member(Struct, frozen=True):
    status: str
    is_member: bool = False


class MemberUpdated(Struct, frozen=True, rename={"sender": "from"}):
    chat: Chat
    sender: User
    old_chat_member: Member
    new_chat_member: Member


class Update(Struct, frozen=True):
    """The types of update that we ask Telegram for, and an update of one of them."""

    update_id: int
    message: Message | None = None
    edited_message: Message | None = None
    callback_query: CallbackQuery | None = None
    my_chat_member: MemberUpdated | None = None

    @property
    def album(self) -> str:
        """The album that its file belongs to. Empty if it belongs to none."""
        if self.message is None or not self.message.media_group_id:
            return ""
        return f"{self.message.chat.id} {self.message.media_group_id}"


# As Inbounds

_CHATS = {"private": ChatType.DM, "group": ChatType.GROUP, "supergroup": ChatType.GROUP}
_KEPT = 24 * 60 * 60
_INSIDE = frozenset({"creator", "administrator", "member"})


def parse(update: Update, me: User, now: float) -> Inbound | None:
    """Return the user's action as an Inbound, or None if we ignore it. Ignored are bots (including
    our own messages), messages sent on behalf of a chat, channels, and Telegram's service messages
    except a change of chat id."""
    if update.message is not None:
        return _said(update, update.message, me)
    if update.edited_message is not None:
        if not _is_edited(update.edited_message, now):
            return None
        said = _said(update, update.edited_message, me)
        return None if said is None else replace(said, kind=InboundKind.EDIT)
    if update.callback_query is not None:
        return _pressed(update, update.callback_query)
    if update.my_chat_member is not None:
        return _joined(update, update.my_chat_member)
    return None


def address(chat: Chat, message: Message | None = None) -> Address | None:
    """The address of a chat or a message in it; None for channels and unknown chat types.

    In a group without topics, replies to a message have a `message_thread_id` too, but no address
    of their own. The General topic is the chat itself.
    """
    kind = _CHATS.get(chat.type)
    if kind is None:
        return None
    topic = None if message is None else message.topic
    return Address(
        platform=Platform.TELEGRAM,
        chat_type=kind,
        chat_id=str(chat.id),
        thread_id=None if topic is None else str(topic),
    )


class _Words(NamedTuple):
    text: str
    """Without the bot's name at its start."""
    is_command: bool = False
    is_addressed: bool = False
    """Whether the text is for the bot."""


def _said(update: Update, message: Message, me: User) -> Inbound | None:
    if message.migrate_to_chat_id is not None:
        group = User(message.chat.id, is_bot=False, first_name="")
        new = address(replace(message.chat, id=message.migrate_to_chat_id))
        return _inbound(InboundKind.MOVED, update, message.chat, group, moved_to=new)
    if message.sender_chat is not None:
        return None
    author = _forwarded_from(message)
    words = _words(message, me)
    if author is not None:
        # Text that the sender only passed on is content, addressed to no bot.
        words = _Words(message.text or message.caption)
    if words is None:
        return None
    text = words.text or _shared(message)
    files = _attachments(message)
    if not (text or files):
        return None
    kind = InboundKind.COMMAND if words.is_command else InboundKind.MESSAGE
    quote = _quote(message, me)
    is_reply_to_us = quote is not None and quote.ours
    is_private = message.chat.type == "private"
    return _inbound(
        kind,
        update,
        message.chat,
        message.sender,
        message,
        text=text,
        attachments=files,
        topic=_topic_name(message),
        addressed=is_private or words.is_addressed or is_reply_to_us,
        forwarded_from=author,
        quote=quote,
    )


def _topic_name(message: Message) -> str:
    """The name of the topic that a message is in, if Telegram sends it."""
    replied = message.reply_to_message
    if replied is None or replied.forum_topic_created is None:
        return ""
    return replied.forum_topic_created.name


def _is_edited(message: Message, now: float) -> bool:
    """Whether the user has just edited the message. A first reaction, a link preview and a live
    location update also arrive as edits, without a date or with the date of an earlier edit.
    Telegram keeps updates for at most a day."""
    if message.location is not None or (message.media_group_id and not message.caption):
        return False
    return message.edit_date > now - _KEPT


def _pressed(update: Update, query: CallbackQuery) -> Inbound | None:
    message = query.message
    if message is None or query.data is None:
        return None
    return _inbound(
        InboundKind.BUTTON,
        update,
        message.chat,
        query.sender,
        message,
        # For a message that is no longer accessible, Telegram does not name its topic. The button
        # must not act in another place.
        text=query.data if message.date else "",
        press_id=query.id,
        forwarded_from=_forwarded_from(message),
    )


def _joined(update: Update, change: MemberUpdated) -> Inbound | None:
    if not _is_inside(change.new_chat_member) or _is_inside(change.old_chat_member):
        return None
    return _inbound(InboundKind.JOINED, update, change.chat, change.sender)


def _is_inside(member: Member) -> bool:
    return member.status in _INSIDE or (member.status == "restricted" and member.is_member)


def _inbound(
    kind: InboundKind,
    update: Update,
    chat: Chat,
    sender: User | None,
    message: Message | None = None,
    **more: Any,
) -> Inbound | None:
    at = address(chat, message)
    if at is None or sender is None or sender.is_bot:
        return None
    return Inbound(
        kind=kind,
        update_id=str(update.update_id),
        address=at,
        sender=Sender(platform=Platform.TELEGRAM, user_id=str(sender.id), name=sender.name),
        message_id=str(message.message_id) if message else "",
        chat_name=chat.name,
        # An update does not say how many members there are.
        readers="" if at.chat_type is ChatType.DM else content.members(chat.title),
        **more,
    )


def _words(message: Message, me: User) -> _Words | None:
    """The words of a message. None for a command to another bot."""
    whole = message.text or message.caption
    entities = message.entities if message.text else message.caption_entities
    our_name = f"@{me.username}".lower()
    text = whole
    is_addressed = False
    for entity in entities:
        marked, rest = content.marked(whole, entity.offset, entity.length)
        if entity.type == "bot_command" and entity.offset == 0:
            command, at, bot = marked.partition("@")
            if at + bot.lower() not in ("", our_name):
                return None
            return _Words(command + rest, is_command=True, is_addressed=True)
        if _names_us(entity, marked, me):
            is_addressed = True
            if entity.offset == 0:
                text = content.without_name(rest, whole)
    return _Words(text, is_addressed=is_addressed)


def _names_us(entity: Entity, marked: str, me: User) -> bool:
    """Whether a marked part of a text is a mention of the bot."""
    if entity.type == "mention":
        return marked.lower() == f"@{me.username}".lower()
    is_mention = entity.type == "text_mention"
    return is_mention and entity.user is not None and entity.user.id == me.id


def _forwarded_from(message: Message) -> str | None:
    """The author of forwarded text, or the bot that the message was sent through; empty if unknown.
    None if the sender wrote it."""
    if message.forward_origin is not None:
        return _author(message.forward_origin)
    if message.forward_date is not None:
        return ""
    if message.via_bot is not None:
        return f"{message.via_bot.name} (a bot)"
    return None


def _author(origin: Origin) -> str:
    user = origin.sender_user
    chat = origin.sender_chat or origin.chat
    user_name = origin.sender_user_name if user is None else user.name
    chat_name = "" if chat is None else chat.name
    return ", ".join(filter(None, (user_name, chat_name, origin.author_signature)))


def _quote(message: Message, me: User) -> Quote | None:
    """The message that this one replies to. In a topic, a message that is not a reply is sent as a
    reply to the message that created the topic; it has no quote."""
    part = message.quote.text
    external = message.external_reply
    if external is not None:
        return Quote(author=_author(external.origin), text=part or _quoted(external))
    if message.reply_to_story is not None:
        return Quote(author=message.reply_to_story.chat.name, text="[A story]")
    replied = message.reply_to_message
    if replied is None or replied.message_id == message.topic:
        return None
    author = _forwarded_from(replied)
    is_ours = False
    if author is None:
        sender = replied.sender_chat or replied.sender
        author = "" if sender is None else sender.name
        is_ours = replied.sender is not None and replied.sender.id == me.id
    return Quote(
        author=author,
        text=part or _quoted(replied),
        ours=is_ours,
        message_id=str(replied.message_id),
    )


def _quoted(said: Content) -> str:
    return content.quoted(said.text or said.caption or _shared(said), _attachments(said))


# Content that is not text


def _attachments(message: Content) -> tuple[Attachment, ...]:
    """At most one attachment: each picture of an album is a separate message."""
    # Telegram sends a picture in several sizes.
    largest = max(message.photo, key=lambda it: it.width * it.height, default=None)
    files = (
        (FileKind.PHOTO, largest),
        (FileKind.ANIMATION, message.animation),  # also sent as a document
        (FileKind.DOCUMENT, message.document),
        (FileKind.VOICE, message.voice),
        (FileKind.AUDIO, message.audio),
        (FileKind.VIDEO, message.video or message.video_note),
        (_sticker_kind(message.sticker), message.sticker),
    )
    for kind, file in files:
        if file is not None:
            attachment = content.attachment(
                kind,
                file.file_id,
                name=file.file_name,
                media_type=file.mime_type,
                size=file.file_size,
            )
            return (attachment,)
    return ()


def _sticker_kind(sticker: File | None) -> FileKind:
    if sticker is not None and sticker.is_animated:
        return FileKind.VECTOR_STICKER
    if sticker is not None and sticker.is_video:
        return FileKind.VIDEO_STICKER
    return FileKind.STICKER


def _shared(message: Content) -> str:
    """A location, contact, poll, checklist, story or dice in words; "" if there is none."""
    venue = message.venue or Item()
    if (point := venue.location or message.location) is not None:
        return content.location(point.latitude, point.longitude, venue.title, venue.address)
    if (contact := message.contact) is not None:
        return content.contact(f"{contact.first_name} {contact.last_name}", contact.phone_number)
    if (poll := message.poll) is not None:
        return content.poll(poll.question, (option.text for option in poll.options))
    if (checklist := message.checklist) is not None:
        tasks = ((task.text, task.completion_date > 0) for task in checklist.tasks)
        return content.checklist(checklist.title, tasks)
    if message.story is not None:
        return content.story(message.story.chat.name)
    if message.dice is not None:
        return content.dice(message.dice.emoji, message.dice.value)
    return ""
