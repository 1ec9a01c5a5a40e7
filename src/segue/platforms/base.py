"""The adapter contract: what an adapter must provide, and what it can rely on.

An adapter speaks to one account on one platform. It parses updates at its edge, so no wire format
leaves it, and only the adapter builds its addresses. The central invariant: a reply in the thread
that `create_handoff_thread` opened has exactly the Address that it returned.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType, Protocol

from msgspec import Struct

from segue.core.address import Address, Audience, HomeChannel, Platform, Sender

BUTTON_LIMIT = 64
"""Maximum size of a button's data in bytes, set by the strictest platform."""

ID_LENGTH = 600
"""Maximum length of the ids in an Inbound. The longest, of Matrix, have 255 characters."""

Receipt = NewType("Receipt", str)
"""The platform's id of a sent message: enough to edit it."""


# Inbound


class InboundKind(StrEnum):
    MESSAGE = "message"
    EDIT = "edit"
    """A message was edited."""
    BUTTON = "button"
    """A button of ours was pressed. The text is the button's data, or empty if the message is too
    old for the platform to say where it is."""
    COMMAND = "command"
    """Marked as a command by the platform. A MESSAGE that starts with / can be a command too."""
    JOINED = "joined"
    """The bot was added to a chat, or a user started one with it."""
    REACTION = "reaction"
    """A user reacted to a message of ours, which is `message_id`. The text is the emoji."""
    MOVED = "moved"
    """A platform event: the chat's address is now `moved_to`. There is no message from a user."""
    DELIVERED = "delivered"
    """A platform event: a message of ours arrived. `message_id` is its receipt, the text the key
    under which it was sent."""
    UNDELIVERED = "undelivered"
    """A platform event: a message that the platform took from us did not arrive. `message_id` is
    its receipt, and the text the reason."""
    DELETED = "deleted"
    """A platform event: a message of a user was deleted. `message_id` is that message, and the
    sender its author; the sender's id is empty if the platform does not name the author."""
    PAIRED = "paired"
    """Of the gateway itself, no adapter's: the sender was paired, and the chat became their home
    channel. It remains one if the bot can write there."""
    GAP = "gap"
    """Not a message: the messages from the time of `gap` were not read, and will not be."""


class Gap(Struct, frozen=True):
    """A time whose messages the adapter did not read."""

    since: datetime
    until: datetime


Wanted = Callable[[Sender, str], Awaitable[bool]]
"""Whether the gateway wants a message of that sender with that text."""


class Attachment(Struct, frozen=True):
    """A file that came with a message and has not been fetched yet."""

    id: str
    """Used by `Adapter.fetch`; opaque to all other code."""
    name: str
    media_type: str
    size: int
    """In bytes as reported by the platform; 0 if unknown."""


class Quote(Struct, frozen=True, kw_only=True):
    """The message that another one replies to."""

    author: str = ""
    """The author's name; empty if unknown."""
    text: str = ""
    """The message's text, or the part of it that the reply quotes."""
    ours: bool = False
    """Whether the bot wrote it."""
    message_id: str = ""
    """Its id, if it is in the same chat: the receipt of a message of ours. The gateway looks up the
    text by it, if the platform does not send the text."""


class Inbound(Struct, frozen=True, kw_only=True):
    """One parsed update from a platform. Stored as JSON until it is answered."""

    kind: InboundKind
    update_id: str
    """The platform's id for the update, unique per account and the same on redelivery."""
    address: Address
    sender: Sender
    text: str = ""
    message_id: str = ""
    """The message that was written or edited, whose button was pressed, or that a user reacted
    to."""
    press_id: str = ""
    """For a pressed button, a command that must be acknowledged, or a message that can be marked
    as read: used by `Adapter.acknowledge`."""
    attachments: tuple[Attachment, ...] = ()
    chat_name: str = ""
    topic: str = ""
    """The chat's topic or description."""
    addressed: bool = True
    """Whether it is addressed to the agent. False for messages between users in a group."""
    readers: str = ""
    """Who else can read the chat, for display: `the 12 members of Team`. Empty if it is private."""
    moved_to: Address | None = None
    forwarded_from: str | None = None
    """The author of text that the sender only passed on, by forwarding or through another bot;
    empty if unknown. None if the sender wrote it."""
    quote: Quote | None = None
    gap: Gap | None = None
    forgeable: bool = False
    """Whether the platform's server could have made it up: the chat is encrypted, and it is not.
    The gateway ignores it."""

    @property
    def has_short_ids(self) -> bool:
        """Whether no id is too long to be one. Ids are names in the store, and parts of calls."""
        ids = [self.update_id, self.message_id, self.sender.user_id]
        for at in (self.address, self.moved_to):
            if at is not None:
                ids += [at.chat_id, at.thread_id or ""]
        return all(len(it) <= ID_LENGTH for it in ids)

    @property
    def typed(self) -> str:
        """The text that the sender wrote. Commands, codes and answers are read only from this:
        forwarded text is content."""
        return self.text if self.forwarded_from is None else ""


