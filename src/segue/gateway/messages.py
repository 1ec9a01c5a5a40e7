"""Pending messages: updates from owners that are in the inbox and not finished yet."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from segue.core.address import Address
from segue.platforms.base import Inbound
from segue.store import Store
from segue.store.outbox import Draft

_decoder = msgspec.json.Decoder(Inbound)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMessage:
    inbox_id: int
    owner: str
    inbound: Inbound
    session_id: str | None = None
    """The session that was answering it when an earlier gateway was interrupted."""

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


def notice(inbox_id: int, address: Address, text: str, about: str = "end") -> Draft:
    """A notice to the user about this message. Queued twice, it is sent once."""
    return Draft(key=f"notice:{inbox_id}:{about}", address=address, body=text)


def encode(inbound: Inbound) -> str:
    return msgspec.json.encode(inbound).decode()


def decode(body: str) -> Inbound:
    """Raise DecodeError if an incompatible version has written it."""
    return _decoder.decode(body)
