"""The protocol between the test platform and the bot, as types.

The platform checks each call against these types and refuses a call that does not match. The
adapter reads updates with them, and ignores unknown fields, because real platforms add new ones.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from segue.platforms.base import BUTTON_LIMIT, Dialect, Unit

Id = Annotated[str, Meta(min_length=1, max_length=255)]
Key = Annotated[str, Meta(min_length=1, max_length=255)]
Title = Annotated[str, Meta(min_length=1, max_length=128)]
Format = Literal["plain", "markup"]


# The platform's rules


class Rules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The platform's features, and the limits that it enforces; part of `me`."""

    threads: bool = True
    edits: bool = True
    buttons: bool = True
    typing: bool = True
    files: bool = True
    previews: bool = False
    keys: bool = True
    length: int = 4096
    unit: Unit = Unit.CHARACTERS
    dialect: Dialect = Dialect.MARKDOWN
    per_second: float = 1000.0
    chat_seconds: float = 0.001
    chat_burst: int = 1000
    edit_seconds: float = 0.001
    typing_seconds: float = 5.0
    attachment_bytes: int = 20 * 1024 * 1024
    upload_bytes: int = 4 * 1024 * 1024
    echo: bool = True
    """The bot receives its own messages as updates, as on Matrix and Slack."""
    mentions: bool = False
    """In a chat with several users, only messages that mention @bot are addressed to it."""
    link: str | None = "https://platform.test/bot?start={code}"
    """The link that a user opens to send a pairing code to the bot."""


class Me(Struct, frozen=True, kw_only=True):
    id: Id
    name: str
    rules: Rules


# Calls


class WireButton(Struct, frozen=True, forbid_unknown_fields=True):
    label: Annotated[str, Meta(min_length=1, max_length=64)]
    data: Annotated[str, Meta(min_length=1)]

    def fits(self) -> bool:
        return len(self.data.encode()) <= BUTTON_LIMIT


Buttons = Annotated[tuple[WireButton, ...], Meta(max_length=100)]


class AskMe(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class AskUpdates(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    offset: Annotated[int, Meta(ge=0)] | None = None
    """Confirms all updates before this offset. They are not delivered again."""
    seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    limit: Annotated[int, Meta(ge=1, le=100)] = 100


class Send(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    chat: Id
    text: str
    thread: Id | None = None
    format: Format = "plain"
    key: Key | None = None
    buttons: Buttons = ()


class SendFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A file and its caption, which may be empty."""

    chat: Id
    text: str
    name: Id
    media_type: str
    data: bytes
    thread: Id | None = None
    format: Format = "plain"
    key: Key | None = None


class ShowPreview(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    chat: Id
    text: str
    key: Key
    thread: Id | None = None
    format: Format = "plain"


class WireEntry(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9-]{0,31}$")]
    help: Annotated[str, Meta(min_length=1, max_length=256)]


class SetMenu(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    menu: Annotated[tuple[WireEntry, ...], Meta(max_length=100)]


class Edit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    chat: Id
    message: Id
    text: str
    format: Format = "plain"
    buttons: Buttons = ()


class ShowTyping(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    chat: Id
    thread: Id | None = None


class OpenThread(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    chat: Id
    title: Title
    key: Key | None = None


class AskReaders(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    chat: Id


class GetFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file: Id


Call: TypeAlias = (
    AskMe
    | AskUpdates
    | Send
    | SendFile
    | ShowPreview
    | Edit
    | ShowTyping
    | OpenThread
    | GetFile
    | AskReaders
    | SetMenu
)

CALLS: dict[str, type[Call]] = {
    "me": AskMe,
    "updates": AskUpdates,
    "send": Send,
    "send_file": SendFile,
    "preview": ShowPreview,
    "menu": SetMenu,
    "edit": Edit,
    "typing": ShowTyping,
    "open_thread": OpenThread,
    "file": GetFile,
    "readers": AskReaders,
}


# Answers


class WireChat(Struct, frozen=True, kw_only=True):
    id: Id
    type: Literal["dm", "group", "channel"]
    name: str = ""
    topic: str = ""
    members: Annotated[int, Meta(ge=0)]
    """The number of members, not counting the bot."""


class ChatReaders(Struct, frozen=True, kw_only=True):
    public: bool
    members: tuple[Id, ...]
    """The members, not counting the bot."""


class Sent(Struct, frozen=True, kw_only=True):
    id: Id
    thread: Id | None = None


class Opened(Struct, frozen=True, kw_only=True):
    chat: WireChat
    thread: Id


class Batch(Struct, frozen=True, kw_only=True):
    frames: tuple[str, ...]
    """Each update as JSON text, as a socket carries it: a broken one does not affect the others."""
    next: Annotated[int, Meta(ge=0)]
    """The offset that confirms these updates."""


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a call was refused."""

    code: str
    reason: str
    retry_after: Annotated[float, Meta(ge=0)] | None = None


# Updates


class WireUser(Struct, frozen=True, kw_only=True):
    id: Id
    name: str = ""
    bot: bool


class WireFile(Struct, frozen=True, kw_only=True):
    id: Id
    name: str
    media_type: str
    size: Annotated[int, Meta(ge=0)]


class WireQuote(Struct, frozen=True, kw_only=True):
    """The message that is replied to."""

    id: Id
    author: WireUser
    text: str


class WireMessage(Struct, frozen=True, kw_only=True):
    id: Id
    text: str
    files: tuple[WireFile, ...] = ()
    addressed: bool = True
    forwarded_from: str | None = None
    """The name of the original author."""
    quote: WireQuote | None = None


class _Update(Struct, frozen=True, kw_only=True, tag_field="kind"):
    id: Id
    chat: WireChat
    user: WireUser
    thread: Id | None = None


class Said(_Update, frozen=True, kw_only=True, tag="message"):
    message: WireMessage


class Changed(_Update, frozen=True, kw_only=True, tag="edit"):
    message: WireMessage


class Commanded(_Update, frozen=True, kw_only=True, tag="command"):
    message: WireMessage


class Pressed(_Update, frozen=True, kw_only=True, tag="button"):
    message: Id
    data: Annotated[str, Meta(min_length=1)]


class Removed(_Update, frozen=True, kw_only=True, tag="deleted"):
    message: Id


class Joined(_Update, frozen=True, kw_only=True, tag="joined"):
    pass


Update: TypeAlias = Said | Changed | Commanded | Pressed | Removed | Joined