# Outbound


class Button(Struct, frozen=True):
    label: str
    data: str
    """Returned when the button is pressed. At most BUTTON_LIMIT bytes of UTF-8."""
    typed: str = ""
    """What users can type instead, where a message cannot have its buttons. Empty if nothing."""


class Part(Struct, frozen=True):
    """One message's worth of text, as made by `segue.platforms.markup`."""

    text: str
    """Text in the platform's markup."""
    plain: str
    """The same text without markup, for when the platform rejects the markup."""


class Upload(Struct, frozen=True):
    """A file to send."""

    name: str
    media_type: str
    data: bytes


class MenuEntry(Struct, frozen=True):
    """A command in the platform's command menu."""

    name: str
    """Without the slash."""
    help: str


class Finding(Struct, frozen=True):
    """The result of one setup check, with instructions if it failed."""

    ok: bool
    text: str
    fix: str = ""
    """What the user must do, and where. Empty if the check passed."""
    vital: bool = False
    """Nothing works, or no handoff arrives, until this is fixed."""
    awaited: bool = False
    """`segue setup` waits until this is fixed, which needs a running gateway."""


class Dialect(StrEnum):
    """Markup dialect that a platform expects."""

    PLAIN = "plain"
    SOURCE = "source"
    """Markdown as the agent wrote it, rendered by the platform."""
    MARKDOWN = "markdown"
    TELEGRAM = "telegram"
    """Telegram's subset of HTML."""
    SLACK = "slack"
    """mrkdwn"""
    MATRIX = "matrix"
    """org.matrix.custom.html"""
    WHATSAPP = "whatsapp"
    SIGNAL = "signal"
    """Text with marks that `segue.platforms.markup.dialects` turns into ranges."""


