"""The adapter contract: what a platform must offer to the gateway, and what it may count on.

An adapter speaks to one account on one platform. It parses what comes in at its edge, so that no
wire format leaves it, and nobody else builds its addresses. Its heart is one equality: a reply in
the thread that `create_handoff_thread` opened has the very Address that was returned.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType, Protocol

from msgspec import Struct

from segue.core.address import Address, HomeChannel, Platform, Sender

BUTTON_LIMIT = 64
"""The most bytes that the data of a button may have; the strictest platform's."""

Receipt = NewType("Receipt", str)
"""A message that was sent, as its platform names it: enough to edit it."""


# What comes in


class InboundKind(StrEnum):
    MESSAGE = "message"
    EDIT = "edit"
    """What somebody wrote before says something else now."""
    BUTTON = "button"
    """A person pressed a button of ours; the text is the button's data, and empty when the message
    is too old for the platform to say where it is."""
    COMMAND = "command"
    """What the platform itself marks as a command; a MESSAGE that begins with / may be one too."""
    JOINED = "joined"
    """Somebody added the bot to a chat, or began one with it."""
    MOVED = "moved"
    """The platform itself says that the chat has another address from now on: `moved_to`. Nobody
    said anything."""


class Attachment(Struct, frozen=True):
    """A file that came with a message, not yet fetched."""

    id: str
    """What `Adapter.fetch` needs; it means nothing to anybody else."""
    name: str
    media_type: str
    size: int
    """In bytes, as the platform says; 0 when it does not."""


class Quote(Struct, frozen=True, kw_only=True):
    """The message that another one replies to."""

    author: str = ""
    """The name of its author; empty when the platform does not say."""
    text: str = ""
    """What it says, or the part of it that the reply quotes."""
    ours: bool = False
    """The bot wrote it."""


class Inbound(Struct, frozen=True, kw_only=True):
    """One update of a platform, parsed. It is kept as JSON until it is answered."""

    kind: InboundKind
    update_id: str
    """The platform's own, unique for the account: the same update has it again when it is
    delivered twice."""
    address: Address
    sender: Sender
    text: str = ""
    message_id: str = ""
    """The message that was written or edited, or whose button was pressed."""
    press_id: str = ""
    """Of a pressed button: what `Adapter.acknowledge` needs."""
    attachments: tuple[Attachment, ...] = ()
    chat_name: str = ""
    topic: str = ""
    """What the chat says of itself."""
    addressed: bool = True
    """Whether it is meant for us: False for what people say to each other in a group."""
    readers: str = ""
    """Who else can read along, for people: `the 12 members of Team`; empty when nobody can."""
    moved_to: Address | None = None
    forwarded_from: str | None = None
    """The author of words that the sender only passed on, by forwarding or through another bot;
    empty when the platform does not say. None: the sender wrote them."""
    quote: Quote | None = None

    @property
    def typed(self) -> str:
        """The words that the sender wrote. Commands, codes and answers are read from these alone:
        forwarded words are content."""
        return self.text if self.forwarded_from is None else ""


# What goes out


@dataclass(frozen=True, slots=True)
class Button:
    label: str
    data: str
    """Comes back when it is pressed; at most BUTTON_LIMIT bytes of UTF-8."""


@dataclass(frozen=True, slots=True)
class Part:
    """One message's worth of text, as `segue.platforms.markup` makes it."""

    text: str
    """In the platform's own markup."""
    plain: str
    """The same without any, for when the platform refuses its markup."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that is sent."""

    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A command, as a platform offers it to people who type /."""

    name: str
    """Without the slash."""
    help: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: in order, or with the way to mend it."""

    ok: bool
    text: str
    fix: str = ""
    """What the person has to do, and where; empty when it is in order."""
    vital: bool = False
    """Nothing works without it."""


class Dialect(StrEnum):
    """How a platform writes bold."""

    PLAIN = "plain"
    SOURCE = "source"
    """Markdown as the agent wrote it, which the platform shows as it sees fit."""
    MARKDOWN = "markdown"
    TELEGRAM = "telegram"
    """The few tags of HTML that Telegram knows."""
    SLACK = "slack"
    """mrkdwn"""
    MATRIX = "matrix"
    """org.matrix.custom.html"""
    WHATSAPP = "whatsapp"


