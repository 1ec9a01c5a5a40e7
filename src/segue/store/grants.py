"""What a person allowed for the rest of a session. It is kept with the session, so it holds after
a restart and wherever the session moves, and is gone with it."""

from __future__ import annotations

from segue.core.lease import Lease
from segue.store import leases
from segue.store.base import Tx
from segue.store.values import text


def grant(tx: Tx, lease: Lease, fingerprint: str) -> None:
    row = tx.row(
        "SELECT no FROM sessions"
        f" WHERE id = :id AND epoch = :epoch AND process = :process {tx.for_update}",
        id=lease.session_id,
        epoch=lease.epoch,
        process=lease.process,
    )
    if row is None:
        raise leases.moved(tx, lease.session_id)
    tx.change(
        "INSERT INTO grants (session_no, fingerprint, granted) VALUES (:no, :fingerprint, :now)"
        " ON CONFLICT DO NOTHING",
        no=row[0],
        fingerprint=text(fingerprint),
        now=tx.now,
    )


def granted(tx: Tx, session_id: str) -> frozenset[str]:
    rows = tx.rows(
        "SELECT g.fingerprint FROM grants g JOIN sessions s ON s.no = g.session_no"
        " WHERE s.id = :id",
        id=session_id,
    )
    return frozenset(row[0] for row in rows)