class Unit(StrEnum):
    """Unit of a platform's message length limit."""

    CHARACTERS = "characters"
    UTF16 = "utf-16 units"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a platform can do. Declared, not discovered by failing."""

    threads: bool = False
    """Some of its chats can have threads. `create_handoff_thread` decides which."""
    edits: bool = False
    edits_later: bool = True
    """A process can edit what an earlier one sent."""
    buttons: bool = False
    reactions: bool = False
    """Users can react to a message with an emoji. Without `buttons`, that is how they choose."""
    typing: bool = False
    files: bool = False
    """Files can be sent."""
    code_files: bool = False
    """A code block that is too long for one message is sent as a file."""
    history: bool = False
    """Opening a thread shows the earlier messages of its session."""
    keys: bool = False
    """A message sent twice under the same key arrives once."""
    key_age: timedelta | None = None
    """How long the platform remembers a key. A message that may have arrived longer ago is not sent
    again. None if it remembers all keys."""
    length: int = 4096
    button_length: int | None = None
    """Length limit of a message with buttons. None if it is that of every message."""
    unit: Unit = Unit.CHARACTERS
    dialect: Dialect = Dialect.PLAIN
    per_second: float = 30.0
    """Messages per second for the whole account."""
    chat_seconds: float = 1.0
    """Minimum seconds between two messages in one chat, after the initial burst."""
    chat_burst: int = 5
    edit_seconds: float = 1.0
    """Minimum seconds between two edits of a message."""
    typing_seconds: float = 5.0
    """How long the platform shows the typing indicator."""
    attachment_bytes: int = 20 * 1024 * 1024
    """Largest file that can be fetched."""
    upload_bytes: int = 20 * 1024 * 1024
    """Largest file that can be sent."""
    preview_seconds: float = 20.0
    """How long a preview stays visible unless it is refreshed."""
    preview_dialect: Dialect | None = None
    """The dialect of previews. None if it is that of messages."""
    keeps: timedelta | None = None
    """How long the platform keeps messages for a bot that is away. None if they stay in a history
    that the adapter reads."""

    def longest(self, *, buttons: bool) -> int:
        """Length limit of a message with or without buttons."""
        if buttons and self.button_length is not None:
            return self.button_length
        return self.length


class Adapter(Protocol):
    """One account on one platform.

    Every method except `close` may raise ConnectFailed. Methods that send may also raise
    DeliveryFailed, which says whether to retry, when, and whether the message may have arrived. No
    other errors are raised.
    """

    @property
    def platform(self) -> Platform: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def account(self) -> str:
        """The account's immutable id. Known once connected."""
        ...

    @property
    def remark(self) -> str:
        """What users should know about the connection, for display. Empty if there is nothing."""
        ...

    @property
    def is_caught_up(self) -> bool:
        """Whether all messages from the adapter's absence have been yielded, as far as the adapter
        can know. Until then the gateway waits a moment before it answers a message, because an edit
        may follow."""
        ...

    async def connect(self) -> None:
        """Connect for receiving and sending, or raise ConnectFailed. May be called again after the
        connection was lost."""
        ...

    async def close(self) -> None:
        """Release all resources. Idempotent; never raises."""
        ...

    def receive(self) -> AsyncGenerator[Inbound | None]:
        """Yield updates in the platform's order until the connection is lost (ConnectFailed). None
        is a sign of life: the platform answered, with or without an update.

        The caller asks for the next update once this one is recorded. An adapter that must confirm
        updates to its platform does so then, and not before; an unconfirmed update is delivered
        again. The bot's own messages, other bots' messages and updates that cannot be parsed are
        not yielded.
        """
        ...

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        """Deliver the message, or raise DeliveryFailed; never return unsent. Mentions in it notify
        no users, and links in it get no preview."""
        ...

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        """Replace the message's text and buttons; no buttons removes them. Unchanged content is not
        an error."""
        ...

    def acknowledge(self, press: Inbound) -> None:
        """Stop the loading indicator of a pressed button or of a command, or mark a message as
        read, where the platform has that. Returns at once and never raises: nothing depends on it.
        The gateway calls this only for owners, for updates with a `press_id`."""
        ...

    async def send_file(self, to: Address, file: Upload, part: Part, *, key: str) -> Receipt:
        """Like `send`, with a file and its caption. Requires the `files` capability."""
        ...

    def how_to_address(self, at: Address) -> str:
        """A sentence that explains to users how to address the bot there. Empty where every message
        is for the bot."""
        ...

    def trusts_reactions(self, at: Address) -> bool:
        """Whether reactions there stand for choices. False if the platform's server could make them
        up although it could not make up a message there."""
        ...

    def previews(self, at: Address) -> bool:
        """Whether an unfinished answer can be shown there as a preview."""
        ...

    async def preview(self, at: Address, part: Part, *, key: str) -> None:
        """Show the text written so far, replacing the preview with the same key. The preview
        disappears when a message is sent there, and after `preview_seconds`. The key ends with
        the number of the session's last message before the text."""
        ...

    async def typing(self, at: Address) -> None:
        """Show the typing indicator."""
        ...

    async def fetch(self, attachment: Attachment) -> bytes:
        """Return the file's content, or raise DeliveryFailed."""
        ...

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        """Open a new thread in the chat `home`, visible to its members and open for their replies.
        Return None if the chat has no threads, or the bot may not open them. On platforms with
        keys, the same key opens only one thread."""
        ...

    async def invite(self, thread: Address, users: Sequence[str], *, key: str) -> None:
        """Add users to a thread, by their ids, where the platform shows it only to its members, or
        notifies only those. Where that takes a message, the same `key` sends one. They may have
        left the thread since, so each handoff has another key."""
        ...

    def remember(
        self,
        recorded: Mapping[Address, str],
        *,
        contact: datetime | None = None,
        wanted: Wanted | None = None,
    ) -> None:
        """Take the id of the last update that was recorded in each chat, or "" if there is none,
        before `receive` begins, and when a gateway last received from the account. An adapter whose
        platform does not keep updates for a bot that is away reads the messages since then. It
        keeps only those that are `wanted`, and yields a GAP for the time that it does not read.
        Likewise, it looks up what a user refers to, such as the message that a reply answers, only
        if that user's messages are wanted."""
        ...

    async def offer(self, menu: Sequence[MenuEntry]) -> None:
        """Set the command menu, where the platform has one."""
        ...

    async def examine(self, home: Address | None) -> Sequence[Finding]:
        """Check the setup of the account and the home channel. Works while a gateway is connected
        to the same account, and does not need `connect`."""
        ...

    async def find_chat(self, chat_id: str) -> HomeChannel | None:
        """The chat with that id, or None if the bot is not in it."""
        ...

    async def audience(self, chat: Address, users: Sequence[str]) -> Audience | None:
        """Who can read the chat, of whom the owner is one of `users`. None if only the owner can,
        or if the platform does not say. Raise DeliveryFailed or ConnectFailed."""
        ...

    async def find_user(self, user_id: str) -> bool | None:
        """Whether there is a user with that id, or None if the platform does not say. Does not need
        `connect`."""
        ...

    def pairing_link(self, code: str) -> str | None:
        """The link that a user opens to send `code` to the bot, or None if there is none."""
        ...
