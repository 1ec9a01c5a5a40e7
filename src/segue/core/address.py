"""The place of a conversation: platform, chat and optional thread.

An Address has one string form, the session key. The store keeps the key, so the two must never
drift apart: every Address has exactly one key, and every key names exactly one Address.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote, unquote

from segue.core.audience import Audience
from segue.core.text import one_line

_PREFIX = "agent:main"
# Left unescaped, so that keys stay readable. `%` and `:` have a meaning in keys, and invisible
# characters are always escaped.
_PLAIN = "!#$&'()*+,/;=?@[]^`{|}<>\""


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
