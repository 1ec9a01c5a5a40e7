"""The state of the Signal fake, as types: what it adds to the types of all platforms."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from segue.testing import peers
from segue.testing.peers.templates import Templates
from tests.fakes.protocols import event_streams

fill = Templates(Path(__file__).with_name("objects.json"))
"""Shapes: the records in signal-cli's src/main/java/org/asamk/signal/json."""
Thread: TypeAlias = peers.Thread[str]
"""Signal has none."""
NUMBER = "+4915100000001"
ME: peers.User[str] = peers.User(
    id="11111111-0000-4000-8000-000000000001", name="Segue", username=NUMBER
)
"""The account. A user's id is the ACI, and the `username` the number."""


class Kind(StrEnum):
    DM = "dm"
    GROUP = "group"
    SELF = "self"
    """Note to Self: the account's chat with itself, on all of its devices."""


class Failure(StrEnum):
    """JsonSendMessageResult.Type"""

    IDENTITY = "IDENTITY_FAILURE"
    UNREGISTERED = "UNREGISTERED_FAILURE"
    RATE_LIMIT = "RATE_LIMIT_FAILURE"
    NETWORK = "NETWORK_FAILURE"
    PRE_KEY = "INVALID_PRE_KEY_FAILURE"


class Settings(event_streams.Settings, frozen=True, kw_only=True):
    """The daemon, and the network that it has. `revoked`: the phone unlinked the device, so the
    account is gone (ReceiveHelper.onWebSocketStateChange)."""

    version: str = "0.14.6"
    single: bool = False
    """Whether it was started with `-a ACCOUNT`: it knows no accounts and links none then."""
    accounts: tuple[str, ...] = (NUMBER,)
    names_account: bool = True
    """Whether its events name the account that they came to."""
    network: bool = True


class Style(Struct, frozen=True):
    """A part of a text, in UTF-16 units."""

    style: str
    start: int
    length: int


class Chat(peers.Chat[str], frozen=True, kw_only=True):
    """Its id is the other's ACI, or the group's id."""

    kind: Kind
    failure: Failure | None = None
    """Why nothing can be sent to it."""
    failing: tuple[str, ...] = ()
    """The members for whom that holds. Empty for all of them."""
    challenge: str | None = None
    """The token of the captcha that lifts a rate limit."""
    seconds: int | None = None
    """How long a rate limit lasts."""


class Message(peers.Message[str], frozen=True, kw_only=True):
    """Its id is the timestamp at which it was first sent."""

    bot: bool = False
    """Whether the bot wrote it. The account's phone writes as the same user."""
    newest: str
    """The timestamp of its newest revision, which the next edit must name."""
    styles: tuple[Style, ...] = ()
    read: bool = False
    """Whether the bot sent a read receipt for it."""


class Shown(peers.Shown[str, Message, Thread], frozen=True, kw_only=True):
    clients: int
    """The number of open event streams."""
    links: tuple[str, ...]
    """The addresses that a phone can scan now."""
