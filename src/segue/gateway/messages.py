"""Pending messages: updates from owners that are in the inbox and not finished yet."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from segue.core.address import Address, Sender
from segue.platforms.base import Inbound, InboundKind
from segue.store import Store
from segue.store.inbox import Incoming
from segue.store.outbox import Draft

_decoder = msgspec.json.Decoder(Inbound)


class PendingMessage(Struct, frozen=True, kw_only=True):
    inbox_id: int
    owner: str
    inbound: Inbound
    session_id: str | None = None
    """The session that was answering it when an earlier gateway was interrupted, or that brought
    it here."""
    is_brought: bool = False
    """Whether it is a turn that the session brought here, and not a message."""

    @property
    def address(self) -> Address:
        return self.inbound.address


async def record(
    store: Store, account: str, owner: str, inbound: Inbound, update_id: str | None = None
) -> PendingMessage | None:
    """Record the update, under its own id unless `update_id` is given. None if it is known."""
    update_id, body = update_id or inbound.update_id, encode(inbound)
    inbox_id = await store.inbox.record(
        account, update_id, inbound.address, body, inbound.message_id
    )
    if inbox_id is None:
        return None
    return PendingMessage(inbox_id=inbox_id, owner=owner, inbound=inbound)


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


def encode(inbound: Inbound) -> str:
    return msgspec.json.encode(inbound).decode()


def decode(body: str) -> Inbound:
    """Raise DecodeError if an incompatible version has written it."""
    return _decoder.decode(body)
