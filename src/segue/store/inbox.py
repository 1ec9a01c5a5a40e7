"""What came in from a platform, each update once, until it is answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from segue.core.address import Address, Platform
from segue.store.base import Engine, Topic, Tx
from segue.store.values import micros, moment, text


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """One update, waiting to be answered."""

    no: int
    platform: Platform
    account: str
    update_id: str
    address: Address
    body: str
    received: datetime


class Inbox:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def record(self, account: str, update_id: str, address: Address, body: str) -> int | None:
        """Keep one update of `account` and return its number; None when it is known already."""
        return await self._engine.write(record, account, update_id, address, body)

    async def waiting(self, *, limit: int = 1000) -> tuple[Incoming, ...]:
        """What is not done with yet, in the order in which it came."""
        return await self._engine.read(waiting, limit)

    async def finish(self, numbers: Sequence[int]) -> int:
        """Done with these. `Transcripts.append` does it together with the message itself."""
        return await self._engine.write(finish, numbers)

    async def prune(self, before: datetime) -> int:
        """Forget what was done with before then: the platform will not send it again."""
        return await self._engine.write(prune, before)


def record(tx: Tx, account: str, update_id: str, address: Address, body: str) -> int | None:
    row = tx.row(
        "INSERT INTO inbox (platform, account, update_id, address, body, received)"
        " VALUES (:platform, :account, :update_id, :address, :body, :now)"
        " ON CONFLICT DO NOTHING RETURNING no",
        platform=address.platform.value,
        account=text(account),
        update_id=text(update_id),
        address=address.key,
        body=text(body),
        now=tx.now,
    )
    if row is None:
        return None
    tx.nudge(Topic.INBOX)
    return row[0]


def waiting(tx: Tx, limit: int) -> tuple[Incoming, ...]:
    rows = tx.rows(
        "SELECT no, platform, account, update_id, address, body, received FROM inbox"
        " WHERE finished IS NULL ORDER BY no LIMIT :limit",
        limit=limit,
    )
    return tuple(
        Incoming(
            no=no,
            platform=Platform(platform),
            account=account,
            update_id=update_id,
            address=Address.parse(address),
            body=body,
            received=moment(received),
        )
        for no, platform, account, update_id, address, body, received in rows
    )


def finish(tx: Tx, numbers: Sequence[int]) -> int:
    sql = "UPDATE inbox SET finished = :now WHERE no = :no AND finished IS NULL"
    return sum(tx.change(sql, now=tx.now, no=no) for no in numbers)


def prune(tx: Tx, before: datetime) -> int:
    return tx.change("DELETE FROM inbox WHERE finished < :before", before=micros(before))
