"""The Signal fake's state, and the events that changes cause.

Errors of the daemon's commands: SignalJsonRpcCommandHandler.java.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from segue.testing import peers
from segue.testing.peers import File, Pulse, Trouble, User
from tests.fakes.protocols import event_streams
from tests.fakes.protocols.errors import bad_gateway
from tests.fakes.protocols.event_streams import EventStreams
from tests.fakes.protocols.jsonrpc import RpcRefuse
from tests.fakes.protocols.templates import Json, Templates

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


USER = -1
IO = -3
UNTRUSTED = -4
RATE_LIMIT = -5
_UNSENT = {
    Failure.IDENTITY: (UNTRUSTED, " due to untrusted identities"),
    Failure.RATE_LIMIT: (RATE_LIMIT, " due to rate limiting"),
}


def check(fine: object, reason: str) -> None:
    """Refuse the call as the user's error, unless all is fine."""
    if not fine:
        raise RpcRefuse(USER, reason)


def unsent(failure: Failure, results: Sequence[Json], at: int) -> RpcRefuse:
    """SendMessageResultUtils.outputResult: no recipient got the message. What the command had
    written before it failed is in `data.response`."""
    code, why = _UNSENT.get(failure, (USER, ""))
    data = {"response": {"timestamp": at, "results": results}}
    return RpcRefuse(code, f"Failed to send message{why}", data)


def injected(trouble: Trouble, seconds: float) -> peers.Refuse:
    """Return the error for a fault that a test ordered."""
    if trouble is Trouble.BROKEN:
        return bad_gateway()
    busy = trouble is Trouble.BUSY
    failure = Failure.RATE_LIMIT if busy else Failure.UNREGISTERED
    given = {"by": ME, "known": ME.username, "group": None, "type": failure, "token": None}
    result = fill("result", **given, seconds=math.ceil(seconds) if busy else None)
    return unsent(failure, [result], 1)


_PARTS = dict.fromkeys(("data", "edit", "sync"))
_CONTENTS = dict.fromkeys(("reaction", "quote", "mentions", "files", "deleted"))


class State(peers.State[Settings, str, Chat, Thread, Message]):
    def __init__(self, settings: Settings, pulse: Pulse) -> None:
        self.events = EventStreams(pulse, lambda: self.settings)
        super().__init__(settings, pulse, self.events, injected)
        self.users[ME.id] = ME
        self.chats[ME.id] = Chat(id=ME.id, kind=Kind.SELF, members=(ME.id,), title="Note to Self")
        self.links: dict[str, str] = {}
        """The device links that wait for a phone, each with the number of the one that came."""
        self._last = 0

    def time(self) -> int:
        """A new timestamp in milliseconds. It identifies a message of its author."""
        self._last = max(self._last + 1, int(time.time() * 1000))
        return self._last

    @property
    def accounts(self) -> tuple[str, ...]:
        return () if self.settings.revoked else self.settings.accounts

    # Lookups

    def group(self, name: str) -> Chat:
        """CommandUtil.getGroupId, SendHelper.sendAsGroupMessage"""
        reason = f'Invalid group id: Failed to decode groupId (must be base64) "{name}"'
        check(len(name) == 44, reason)
        check(name in self.chats, f"Group not found: {name}")
        chat = self.chats[name]
        check(chat.joined, f"User is not a member in group: {chat.title} ({chat.id})")
        return chat

    def direct(self, name: str) -> Chat:
        """RecipientIdentifier.Single.fromString"""
        found = next((it for it in self.users.values() if name in (it.id, it.username)), None)
        if found is None:
            check(len(name) == 36, f"Invalid phone number '{name}': not a number")
            return Chat(id=name, kind=Kind.DM, failure=Failure.UNREGISTERED)
        return self.chats.get(found.id) or Chat(id=found.id, kind=Kind.DM, members=(found.id,))

    def message(self, chat: str, timestamp: str) -> Message:
        check((chat, timestamp) in self.messages, f"there is no message {timestamp}")
        return self.messages[chat, timestamp]

    # Changes

    def tell(
        self,
        user: str,
        chat: str,
        text: str | None = None,
        *,
        at: int | None = None,
        edits: str = "",
        **more: Any,
    ) -> None:
        """Queue an event with a message of a user, unless the bot is not in the chat. What another
        device of the account sends is a sync message."""
        where = self.chats[chat]
        by = self.users[user]
        at = at or self.time()
        if not where.joined:
            return
        group = fill("group", it=where) if where.kind is Kind.GROUP else None
        given = _CONTENTS | {name: it for name, it in more.items() if it}
        parts: Json = {"data": fill("data", at=at, text=text, group=group, **given)}
        if edits:
            parts = {"edit": {"targetSentTimestamp": int(edits), "dataMessage": parts["data"]}}
        if by.id == ME.id:
            to = {"source": None, "known": None} if group else who(self.users[chat])
            sent = fill("sent", **to, uuid=None if group else chat)
            if edits:
                sent["editMessage"] = parts["edit"]
            else:
                sent |= parts["data"]
            parts = {"sync": {"sentMessage": sent}}
        number = ME.username if self.settings.names_account else None
        event = fill("receive", number=number, at=at, **who(by), **_PARTS | parts)
        self.events.inject(msgspec.json.encode(event).decode())

    def snapshot(self, chat: str | None) -> Shown:
        links = tuple(uri for uri, number in self.links.items() if not number)
        return Shown(**self.shown(chat), clients=len(self.events.clients), links=links)


def who(user: User[str]) -> Json:
    """A user, by number if the number is known: RecipientAddress.getLegacyIdentifier."""
    return {"by": user, "source": user.username or user.id, "known": user.username or None}


def attached(files: tuple[File, ...]) -> list[Json]:
    return [fill("file", it=it) for it in files]
