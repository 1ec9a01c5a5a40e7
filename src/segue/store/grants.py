"""Calls that the owner has allowed for the rest of a session.

They are stored with the session, so they survive a restart, apply wherever the session moves, and
are deleted with it.
"""

from __future__ import annotations

from segue.core.lease import Lease
from segue.store import leases
from segue.store.base import Tx
from segue.store.values import text


def grant(tx: Tx, lease: Lease, fingerprint: str) -> None:
    no, _ = leases.own(tx, lease)
    tx.change(
        "INSERT INTO grants (session_no, fingerprint, granted) VALUES (:no, :fingerprint, :now)"
        " ON CONFLICT DO NOTHING",
        no=no,
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
