"""The inbox: updates from the platforms, each recorded once, until they are answered.

A platform's entries belong to the gateway that serves it. A gateway that has lost the platform to
another can no longer record, take or finish them (PlatformLost).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from segue.core.address import Address, Platform
from segue.core.text import short_reason
from segue.store import errors, gateways, outbox, pages
from segue.store.base import Row, Topic, Transactions, Tx, reads, writes
from segue.store.values import (
    chat_key,
    listed,
    micros,
    moment,
    readable_address,
    text,
    unreadable,
)

ALL = 1_000_000_000
"""A limit that is larger than any inbox."""
PLACES = 250
"""In how many places a gateway knows the newest update, those of the last updates. No adapter reads
more of them after an absence."""
_KEPT = timedelta(hours=1)
"""Entries this much older than the newest one of a chat are not among its last."""
_PRUNED = 500
"""How many old entries one transaction reads."""


class Incoming(Struct, frozen=True, kw_only=True):
    """One update in the inbox."""

    no: int
    platform: Platform
    account: str
    update_id: str
    address: Address
    body: str
    received: datetime
    session_id: str | None
    """The session that has taken it and is answering it, or None."""
    error: str | None = None
    """Why it was set aside, or why it cannot be read."""
    starts: int = 0
    """How many gateways found it waiting when they started."""
    is_begun: bool = False
    """Whether it is a command that a gateway has begun to run."""


_COLUMNS = (
    "no, platform, account, update_id, address, body, received, session_id, error, starts, begun"
)


@writes
def record(
    tx: Tx, account: str, update_id: str, address: Address, body: str, message_id: str = ""
) -> int | None:
    """Record one update of `account` and return its number, or None if it is already recorded.

    `message_id` is the message that was written or edited, for `said`. The user is now reading
    this chat, so messages that may not have arrived there are offered again.
    """
    gateways.require(tx, address.platform)
    row = tx.insert(
        "inbox",
        conflict="DO NOTHING",
        returning="no",
        platform=address.platform.value,
        account=text(account),
        update_id=text(update_id),
        address=address.key,
        body=text(body),
        message_id=text(message_id),
        received=tx.now,
    )
    if row is None:
        return None
    _arrived(tx, account, update_id, address, row[0])
    tx.nudge(Topic.INBOX)
    outbox.offer_again(tx, address)
    return row[0]


def _arrived(tx: Tx, account: str, update_id: str, address: Address, no: int) -> None:
    """Record the newest update at this address. Earlier ones need not be kept for it any more."""
    tx.insert(
        "last_updates",
        conflict="(address, account) DO UPDATE SET no = excluded.no,"
        " update_id = excluded.update_id, received = excluded.received"
        " WHERE excluded.no > last_updates.no",
        address=address.key,
        account=text(account),
        platform=address.platform.value,
        chat=chat_key(address),
        no=no,
        update_id=text(update_id),
        received=tx.now,
    )
    tx.change("UPDATE inbox SET kept = 0 WHERE address = :key AND kept = 1", key=address.key)


@reads
def said(tx: Tx, account: str, address: Address, message_id: str) -> str | None:
    """The body of the newest update for that message, or None if there is none or it was pruned."""
    sql = (
        "SELECT body FROM inbox"
        " WHERE address = :address AND message_id = :message_id AND message_id <> ''"
        " AND account = :account ORDER BY no DESC LIMIT 1"
    )
    row = tx.row(sql, address=address.key, message_id=text(message_id), account=text(account))
    return None if row is None else row[0]


@reads
def newest(tx: Tx, platform: Platform, account: str) -> dict[Address, str]:
    """The id of the newest update of `account` in each of the PLACES on the platform where
    something happened last. "" for the door of a session where there was none."""
    doors = tx.rows(
        "SELECT address, opened FROM doors WHERE platform = :it ORDER BY opened DESC LIMIT :most",
        it=platform.value,
        most=PLACES,
    )
    found = tx.rows(
        "SELECT address, received, update_id FROM last_updates"
        " WHERE platform = :it AND account = :account ORDER BY no DESC LIMIT :most",
        it=platform.value,
        account=text(account),
        most=PLACES,
    )
    updates = {key: update for key, _, update in found}
    times = dict(doors) | {key: received for key, received, _ in found}
    last = heapq.nlargest(PLACES, times, key=lambda key: (times[key], key))
    return {readable_address(key): updates.get(key, "") for key in last}


@reads
def knows_chat(tx: Tx, account: str, address: Address) -> bool:
    """Whether `account` received an update in that chat or one of its threads, or a session was
    there."""
    (known,) = tx.one(
        "SELECT EXISTS (SELECT 1 FROM last_updates WHERE chat = :chat AND account = :account)"
        " OR EXISTS (SELECT 1 FROM doors WHERE chat = :chat)",
        chat=chat_key(address),
        account=text(account),
    )
    return bool(known)


@reads
def waiting(
    tx: Tx, platforms: Collection[Platform] | None = None, *, limit: int = 1000
) -> tuple[Incoming, ...]:
    """The unfinished entries, taken or not, in order of arrival. `platforms` of None means all."""
    among = listed(Platform if platforms is None else platforms)
    rows = tx.rows(
        f"SELECT {_COLUMNS} FROM inbox WHERE finished IS NULL AND platform IN ({among})"
        " ORDER BY no LIMIT :limit",
        limit=limit,
    )
    return tuple(map(_incoming, rows))


@writes
def start_all(tx: Tx, platforms: Collection[Platform]) -> tuple[Incoming, ...]:
    """Return all unfinished entries on `platforms`, for a gateway that starts, and add one to
    their start counts."""
    among = listed(platforms)
    tx.change(
        f"UPDATE inbox SET starts = starts + 1 WHERE finished IS NULL AND platform IN ({among})"
    )
    return waiting(tx, platforms, limit=ALL)


@writes
def reset_starts(tx: Tx, platforms: Collection[Platform]) -> None:
    """Leave the unfinished entries to the next gateway and reset their start counts: a gateway
    that stops cleanly was not crashed by a message."""
    among = listed(platforms)
    tx.change(f"UPDATE inbox SET starts = 0 WHERE finished IS NULL AND platform IN ({among})")


@reads
def troubled(tx: Tx, limit: int = 50) -> tuple[Incoming, ...]:
    """The entries that were set aside, newest first."""
    sql = f"SELECT {_COLUMNS} FROM inbox WHERE error IS NOT NULL ORDER BY no DESC LIMIT :limit"
    return tuple(map(_incoming, tx.rows(sql, limit=limit)))


def _incoming(row: Row) -> Incoming:
    no, platform, account, update_id, key, body, received, session_id, error, starts, begun = row
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
        is_begun=begun is not None,
    )


def enter_turn(tx: Tx, key: str, address: Address, session_id: str) -> None:
    """Enter the turn that the session brings to `address`. It has no body, since no user wrote it,
    and the session has taken it. Raise PlatformLost if another gateway serves the platform: that
    gateway would not look for it."""
    gateways.require(tx, address.platform)
    tx.insert(
        "inbox",
        platform=address.platform.value,
        account="",
        update_id=f"handoff:{key}",
        address=address.key,
        body="",
        session_id=session_id,
        received=tx.now,
    )
    tx.nudge(Topic.INBOX)


@reads
def moved_turn(tx: Tx, address: Address) -> Incoming | None:
    """The turn that a session has brought to `address`, if it is not finished."""
    # Not ordered by SQL: SQLite would then look through all messages that wait on the platform.
    rows = tx.rows(
        f"SELECT {_COLUMNS} FROM inbox WHERE finished IS NULL AND platform = :platform"
        " AND address = :address AND account = '' AND body = ''",
        platform=address.platform.value,
        address=address.key,
    )
    return _incoming(min(rows)) if rows else None


def take(tx: Tx, numbers: Sequence[int], session_id: str) -> None:
    """Assign these entries to the session. Raise SessionError if one is already taken."""
    sql = (
        "UPDATE inbox SET session_id = :session"
        " WHERE no = :no AND session_id IS NULL AND finished IS NULL RETURNING platform, message_id"
    )
    for no in numbers:
        if (row := _change(tx, sql, no, session=session_id)) is None:
            raise errors.being_answered()
        if row[0] == Platform.WEB:
            pages.taken(tx, row[1], session_id)


@reads
def not_taken(tx: Tx, address: Address, message_id: str, *, exclude: int) -> Incoming | None:
    """The entry of that message that no session has taken yet, except the entry with the
    number `exclude`."""
    row = tx.row(
        f"SELECT {_COLUMNS} FROM inbox WHERE address = :address AND message_id = :message"
        " AND message_id <> '' AND session_id IS NULL AND finished IS NULL AND begun IS NULL"
        " AND no <> :exclude ORDER BY no LIMIT 1",
        address=address.key,
        message=text(message_id),
        exclude=exclude,
    )
    return _incoming(row) if row else None


@reads
def waiting_numbers(tx: Tx, platforms: Collection[Platform]) -> set[int]:
    """The numbers of the unfinished entries on these platforms."""
    among = listed(platforms)
    sql = f"SELECT no FROM inbox WHERE finished IS NULL AND platform IN ({among})"
    return {no for (no,) in tx.rows(sql)}


@reads
def unfinished(tx: Tx, no: int) -> Incoming | None:
    """The entry, or None if it is finished."""
    row = tx.row(f"SELECT {_COLUMNS} FROM inbox WHERE no = :no AND finished IS NULL", no=no)
    return _incoming(row) if row else None


@writes
def begin(tx: Tx, no: int) -> None:
    """Record that its command is about to run. If it is not finished later, it was interrupted."""
    sql = (
        "UPDATE inbox SET begun = :now WHERE no = :no AND finished IS NULL"
        " RETURNING platform, message_id"
    )
    if (row := _change(tx, sql, no, now=tx.now)) is not None:
        _finish_on_page(tx, row)  # the page shows no command that waits once it runs


@writes
def rewrite(tx: Tx, no: int, body: str) -> bool:
    """Replace the body after its sender edited it. Return False if it is already taken or
    finished."""
    sql = "UPDATE inbox SET body = :body WHERE no = :no AND session_id IS NULL AND finished IS NULL"
    return tx.change(sql, body=text(body), no=no) == 1


@writes
def finish(tx: Tx, numbers: Sequence[int]) -> int:
    """Finish these entries. A turn finishes its own together with appending the answer."""
    sql = (
        "UPDATE inbox SET finished = :now WHERE no = :no AND finished IS NULL"
        " RETURNING platform, message_id"
    )
    finished = [row for no in numbers if (row := _change(tx, sql, no, now=tx.now))]
    for row in finished:
        _finish_on_page(tx, row)
    return len(finished)


@writes
def set_aside(tx: Tx, no: int, reason: str) -> bool:
    """Mark an entry as impossible to answer. Return False if it already was."""
    # A command that answers by a turn is finished before that turn.
    sql = (
        "UPDATE inbox SET finished = coalesce(finished, :now), error = :error"
        " WHERE no = :no AND error IS NULL RETURNING platform, message_id"
    )
    if (row := tx.row(sql, now=tx.now, error=short_reason(text(reason)), no=no)) is None:
        return False
    _finish_on_page(tx, row)
    return True


def _finish_on_page(tx: Tx, row: Row) -> None:
    platform, message_id = row
    if platform == Platform.WEB:
        pages.finished(tx, message_id)


def refuse(tx: Tx, account: str, update_id: str, address: Address, reason: str) -> int | None:
    """Set aside an update that may not even be recorded. Return None if it is already finished."""
    row = tx.insert(
        "inbox",
        conflict="(platform, account, update_id) DO UPDATE"
        " SET finished = excluded.finished, error = excluded.error WHERE inbox.finished IS NULL",
        returning="no",
        platform=address.platform.value,
        account=text(account),
        update_id=text(update_id),
        address=address.key,
        body="",
        received=tx.now,
        finished=tx.now,
        error=short_reason(text(reason)),
    )
    if row is None:
        return None
    _arrived(tx, account, update_id, address, row[0])
    return row[0]


def _change(tx: Tx, sql: str, no: int, **values: Any) -> Row | None:
    """Run an UPDATE of one entry and return what it returns, first the platform. Raise PlatformLost
    if another gateway serves that platform."""
    row = tx.row(sql, no=no, **values)
    if entry := row or tx.row("SELECT platform FROM inbox WHERE no = :no", no=no):
        gateways.require(tx, Platform(entry[0]))
    return row


def is_answering(tx: Tx, session_id: str) -> bool:
    """Whether the session has taken an entry that is not finished."""
    sql = "SELECT 1 FROM inbox WHERE session_id = :id AND finished IS NULL"
    return tx.row(sql, id=session_id) is not None


def is_answering_at(tx: Tx, session_id: str, address: Address) -> bool:
    """Whether the session has taken an entry of that chat that is not finished."""
    row = tx.row(
        "SELECT 1 FROM inbox WHERE finished IS NULL AND platform = :platform"
        " AND address = :address AND session_id = :id",
        platform=address.platform.value,
        address=address.key,
        id=session_id,
    )
    return row is not None


def finish_taken(tx: Tx, session_id: str) -> None:
    """Finish the entries that the session has taken: it was deleted, or its turn has moved."""
    sql = (
        "UPDATE inbox SET finished = :now WHERE session_id = :id AND finished IS NULL"
        " RETURNING platform, message_id"
    )
    for row in tx.rows(sql, now=tx.now, id=session_id):
        _finish_on_page(tx, row)


async def prune(store: Transactions, before: datetime) -> int:
    """Delete entries finished before this time: the platform will not send them again. The last
    ones of each chat stay, because what is read again after an absence may be one of them. Nothing
    of the page is read again. Return how many were deleted."""
    deleted = 0
    is_more = True
    while is_more:
        some, is_more = await _prune(store, before)
        deleted += some
    return deleted


@writes
def _prune(tx: Tx, before: datetime) -> tuple[int, bool]:
    """Look at some of the entries finished before this time. Return how many were deleted, and
    whether there are more. An entry that stays is not read again until its chat continues."""
    rows = tx.rows(
        "SELECT i.no, i.platform = :web OR i.received < coalesce((SELECT max(u.received)"
        " FROM last_updates u WHERE u.address = i.address) - :kept, i.received + 1)"
        " FROM inbox i WHERE i.finished < :before AND i.kept = 0"
        " ORDER BY i.finished, i.no LIMIT :most",
        before=micros(before),
        web=Platform.WEB.value,
        kept=_KEPT // timedelta(microseconds=1),
        most=_PRUNED,
    )
    old = [{"no": no} for no, is_old in rows if is_old]
    tx.change_many("DELETE FROM inbox WHERE no = :no", old)
    last = [{"no": no} for no, is_old in rows if not is_old]
    tx.change_many("UPDATE inbox SET kept = 1 WHERE no = :no", last)
    return len(old), len(rows) == _PRUNED
