"""Release requests: a process asks the holder of a session to let it go, so that the session can be
handed off.

The holder sees the request when it checks its leases. At the next safe point of its turn it grants
the request, which then becomes a handoff (`handoffs.queries.grant`). A request lasts as long as the
process that waits for it: once that process is gone, the request counts as withdrawn.

The rows are in the table `wishes`.
"""

from __future__ import annotations

import secrets

from msgspec import Struct

from segue.core.address import Address, Platform
from segue.store import errors, leases, sessions
from segue.store.base import Row, Topic, Tx, marks
from segue.store.values import readable_address, text

# A cross join, because SQLite then begins with the requests, of which there are few.
_SELECT = (
    "SELECT s.id, w.key, w.process, w.home, w.message, w.new_thread, w.now"
    " FROM wishes w CROSS JOIN sessions s WHERE s.no = w.session_no"
)


class ReleaseRequest(Struct, frozen=True, kw_only=True):
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

    @property
    def platform(self) -> Platform:
        return self.home.platform


@marks
def create(
    tx: Tx,
    session_id: str,
    home: Address,
    *,
    message: str | None = None,
    new_thread: bool = False,
    now: bool = False,
) -> ReleaseRequest:
    """Ask the holder of the session to hand it off to the chat `home`. The holder is notified.

    Raise SessionNotFound, SessionError if it is being handed off, or HandoffError if another
    process has asked before.
    """
    (no,) = leases.locked(tx, session_id, "no")
    if sessions.is_moving(tx, no):
        raise errors.being_handed_off()
    if (other := get(tx, session_id)) is not None:
        raise errors.handoff_in_flight(other.platform)
    drop(tx, no)
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
    return _release_request(tx.one(f"{_SELECT} AND s.no = :no", no=no))


def get(tx: Tx, session_id: str) -> ReleaseRequest | None:
    """The request for that session, or None if there is none or its process is gone."""
    row = tx.row(f"{_SELECT} AND s.id = :id", id=session_id)
    found = _release_request(row) if row else None
    return None if found is None or tx.dead(found.process) else found


def by_session(tx: Tx) -> dict[str, ReleaseRequest]:
    """All requests whose process is not gone, by the id of their session."""
    found = map(_release_request, tx.rows(_SELECT))
    return {request.session_id: request for request in found if not tx.dead(request.process)}


@marks
def withdraw(tx: Tx, session_id: str, key: str | None = None) -> bool:
    """Withdraw the request for that session, or only the one with this key. The holder is notified.
    Return False if there is none, such as after it was granted."""
    sql = (
        "DELETE FROM wishes WHERE session_no = (SELECT no FROM sessions WHERE id = :id)"
        " AND (key = :key OR CAST(:key AS TEXT) IS NULL)"
    )
    if not tx.change(sql, id=session_id, key=key):
        return False
    tx.nudge(Topic.LEASES)
    return True


def drop(tx: Tx, session_no: int) -> None:
    """Delete the request for a session that moves, or the one of a process that is gone."""
    if tx.change("DELETE FROM wishes WHERE session_no = :no", no=session_no):
        tx.nudge(Topic.LEASES)


def _release_request(row: Row) -> ReleaseRequest:
    session_id, key, process, home, message, new_thread, now = row
    return ReleaseRequest(
        session_id=session_id,
        key=key,
        process=process,
        home=readable_address(home),
        message=message,
        new_thread=bool(new_thread),
        now=bool(now),
    )
