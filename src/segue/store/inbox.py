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
from segue.core.handoff import short_reason
from segue.store import gateways, outbox
from segue.store.base import Engine, Row, Topic, Tx
from segue.store.values import listed, micros, moment, readable_address, text, unreadable

ALL = 1_000_000_000
"""More than there will ever be."""


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
    error: str | None = None
    """Why it was set aside, or cannot be read."""
    starts: int = 0
    """How many gateways found it waiting when they started."""


class Inbox:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def record(
        self, account: str, update_id: str, address: Address, body: str, message_id: str = ""
    ) -> int | None:
        """Keep one update of `account` and return its number; None when it is known already.
        `message_id`: the message that was written or edited, for `said`. The chat has a reader now,
        so what may not have arrived there is offered again."""
        return await self._engine.write(record, account, update_id, address, body, message_id)

    async def said(self, account: str, address: Address, message_id: str) -> str | None:
        """The newest update of that message; None when there was none, or it is forgotten."""
        return await self._engine.read(said, account, address, message_id)

    async def waiting(
        self, platforms: Collection[Platform] | None = None, *, limit: int = 1000
    ) -> tuple[Incoming, ...]:
        """What is not done with yet, taken or not, in the order in which it came; of all platforms,
        or of these."""
        return await self._engine.read(waiting, platforms, limit)

    async def take_over(self, platforms: Collection[Platform]) -> tuple[Incoming, ...]:
        """All that waits on these, for a gateway that starts; each counts the start."""
        return await self._engine.write(take_over, platforms)

    async def hand_back(self, platforms: Collection[Platform]) -> None:
        """Leave what waits on these to the next gateway. One that stops in order was not stopped by
        a message, so its start does not count."""
        await self._engine.write(hand_back, platforms)

    async def rewrite(self, no: int, body: str) -> bool:
        """Its sender says something else now; False when it is taken or done with already."""
        return await self._engine.write(rewrite, no, body)

    async def finish(self, numbers: Sequence[int]) -> int:
        """Done with these. `Transcripts.append` does it together with the message itself."""
        return await self._engine.write(finish, numbers)

    async def set_aside(self, no: int, reason: str) -> bool:
        """It cannot be answered; False when it was set aside before."""
        return await self._engine.write(set_aside, no, reason)

    async def troubled(self, limit: int = 50) -> tuple[Incoming, ...]:
        """What was set aside, the newest first."""
        return await self._engine.read(troubled, limit)

    async def prune(self, before: datetime) -> int:
        """Forget what was done with before then: the platform will not send it again."""
        return await self._engine.write(prune, before)


_COLUMNS = "no, platform, account, update_id, address, body, received, session_id, error, starts"


def record(
    tx: Tx, account: str, update_id: str, address: Address, body: str, message_id: str = ""
) -> int | None:
    gateways.require(tx, address.platform)
    row = tx.row(
        "INSERT INTO inbox (platform, account, update_id, address, body, message_id, received)"
        " VALUES (:platform, :account, :update_id, :address, :body, :message_id, :now)"
        " ON CONFLICT DO NOTHING RETURNING no",
        platform=address.platform.value,
        account=text(account),
        update_id=text(update_id),
        address=address.key,
        body=text(body),
        message_id=text(message_id),
        now=tx.now,
    )
    if row is None:
        return None
    tx.nudge(Topic.INBOX)
    outbox.offer_again(tx, address)
    return row[0]


def said(tx: Tx, account: str, address: Address, message_id: str) -> str | None:
    row = tx.row(
        "SELECT body FROM inbox"
        " WHERE address = :address AND message_id = :message_id AND message_id <> ''"
        " AND account = :account ORDER BY no DESC LIMIT 1",
        address=address.key,
        message_id=text(message_id),
        account=text(account),
    )
    return None if row is None else row[0]


def waiting(tx: Tx, platforms: Collection[Platform] | None, limit: int) -> tuple[Incoming, ...]:
    among = listed(Platform if platforms is None else platforms)
    rows = tx.rows(
        f"SELECT {_COLUMNS} FROM inbox WHERE finished IS NULL AND platform IN ({among})"
        " ORDER BY no LIMIT :limit",
        limit=limit,
    )
    return tuple(map(_incoming, rows))


def take_over(tx: Tx, platforms: Collection[Platform]) -> tuple[Incoming, ...]:
    among = listed(platforms)
    tx.change(
        f"UPDATE inbox SET starts = starts + 1 WHERE finished IS NULL AND platform IN ({among})"
    )
    return waiting(tx, platforms, ALL)


def hand_back(tx: Tx, platforms: Collection[Platform]) -> None:
    among = listed(platforms)
    tx.change(f"UPDATE inbox SET starts = 0 WHERE finished IS NULL AND platform IN ({among})")


def troubled(tx: Tx, limit: int) -> tuple[Incoming, ...]:
    sql = f"SELECT {_COLUMNS} FROM inbox WHERE error IS NOT NULL ORDER BY no DESC LIMIT :limit"
    return tuple(map(_incoming, tx.rows(sql, limit=limit)))


def _incoming(row: Row) -> Incoming:
    no, platform, account, update_id, key, body, received, session_id, error, starts = row
    address = readable_address(key)
    if address.key != key:
        error = error or unreadable(ValueError(f"not a session key: {key!r}"))
    return Incoming(
        no=no,
        platform=Platform(platform),
        account=account,
        update_id=update_id,
        address=address,
        body=body,
        received=moment(received),
        session_id=session_id,
        error=error,
        starts=starts,
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


def set_aside(tx: Tx, no: int, reason: str) -> bool:
    # A command is done with before it is carried out, so that it is never repeated.
    sql = (
        "UPDATE inbox SET finished = coalesce(finished, :now), error = :error"
        " WHERE no = :no AND error IS NULL"
    )
    return tx.change(sql, now=tx.now, error=short_reason(text(reason)), no=no) == 1


def refuse(tx: Tx, account: str, update_id: str, address: Address, reason: str) -> int | None:
    """Set one aside that may not even be recorded; None when it was done with already."""
    row = tx.row(
        "INSERT INTO inbox"
        " (platform, account, update_id, address, body, received, finished, error)"
        " VALUES (:platform, :account, :update_id, :address, '', :now, :now, :error)"
        " ON CONFLICT (platform, account, update_id)"
        " DO UPDATE SET finished = excluded.finished, error = excluded.error"
        " WHERE inbox.finished IS NULL RETURNING no",
        platform=address.platform.value,
        account=text(account),
        update_id=text(update_id),
        address=address.key,
        error=short_reason(text(reason)),
        now=tx.now,
    )
    return row[0] if row else None


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
