"""The live bubble of an address: the message that a running turn is still editing there.

It is stored so that a gateway that starts after a crash finds it and does not leave it unfinished.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from segue.core.address import Address, Platform
from segue.store.base import Tx, reads, writes
from segue.store.values import listed, readable_address, text


class UnconfirmedBubble(Struct, frozen=True):
    """A bubble that may or may not have been sent."""

    key: str
    body: str


@reads
def progress_after(tx: Tx, address: Address, session_id: str, inbox_id: int) -> int | None:
    """The number of the session's last message if its turn may show progress at `address`: it has
    not answered its inbox entry yet, its session is still there, and no message waits to be sent,
    which would replace the bubble. Otherwise None."""
    row = tx.row(
        "SELECT s.last_seq FROM inbox i JOIN bindings b ON b.address = :key"
        " JOIN sessions s ON s.no = b.session_no"
        " WHERE i.no = :no AND i.finished IS NULL AND s.id = :id AND NOT EXISTS (SELECT 1"
        " FROM outbox o WHERE o.address = :key AND o.state IN ('queued', 'sending'))",
        key=address.key,
        no=inbox_id,
        id=session_id,
    )
    return None if row is None else row[0]


@writes
def begin(tx: Tx, address: Address, key: str, body: str, session_id: str | None = None) -> None:
    """Record a bubble before it is sent under `key`, so that it is known however the send ends."""
    forget(tx, address)
    tx.change(
        "INSERT INTO bubbles (platform, address, key, body, session_id)"
        " VALUES (:platform, :address, :key, :body, :session)",
        platform=address.platform.value,
        address=address.key,
        key=text(key),
        body=text(body),
        session=session_id,
    )


@writes
def put(tx: Tx, address: Address, receipt: str | None, session_id: str | None = None) -> None:
    """Set the live bubble of `address`, or remove it if `receipt` is None. It is also removed when
    its receipt is recorded for a sent message."""
    if receipt is None:
        forget(tx, address)
        return
    tx.change(
        "INSERT INTO bubbles (platform, address, receipt, session_id)"
        " VALUES (:platform, :address, :receipt, :session)"
        " ON CONFLICT (platform, address)"
        " DO UPDATE SET receipt = excluded.receipt, session_id = excluded.session_id",
        platform=address.platform.value,
        address=address.key,
        receipt=text(receipt),
        session=session_id,
    )


def forget(tx: Tx, address: Address) -> None:
    sql = "DELETE FROM bubbles WHERE platform = :platform AND address = :address"
    tx.change(sql, platform=address.platform.value, address=address.key)


def become(tx: Tx, address: Address, receipt: str) -> None:
    """Remove the bubble if `receipt` is its message, which is now final."""
    sql = (
        "DELETE FROM bubbles"
        " WHERE platform = :platform AND address = :address AND receipt = :receipt"
    )
    tx.change(sql, platform=address.platform.value, address=address.key, receipt=text(receipt))


@reads
def shown(tx: Tx, platforms: Collection[Platform]) -> Mapping[Address, str]:
    """The receipt of each live bubble."""
    rows = tx.rows(
        f"SELECT address, receipt FROM bubbles WHERE platform IN ({listed(platforms)})"
        " AND receipt <> '' ORDER BY address"
    )
    return {readable_address(key): receipt for key, receipt in rows}


@reads
def begun(tx: Tx, platforms: Collection[Platform]) -> Mapping[Address, UnconfirmedBubble]:
    """The bubbles that may or may not have been sent."""
    rows = tx.rows(
        f"SELECT address, key, body FROM bubbles WHERE platform IN ({listed(platforms)})"
        " AND receipt = '' ORDER BY address"
    )
    return {readable_address(address): UnconfirmedBubble(key, body) for address, key, body in rows}