class Unit(StrEnum):
    """What a platform counts when it says how long a message may be."""

    CHARACTERS = "characters"
    UTF16 = "utf-16 units"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a platform can do; declared, not found out by failing."""

    threads: bool = False
    """Some chats of it can have threads; `create_handoff_thread` says which."""
    edits: bool = False
    buttons: bool = False
    typing: bool = False
    files: bool = False
    """Files can be sent there."""
    history: bool = False
    """Whoever opens a thread sees there what was said in its session before."""
    keys: bool = False
    """A message that is sent twice under one key arrives once."""
    length: int = 4096
    unit: Unit = Unit.CHARACTERS
    dialect: Dialect = Dialect.PLAIN
    per_second: float = 30.0
    """Messages that the account may send."""
    chat_seconds: float = 1.0
    """The least time between two messages in one chat, once a few have gone out at once."""
    chat_burst: int = 5
    edit_seconds: float = 1.0
    """The least time between two edits of one message."""
    typing_seconds: float = 5.0
    """How long the platform shows that somebody is typing."""
    attachment_bytes: int = 20 * 1024 * 1024
    """The largest file that can be fetched."""
    upload_bytes: int = 20 * 1024 * 1024
    """The largest file that can be sent."""
    preview_seconds: float = 20.0
    """How long a preview stays without being shown again."""


class Adapter(Protocol):
    """One account on one platform.

    Every method but `close` may raise ConnectFailed; those that send raise DeliveryFailed, which
    says whether to try again, when, and whether it may have arrived. Nothing else leaves them.
    """

    @property
    def platform(self) -> Platform: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def account(self) -> str:
        """The account's immutable id; known once connected."""
        ...

    async def connect(self) -> None:
        """Be able to receive and send, or raise ConnectFailed. May be called again after the
        connection was lost."""
        ...

    async def close(self) -> None:
        """Let go of everything; closing twice does no harm, and it never raises."""
        ...

    def receive(self) -> AsyncGenerator[Inbound | None]:
        """What comes in, in the platform's order, until the connection is lost (ConnectFailed).
        None is a sign of life: the platform answered, with or without anything for us.

        The next one is asked for once this one is recorded, so an adapter that has to confirm an
        update to its platform does so then and not before. Our own messages and other bots' do not
        come, nor does what cannot be parsed; an update that was not confirmed comes again.
        """
        ...

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        """Deliver it, or raise DeliveryFailed; never return unsent. Nobody is notified by a
        mention in it, and no link in it is fetched for a preview."""
        ...

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        """Let that message say this instead; with no buttons, those that it had are gone. That it
        says this already is no error."""
        ...

    def acknowledge(self, press: Inbound) -> None:
        """Let a pressed button stop waiting, where the platform shows that. Returns at once, and
        never raises: nothing depends on it. The gateway does this for its owners' presses alone."""
        ...

    async def send_file(self, to: Address, file: Upload, part: Part, *, key: str) -> Receipt:
        """Like `send`, with a file and what is said of it; only where there are `files`."""
        ...

    def how_to_address(self, at: Address) -> str:
        """Tell people how to write to the bot there, in a sentence; empty where all that they say
        is meant for it."""
        ...

    def previews(self, at: Address) -> bool:
        """Whether what is being written can be shown there before there is a message."""
        ...

    async def preview(self, at: Address, part: Part, *, key: str) -> None:
        """Show there what is written so far, in the place of what was shown under that key. It is
        gone once a message is sent there, and after `preview_seconds`."""
        ...

    async def typing(self, at: Address) -> None:
        """Show there that an answer is being written."""
        ...

    async def fetch(self, attachment: Attachment) -> bytes:
        """What is in it; DeliveryFailed when it cannot be had."""
        ...

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        """A fresh thread in the chat `home`, which its people can see and write in; None when the
        chat cannot have threads, or the bot may not open them. Where the platform takes keys, the
        same key opens one thread."""
        ...

    async def offer(self, menu: Sequence[MenuEntry]) -> None:
        """Show these commands to people who type /, where the platform has such a menu."""
        ...

    async def examine(self, home: Address | None) -> Sequence[Finding]:
        """What of the account, and of the home channel, is in order, and what is missing. Can be
        asked while a gateway is connected to the same account, and does not need `connect`."""
        ...

    async def find_chat(self, chat_id: str) -> HomeChannel | None:
        """The chat that goes by that id there, if the bot is in it."""
        ...

    def pairing_link(self, code: str) -> str | None:
        """What a person opens to send `code` to the bot, if the platform has such links."""
        ...
