"""Wishes: a process waits for a session that another one holds, in order to hand it off.

The holder sees the wish when it looks after its leases, and grants it at the next safe point of its
turn (`handoffs.grant`). A wish lasts as long as the process that waits: if that process is gone, it
counts as taken back.
"""

from __future__ import annotations

import secrets

from msgspec import Struct

from segue.core.address import Address
from segue.store import errors, leases, sessions
from segue.store.base import Row, Topic, Tx, marks
from segue.store.values import readable_address, text

# A cross join, because SQLite then begins with the wishes, of which there are few.
_SELECT = (
    "SELECT s.id, w.key, w.process, w.home, w.message, w.new_thread, w.now"
    " FROM wishes w CROSS JOIN sessions s WHERE s.no = w.session_no"
)


class Wish(Struct, frozen=True, kw_only=True):
    """A request to hand off a session as soon as its holder can let it go."""

    session_id: str
    key: str
    """The key of the handoff that it becomes."""
    process: str
    """The process that waits for it."""
    home: Address
    message: str | None = None
    new_thread: bool = False
    now: bool = False
    """Whether to stop the running turn."""


@marks
def make(
    tx: Tx,
    session_id: str,
    home: Address,
    *,
    message: str | None = None,
    new_thread: bool = False,
    now: bool = False,
) -> Wish:
    """Wish that the session moves to the chat `home`. Its holder is notified.

    Raise SessionNotFound, SessionError if it is being handed off, or HandoffError if another
    process waits for the same.
    """
    (no,) = leases.locked(tx, session_id, "no")
    if sessions.is_moving(tx, no):
        raise errors.being_handed_off()
    if (other := of(tx, session_id)) is not None:
        raise errors.handoff_in_flight(other.home.platform)
    forget(tx, no)
    tx.insert(
        "wishes",
        session_no=no,
        key=secrets.token_hex(16),
        process=tx.process,
        home=home.key,
        message=None if message is None else text(message),
        new_thread=int(new_thread),
        now=int(now),
    )
    tx.nudge(Topic.LEASES)
    return _wish(tx.one(f"{_SELECT} AND s.no = :no", no=no))


def of(tx: Tx, session_id: str) -> Wish | None:
    """The wish for that session, or None if there is none or its process is gone."""
    row = tx.row(f"{_SELECT} AND s.id = :id", id=session_id)
    wish = _wish(row) if row else None
    return None if wish is None or tx.dead(wish.process) else wish


def by_session(tx: Tx) -> dict[str, Wish]:
    """All wishes whose process is not gone, by the id of their session."""
    found = map(_wish, tx.rows(_SELECT))
    return {wish.session_id: wish for wish in found if not tx.dead(wish.process)}


@marks
def take_back(tx: Tx, session_id: str, key: str | None = None) -> bool:
    """Take back the wish for that session, or only the one with this key. Its holder is notified.
    Return False if there is none, such as after it was granted."""
    sql = (
        "DELETE FROM wishes WHERE session_no = (SELECT no FROM sessions WHERE id = :id)"
        " AND (key = :key OR CAST(:key AS TEXT) IS NULL)"
    )
    if not tx.change(sql, id=session_id, key=key):
        return False
    tx.nudge(Topic.LEASES)
    return True


def forget(tx: Tx, session_no: int) -> None:
    """Delete the wish for a session that moves, or the one of a process that is gone."""
    if tx.change("DELETE FROM wishes WHERE session_no = :no", no=session_no):
        tx.nudge(Topic.LEASES)


def _wish(row: Row) -> Wish:
    session_id, key, process, home, message, new_thread, now = row
    return Wish(
        session_id=session_id,
        key=key,
        process=process,
        home=readable_address(home),
        message=message,
        new_thread=bool(new_thread),
        now=bool(now),
    )
