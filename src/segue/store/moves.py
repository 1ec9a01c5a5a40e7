"""Moves: where each session went, and after which message."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from segue.core.address import Address
from segue.store.base import Tx
from segue.store.values import moment, readable_address


class Move(Struct, frozen=True, kw_only=True):
    no: int
    seq: int
    """The session's last message before it arrived."""
    left: Address | None
    """Where it was before. None for the place where it began."""
    address: Address
    at: datetime


def record(tx: Tx, session_no: int, seq: int, address: Address) -> None:
    """Record that the session is at `address` now, unless it was there already."""
    sql = "SELECT address FROM moves WHERE session_no = :no ORDER BY moves.no DESC LIMIT 1"
    if tx.row(sql, no=session_no) != (address.key,):
        tx.insert("moves", session_no=session_no, seq=seq, address=address.key, at=tx.now)


def list_moves(tx: Tx, session_no: int) -> tuple[Move, ...]:
    """All moves of the session, in order."""
    sql = "SELECT no, seq, address, at FROM moves WHERE session_no = :no ORDER BY moves.no"
    found: list[Move] = []
    for no, seq, key, at in tx.rows(sql, no=session_no):
        left = found[-1].address if found else None
        address = readable_address(key)
        found.append(Move(no=no, seq=seq, left=left, address=address, at=moment(at)))
    return tuple(found)
