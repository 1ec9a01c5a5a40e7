"""Pending messages: updates from owners that are in the inbox and not finished yet."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection

import msgspec
from msgspec import Struct

from segue.core.address import Address, HomeChannel, Platform, Sender
from segue.core.text import one_line
from segue.platforms.base import Inbound, InboundKind
from segue.store import Store, inbox, pairings
from segue.store.inbox import Incoming
from segue.store.outbox import Draft

_KNOWN_SECONDS = 600.0
"""Seconds for which a finished entry is known, longer than the store takes to report that it was
recorded."""

_decoder = msgspec.json.Decoder(Inbound)


class PendingMessage(Struct, frozen=True, kw_only=True):
    inbox_id: int
    owner: str
    inbound: Inbound
    session_id: str | None = None
    """The session that was answering it when an earlier gateway was interrupted, or that brought
    it here."""
    is_begun: bool = False
    """Whether it is a command that an earlier gateway began to run and did not finish."""
    is_brought: bool = False
    """Whether it is a turn that the session brought here, and not a message."""

    @property
    def is_turn(self) -> bool:
        """Whether a session has taken it."""
        return self.is_brought or self.session_id is not None

    @property
    def address(self) -> Address:
        return self.inbound.address


class TakenUp:
    """The inbox entries that this gateway has taken up."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[int, tuple[Platform, float]] = {}
        """The platform of each, and when it was taken up."""

    def __contains__(self, inbox_id: int) -> bool:
        return inbox_id in self._entries

    def add(self, inbox_id: int, platform: Platform) -> bool:
        """Note that the entry is taken up. Return False if it already was."""
        if inbox_id in self._entries:
            return False
        self._entries[inbox_id] = (platform, self._clock())
        return True

    def discard(self, inbox_id: int) -> None:
        """Forget an entry that has to be taken up again."""
        self._entries.pop(inbox_id, None)

    def forget(self, waiting: Collection[int]) -> None:
        """Forget the entries that were taken up long ago and are not `waiting` any more."""
        long_ago = self._clock() - _KNOWN_SECONDS
        for no, (_, at) in list(self._entries.items()):
            if at < long_ago and no not in waiting:
                del self._entries[no]

    def release(self, platform: Platform) -> None:
        """Forget the entries of a platform that another gateway serves now."""
        for no, (where, _) in list(self._entries.items()):
            if where is platform:
                del self._entries[no]


async def record(
    store: Store, account: str, owner: str, inbound: Inbound, update_id: str | None = None
) -> PendingMessage | None:
    """Record the update, under its own id unless `update_id` is given. None if it is known."""
    update_id = update_id or inbound.update_id
    body = encode(inbound)
    inbox_id = await inbox.record(
        store, account, update_id, inbound.address, body, inbound.message_id
    )
    if inbox_id is None:
        return None
    return PendingMessage(inbox_id=inbox_id, owner=owner, inbound=inbound)


async def said(store: Store, account: str, at: Address, message_id: str) -> Inbound | None:
    """The message with that id in the chat, as it was recorded. None if it is not known."""
    body = await inbox.said(store, account, at, message_id)
    try:
        return decode(body) if body else None
    except msgspec.DecodeError:  # written by an older version
        return None


def brought(incoming: Incoming, owner: str) -> PendingMessage:
    """The turn that a session brought to its address. No user wrote it."""
    sender = Sender(platform=incoming.platform, user_id="")
    inbound = Inbound(
        kind=InboundKind.MESSAGE,
        update_id=incoming.update_id,
        address=incoming.address,
        sender=sender,
    )
    return PendingMessage(
        inbox_id=incoming.no,
        owner=owner,
        inbound=inbound,
        session_id=incoming.session_id,
        is_brought=True,
    )


def notice(inbox_id: int, address: Address, text: str, about: str = "end") -> Draft:
    """A notice to the user about this message. Queued twice, it is sent once."""
    return Draft(key=f"notice:{inbox_id}:{about}", address=address, body=text)


def pairing_reply(code: str, address: Address, text: str) -> Draft:
    """The reply to a pairing code. Queued twice, it is sent once."""
    return Draft(key=pairings.reply_key(code), address=address, body=text)


def as_home(inbound: Inbound) -> HomeChannel:
    """The chat of a pairing code as a home channel."""
    address = dataclasses.replace(inbound.address, thread_id=None)
    return HomeChannel(address=address, name=one_line(inbound.chat_name, 80))


def answer_key(inbox_id: int) -> str:
    """The key of the first notice with which a command answers."""
    return f"notice:{inbox_id}:1"


def encode(inbound: Inbound) -> str:
    return msgspec.json.encode(inbound).decode()


def decode(body: str) -> Inbound:
    """Raise DecodeError if an incompatible version has written it."""
    return _decoder.decode(body)
