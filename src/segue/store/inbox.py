"""What came in from a platform, each update once, until it is answered.

It belongs to the gateway that serves the platform: one that has lost it to another can no longer
record, take or finish anything there (PlatformLost).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from segue.core.address import Address, Platform
from segue.core.errors import MessageTaken
from segue.store import gateways
from segue.store.base import Engine, Topic, Tx
from segue.store.values import listed, micros, moment, text


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
    session_id: str | None
    """The session in which it was said, if it was: there the answer is under way."""


class Inbox:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def record(self, account: str, update_id: str, address: Address, body: str) -> int | None:
        """Keep one update of `account` and return its number; None when it is known already."""
        return await self._engine.write(record, account, update_id, address, body)

    async def waiting(
        self, platforms: Collection[Platform] | None = None, *, limit: int = 1000
    ) -> tuple[Incoming, ...]:
        """What is not done with yet, taken or not, in the order in which it came; of all platforms,
        or of these."""
        return await self._engine.read(waiting, platforms, limit)

    async def rewrite(self, no: int, body: str) -> bool:
        """Its sender says something else now; False when it is taken or done with already."""
        return await self._engine.write(rewrite, no, body)

    async def finish(self, numbers: Sequence[int]) -> int:
        """Done with these. `Transcripts.append` does it together with the message itself."""
        return await self._engine.write(finish, numbers)

    async def prune(self, before: datetime) -> int:
        """Forget what was done with before then: the platform will not send it again."""
        return await self._engine.write(prune, before)


def record(tx: Tx, account: str, update_id: str, address: Address, body: str) -> int | None:
    gateways.require(tx, address.platform)
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


def waiting(tx: Tx, platforms: Collection[Platform] | None, limit: int) -> tuple[Incoming, ...]:
    among = listed(Platform if platforms is None else platforms)
    rows = tx.rows(
        "SELECT no, platform, account, update_id, address, body, received, session_id FROM inbox"
        f" WHERE finished IS NULL AND platform IN ({among}) ORDER BY no LIMIT :limit",
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
            session_id=session_id,
        )
        for no, platform, account, update_id, address, body, received, session_id in rows
    )


def take(tx: Tx, numbers: Sequence[int], session_id: str) -> None:
    """These are said in that session now, and nowhere else: MessageTaken when one is already."""
    sql = (
        "UPDATE inbox SET session_id = :session"
        " WHERE no = :no AND session_id IS NULL AND finished IS NULL"
    )
    _require(tx, numbers)
    for no in numbers:
        if not tx.change(sql, session=session_id, no=no):
            raise MessageTaken


def rewrite(tx: Tx, no: int, body: str) -> bool:
    sql = "UPDATE inbox SET body = :body WHERE no = :no AND session_id IS NULL AND finished IS NULL"
    return tx.change(sql, body=text(body), no=no) == 1


def finish(tx: Tx, numbers: Sequence[int]) -> int:
    _require(tx, numbers)
    sql = "UPDATE inbox SET finished = :now WHERE no = :no AND finished IS NULL"
    return sum(tx.change(sql, now=tx.now, no=no) for no in numbers)


def _require(tx: Tx, numbers: Sequence[int]) -> None:
    for no in numbers:
        if row := tx.row("SELECT platform FROM inbox WHERE no = :no", no=no):
            gateways.require(tx, Platform(row[0]))


def forget_session(tx: Tx, session_id: str) -> None:
    """Nobody will answer what was said in a session that is gone."""
    sql = "UPDATE inbox SET finished = :now WHERE session_id = :id AND finished IS NULL"
    tx.change(sql, now=tx.now, id=session_id)


def prune(tx: Tx, before: datetime) -> int:
    return tx.change("DELETE FROM inbox WHERE finished < :before", before=micros(before))
