"""Places: where a conversation is, who writes there, who can read it, and where to deliver.

An Address is a platform, a chat and sometimes a thread. It has one string form, the session key.
The store keeps the key, so the two must never drift apart: every Address has exactly one key, and
every key names exactly one Address.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote, unquote

from msgspec import Struct

from segue.core.errors import BadDelivery
from segue.core.text import count, one_line

_PREFIX = "agent:main"
# Left unescaped, so that keys stay readable. `%` and `:` have a meaning in keys, and invisible
# characters are always escaped.
_PLAIN = "!#$&'()*+,/;=?@[]^`{|}<>\""
_ORIGIN = "origin"
_MOST_NAMES = 500
"""Of a chat with more readers, only their number is kept."""
CHAT_ID_LIMIT = 255
"""Fits the longest chat id found in practice (Matrix)."""
_SHOWN_LIMIT = 80


class Platform(StrEnum):
    """A service where conversations take place."""

    LOCAL = "local"
    WEB = "web"
    TELEGRAM = "telegram"
    DISCORD = "discord"
    SLACK = "slack"
    MATRIX = "matrix"
    WHATSAPP = "whatsapp"
    SIGNAL = "signal"

    @property
    def shown(self) -> str:
        """Its name for users."""
        return "terminal" if self is Platform.LOCAL else self.value


TARGETS = tuple(platform for platform in Platform if platform is not Platform.LOCAL)
"""Platforms that a session can be handed off to."""


class ChatType(StrEnum):
    """The kind of chat that an Address names."""

    DM = "dm"
    GROUP = "group"
    CHANNEL = "channel"
    THREAD = "thread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The place of a conversation. Only adapters and the terminal build Addresses."""

    platform: Platform
    chat_type: ChatType
    chat_id: str
    thread_id: str | None = None

    def __post_init__(self) -> None:
        if not self.chat_id or self.thread_id == "":
            raise ValueError("an address needs a chat id, and a thread id that is not empty")

    @property
    def key(self) -> str:
        """The session key: `agent:main:<platform>:<chat type>:<chat id>[:<thread id>]`."""
        ids = (self.chat_id,) if self.thread_id is None else (self.chat_id, self.thread_id)
        return ":".join((_PREFIX, self.platform, self.chat_type, *map(_escape, ids)))

    @classmethod
    @functools.lru_cache(1024)
    def parse(cls, key: str) -> Address:
        """Return the Address with this key, or raise ValueError if `key` could not have made it."""
        agent, main, *parts = key.split(":")
        if f"{agent}:{main}" != _PREFIX or len(parts) not in (3, 4):
            raise ValueError(f"not a session key: {key!r}")
        platform, chat_type, *ids = parts
        chat_id, *thread = map(_unescape, ids)
        address = cls(
            platform=Platform(platform),
            chat_type=ChatType(chat_type),
            chat_id=chat_id,
            thread_id=thread[0] if thread else None,
        )
        if address.key != key:
            raise ValueError(f"not a session key: {key!r}")
        return address

    def __str__(self) -> str:
        """For display: `telegram group 42, thread 7`. Segue's internal ids are left out."""
        if self.platform is Platform.LOCAL:
            return "the terminal"
        if self.platform is Platform.WEB:
            return "the web page"
        thread = "" if self.thread_id is None else f", thread {self.thread_id}"
        return f"{self.platform} {self.chat_type} {self.chat_id}{thread}"


@functools.lru_cache(1024)  # one message asks for the key of its address dozens of times
def _escape(part: str) -> str:
    # Platforms choose the ids: Matrix room ids contain `:`, and even lone surrogates must survive.
    return quote(part, safe=_PLAIN, errors="surrogatepass")


def _unescape(part: str) -> str:
    return unquote(part, errors="surrogatepass")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """A user (or bot) as the platform identifies them, by an id that never changes."""

    platform: Platform
    user_id: str
    name: str = ""


# Home channels


class Audience(Struct, frozen=True, omit_defaults=True):
    """Who can read a chat, as far as its platform says.

    What `/sethome` found is recorded with the home channel. Before a handoff or a question goes
    there, it is compared with what the platform says then: a room can be opened to everyone, and
    members come and go.
    """

    has_owner: bool = True
    """Whether the owner can read it, too."""
    is_public: bool = False
    """Whether anyone can join it, or read it without that."""
    readers: int | None = None
    """How many can read it. None if the platform does not say."""
    names: tuple[str, ...] = ()
    """The ids of those who can read it: users, and roles on Discord. Empty if the platform does not
    list them, or if there are too many."""


def listed_audience(names: Iterable[str], *, has_owner: bool, is_public: bool) -> Audience:
    """The audience of a chat whose readers the platform lists."""
    known = sorted(set(names))
    return Audience(
        has_owner=has_owner,
        is_public=is_public,
        readers=len(known),
        names=tuple(known) if len(known) <= _MOST_NAMES else (),
    )


def audience_growth(before: Audience, now: Audience) -> str:
    """Who can read the chat now and could not before, for the owner. Empty if none can."""
    if before.is_public:
        return ""
    if now.is_public:
        return "it is public now"
    if before.names and now.names:
        new = len(set(now.names) - set(before.names))
        return f"{count(new, 'new reader')}" if new else ""
    if before.readers is not None and now.readers is not None and now.readers > before.readers:
        return f"{count(now.readers, 'reader')} instead of {before.readers}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeChannel:
    """The Address where an Owner chose to receive handoffs on a platform."""

    address: Address
    name: str = ""
    audience: Audience | None = field(default=None, compare=False)
    """Who could read it when the owner chose it. None if that is not known."""

    @property
    def platform(self) -> Platform:
        return self.address.platform

    def __str__(self) -> str:
        """For display: `telegram dm 42 (Anna)`."""
        name = one_line(self.name)
        return f"{self.address} ({name})" if name else f"{self.address}"


# Deliveries


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A delivery target chosen by the agent. Without a platform: the chat it was asked in."""

    platform: Platform | None = None
    chat_id: str | None = None
    """A chat on the platform. None means the platform's home channel, or the local machine."""

    def __post_init__(self) -> None:
        if self.chat_id is not None and self.platform in (None, Platform.LOCAL):
            raise ValueError("a chat to deliver to is on a platform")

    def __str__(self) -> str:
        """As the agent writes it: `origin`, `local`, `telegram` or `telegram:42`."""
        name = str(self.platform or _ORIGIN)
        return name if self.chat_id is None else f"{name}:{self.chat_id}"


def parse_delivery(text: str) -> Delivery:
    """Parse a delivery target, or raise BadDelivery, which lists the allowed forms.

    Does not check whether the platform is connected or the chat is known.
    """
    name, colon, chat_id = (part.strip() for part in text.partition(":"))
    platform = _platform(name)
    if not colon and (platform or name.lower() == _ORIGIN):
        return Delivery(platform=platform)
    if not platform or platform is Platform.LOCAL or not _is_id(chat_id):
        raise BadDelivery(target=one_line(text, _SHOWN_LIMIT))
    return Delivery(platform=platform, chat_id=chat_id)


def _platform(name: str) -> Platform | None:
    return next((p for p in Platform if p == name.lower()), None)


def _is_id(text: str) -> bool:
    # Platform ids contain no blanks or invisible characters; a careless sentence does.
    return 0 < len(text) <= CHAT_ID_LIMIT and text.isprintable() and " " not in text
