"""What Telegram sends, as far as we look at it: https://core.telegram.org/bots/api#update."""

from __future__ import annotations

from msgspec import Struct

ASKED_FOR = ("message", "edited_message", "callback_query", "my_chat_member")
"""The kinds of updates that we want; Telegram keeps the others to itself."""


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
    """Of the person whose chat with the bot it is."""

    @property
    def name(self) -> str:
        return self.title or self.first_name


class Entity(Struct, frozen=True):
    """A part of a text that means something; counted in UTF-16 units."""

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
    """A document, a recording or a film."""

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
    """A location with a name; the message has the bare location as well."""

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
    """0: it is not done."""


class Checklist(Struct, frozen=True):
    title: str
    tasks: tuple[ChecklistTask, ...] = ()


class Story(Struct, frozen=True):
    chat: Chat
    """That posted it."""


class Origin(Struct, frozen=True):
    """The first author of a forwarded message. Which of these is there depends on its type."""

    sender_user: User | None = None
    sender_user_name: str = ""
    sender_chat: Chat | None = None
    chat: Chat | None = None
    author_signature: str = ""


class TextQuote(Struct, frozen=True):
    """The part of a message that a reply quotes."""

    text: str = ""


class Content(Struct, frozen=True):
    """What a message says or shows."""

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
    """A message of another chat that is replied to; its text comes as the quote."""

    origin: Origin = Origin()


class Written(Content, frozen=True, kw_only=True, rename={"sender": "from"}):
    """A message, but for where it is."""

    message_id: int
    sender: User | None = None
    sender_chat: Chat | None = None
    """Who speaks in the name of a chat, and not in their own."""
    forward_origin: Origin | None = None
    forward_date: int | None = None
    """The only mark of a forwarded message that servers before Bot API 7.0 share with newer."""
    via_bot: User | None = None
    """The bot that wrote it, for a person to send."""
    forum_topic_created: TopicCreated | None = None


class Message(Written, frozen=True, kw_only=True):
    chat: Chat
    date: int
    """0 for a message that we cannot look at, of which only the chat is known."""
    edit_date: int = 0
    message_thread_id: int | None = None
    is_topic_message: bool = False
    reply_to_message: Written | None = None
    external_reply: ExternalReply | None = None
    quote: TextQuote | None = None
    reply_to_story: Story | None = None
    media_group_id: str = ""
    """The album that its file is in."""
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
    """The bot itself, as getMe shows it."""

    id: int
    username: str
