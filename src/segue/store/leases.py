"""Leases: the exclusive right to append to a session."""

from __future__ import annotations

from enum import StrEnum

from msgspec.structs import replace

from segue.core.address import Address, Platform
from segue.core.errors import SessionError, SessionHeld, SessionMoved, SessionNotFound
from segue.core.session import Lease, Ticks
from segue.store.base import Row, Topic, Tx, marks, reads
from segue.store.values import text

LEASE_SECONDS = 20.0
"""How long a lease lasts without renewal."""


class Pause(StrEnum):
    """Why the holder does not work on the session's last message, although it has no answer."""

    ASKING = "asking"
    """It waits for an approval."""
    STOPPED = "stopped"
    """The turn was interrupted, or failed."""


OURS = "id = :id AND epoch = :epoch AND process = :process"
"""SQL condition: the row of a session is that of a lease, whose values are `named`."""


def named(lease: Lease) -> dict[str, str | int]:
    return {"id": lease.session_id, "epoch": lease.epoch, "process": lease.process}


def locked(tx: Tx, session_id: str, columns: str) -> Row:
    """Return `columns` of the session's row, which does not change until the transaction ends.
    Raise SessionNotFound."""
    sql = f"SELECT {columns} FROM sessions WHERE id = :id {tx.for_update}"
    if (row := tx.row(sql, id=session_id)) is None:
        raise SessionNotFound(name=session_id)
    return row


@marks
def acquire(
    tx: Tx, session_id: str, holder: str, *, seconds: float = LEASE_SECONDS, take_over: bool = False
) -> Lease:
    """Acquire the lease of a session. Raise SessionHeld, with the holder, if it is held.

    With `take_over`, take it from the holder instead: the holder's next append raises
    SessionMoved, and listeners of Topic.LEASES are woken. An ended session is reopened.
    """
    epoch, process = locked(tx, session_id, "epoch, process")
    if not take_over:
        permit(tx, session_id, None, epoch=epoch, process=process)
    taken_from(tx, process)
    tx.nudge_soon(Topic.SESSIONS)
    lease = Lease(
        session_id=session_id,
        holder=text(holder),
        process=tx.process,
        epoch=epoch + 1,
        until=tx.after(seconds),
    )
    tx.change(
        "UPDATE sessions SET epoch = :epoch, holder = :holder, process = :process,"
        " lease_until = :until, ended = NULL, end_reason = NULL, pause = NULL WHERE id = :id",
        epoch=lease.epoch,
        holder=lease.holder,
        process=lease.process,
        until=lease.until,
        id=session_id,
    )
    return lease


@marks
def renew(tx: Tx, lease: Lease, *, seconds: float = LEASE_SECONDS) -> Lease:
    """Extend the lease, even if it has lapsed. Raise SessionMoved if another process has taken
    it."""
    ends = tx.after(seconds)
    sql = f"UPDATE sessions SET lease_until = :until WHERE {OURS}"
    if not tx.change(sql, until=ends, **named(lease)):
        raise moved(tx, lease.session_id)
    return replace(lease, until=ends)


@marks
def release(tx: Tx, lease: Lease) -> bool:
    """Release the lease. Return False if it was already lost."""
    tx.nudge_soon(Topic.SESSIONS)
    sql = f"UPDATE sessions SET holder = NULL, process = NULL, lease_until = NULL WHERE {OURS}"
    return tx.change(sql, **named(lease)) == 1


@marks
def pause(tx: Tx, lease: Lease, why: Pause | None) -> bool:
    """Record why the holder pauses, until the next message, or that it goes on. Return False if the
    lease was lost."""
    tx.nudge(Topic.SESSIONS)
    sql = f"UPDATE sessions SET pause = :why WHERE {OURS}"
    return tx.change(sql, why=why and why.value, **named(lease)) == 1


def run_out(tx: Tx, process: str) -> None:
    """Expire the leases of a process that is gone or hangs. If it comes back, it keeps those that
    no other process has acquired meanwhile."""
    sql = "UPDATE sessions SET lease_until = :now WHERE process = :process AND lease_until > :now"
    tx.change(sql, now=tx.ticks, process=process)
    tx.nudge(Topic.LEASES)


@reads
def get(tx: Tx, session_id: str) -> Lease | None:
    """The session's current lease, or None if it is not held."""
    row = tx.row(
        "SELECT holder, process, epoch, lease_until FROM sessions"
        " WHERE id = :id AND holder IS NOT NULL",
        id=session_id,
    )
    if row is None:
        return None
    holder, process, epoch, ends = row
    lease = Lease(
        session_id=session_id, holder=holder, process=process, epoch=epoch, until=Ticks(ends)
    )
    return lease if lease.is_alive(tx.ticks) and not tx.dead(process) else None


def permit(
    tx: Tx, session_id: str, lease: Lease | None, *, epoch: int, process: str | None
) -> None:
    """Check that the caller may act on a session whose row says `epoch` and `process`.

    Raise SessionMoved if `lease` is given and is not the session's lease, or SessionHeld if no
    lease is given and the session is held.
    """
    if lease is not None:
        if (lease.session_id, lease.epoch, lease.process) != (session_id, epoch, process):
            raise moved(tx, session_id)
    elif process is not None and (held := get(tx, session_id)):
        raise SessionHeld(holder=held.holder)


def own(tx: Tx, lease: Lease) -> tuple[int, int]:
    """Return the session's number and last seq, and keep its lease unchanged until the transaction
    ends. Raise SessionMoved if `lease` was lost."""
    sql = f"SELECT no, last_seq FROM sessions WHERE {OURS} {tx.for_update}"
    if (row := tx.row(sql, **named(lease))) is None:
        raise moved(tx, lease.session_id)
    return row[0], row[1]


def taken_from(tx: Tx, process: str | None) -> None:
    """Notify the session's holder, if its row names a `process`, that it has lost the lease."""
    if process is not None:  # even if it lapsed: the holder may still rely on it
        tx.nudge(Topic.LEASES)


def moved(tx: Tx, session_id: str) -> SessionError:
    """The error for a lost lease, which says where the session is now."""
    row = tx.row(
        "SELECT s.holder, b.address FROM sessions s LEFT JOIN bindings b ON b.session_no = s.no"
        " WHERE s.id = :id",
        id=session_id,
    )
    if row is None:
        return SessionNotFound(name=session_id)
    holder, key = row
    address = Address.parse(key) if key else None
    places = [f"in {holder}"] if holder else []
    if address is not None and not (holder and address.platform is Platform.LOCAL):
        places.append(f"on {address}")
    return SessionMoved(where=", ".join(places) or "not open anywhere", session=session_id)
