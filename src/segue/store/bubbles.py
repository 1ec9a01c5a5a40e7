"""The live bubble of an address: the message that a running turn is still rewriting there.

It is kept so that a gateway which starts after a crash finds it, and does not leave it half said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from segue.core.address import Address, Platform
from segue.store.base import Tx
from segue.store.values import listed, text


def put(tx: Tx, address: Address, receipt: str | None, session_id: str | None) -> None:
    if receipt is None:
        sql = "DELETE FROM bubbles WHERE platform = :platform AND address = :address"
        tx.change(sql, platform=address.platform.value, address=address.key)
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


def of(tx: Tx, platforms: Collection[Platform]) -> Mapping[Address, str]:
    rows = tx.rows(
        f"SELECT address, receipt FROM bubbles WHERE platform IN ({listed(platforms)})"
        " ORDER BY address"
    )
    return {Address.parse(key): receipt for key, receipt in rows}
