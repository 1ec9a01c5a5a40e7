"""The parts of Telegram's updates that we use: https://core.telegram.org/bots/api#update."""

from __future__ import annotations

from msgspec import Struct

ASKED_FOR = ("message", "edited_message", "callback_query", "my_chat_member")
"""Requested update types. Telegram does not send the others."""


class User(Struct, frozen=True):
    id: int
    is_bot: bool
    first_name: str
    last_name: str = ""
    username: str = ""


class Chat(Struct, frozen=True):
    id: int
    type: str
    title: str = ""
    first_name: str = ""
    """For a direct message: the user's name."""

    @property
    def name(self) -> str:
        return self.title or self.first_name


class Entity(Struct, frozen=True):
    """A marked part of a text, such as a mention. Offsets are in UTF-16 units."""

    type: str
    offset: int
    length: int
    user: User | None = None


class PhotoSize(Struct, frozen=True):
    file_id: str
    width: int = 0
    height: int = 0
    file_size: int = 0


class Media(Struct, frozen=True):
    """A document, recording or video."""

    file_id: str
    file_name: str = ""
    mime_type: str = ""
    file_size: int = 0


class Sticker(Struct, frozen=True):
    file_id: str
    is_animated: bool = False
    is_video: bool = False
    file_size: int = 0


class Location(Struct, frozen=True):
    latitude: float
    longitude: float


class Venue(Struct, frozen=True):
    """A location with a name. The message has the bare location too."""

    location: Location
    title: str
    address: str = ""


class Contact(Struct, frozen=True):
    phone_number: str
    first_name: str
    last_name: str = ""


class PollOption(Struct, frozen=True):
    text: str


class Poll(Struct, frozen=True):
    question: str
    options: tuple[PollOption, ...]


class Dice(Struct, frozen=True):
    emoji: str
    value: int


class TopicCreated(Struct, frozen=True):
    name: str = ""


class TopicClosed(Struct, frozen=True):
    pass


class ChecklistTask(Struct, frozen=True):
    text: str
    completion_date: int = 0
    """0 if the task is not done."""


class Checklist(Struct, frozen=True):
    title: str
    tasks: tuple[ChecklistTask, ...] = ()


class Story(Struct, frozen=True):
    chat: Chat
    """The chat that posted it."""


class Origin(Struct, frozen=True):
    """The original author of a forwarded message. Its type decides which fields are set."""

    sender_user: User | None = None
    sender_user_name: str = ""
    sender_chat: Chat | None = None
    chat: Chat | None = None
    author_signature: str = ""


class TextQuote(Struct, frozen=True):
    """The part of a message that a reply quotes."""

    text: str = ""


class Content(Struct, frozen=True):
    """The content of a message."""

    text: str = ""
    entities: tuple[Entity, ...] = ()
    caption: str = ""
    caption_entities: tuple[Entity, ...] = ()
    photo: tuple[PhotoSize, ...] = ()
    document: Media | None = None
    audio: Media | None = None
    voice: Media | None = None
    video: Media | None = None
    video_note: Media | None = None
    animation: Media | None = None
    sticker: Sticker | None = None
    location: Location | None = None
    venue: Venue | None = None
    contact: Contact | None = None
    poll: Poll | None = None
    dice: Dice | None = None
    checklist: Checklist | None = None
    story: Story | None = None


class ExternalReply(Content, frozen=True, kw_only=True):
    """A message from another chat that is replied to. Its text comes as the quote."""

    origin: Origin = Origin()


class Written(Content, frozen=True, kw_only=True, rename={"sender": "from"}):
    """A message, without the chat that it is in."""

    message_id: int
    sender: User | None = None
    sender_chat: Chat | None = None
    """Set for messages sent on behalf of a chat."""
    forward_origin: Origin | None = None
    forward_date: int | None = None
    """The only sign of a forwarded message that all servers send, before and after Bot API 7.0."""
    via_bot: User | None = None
    """The inline bot that wrote the message for the user."""
    forum_topic_created: TopicCreated | None = None


class Message(Written, frozen=True, kw_only=True):
    chat: Chat
    date: int
    """0 for a message that is no longer accessible. Only its chat is known."""
    edit_date: int = 0
    message_thread_id: int | None = None
    is_topic_message: bool = False
    reply_to_message: Written | None = None
    external_reply: ExternalReply | None = None
    quote: TextQuote | None = None
    reply_to_story: Story | None = None
    media_group_id: str = ""
    """The album that its file belongs to."""
    forum_topic_closed: TopicClosed | None = None
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
    update_id: int
    message: Message | None = None
    edited_message: Message | None = None
    callback_query: CallbackQuery | None = None
    my_chat_member: MemberUpdated | None = None


class Numbered(Struct, frozen=True):
    update_id: int


class Me(Struct, frozen=True):
    """The bot itself, as returned by getMe."""

    id: int
    username: str
