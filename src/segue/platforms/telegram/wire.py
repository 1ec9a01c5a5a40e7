"""The parts of Telegram's updates that we use: https://core.telegram.org/bots/api#update."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


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
        """The album that its file belongs to, or ""."""
        message = self.message
        return f"{message.chat.id} {it}" if message and (it := message.media_group_id) else ""
