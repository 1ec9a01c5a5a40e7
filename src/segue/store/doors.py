"""Where a session has been: its moves, and its doors.

A move says where the session went, and after which message. A door is a place that was opened for a
session. A message there is meant for it, even while the session is elsewhere.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from segue.core.address import Address, Platform
from segue.store.base import Row, Tx, reads
from segue.store.values import chat_key, moment, readable_address


class Move(Struct, frozen=True, kw_only=True):
    no: int
    seq: int
    """The session's last message before it arrived."""
    left: Address | None
    """Where it was before. None for the place where it began."""
    address: Address
    at: datetime


def record_move(tx: Tx, session_no: int, seq: int, address: Address) -> None:
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


_SELECT = (
    "SELECT d.address, s.id, s.owner, d.seq FROM doors d JOIN sessions s ON s.no = d.session_no"
)


class Door(Struct, frozen=True, kw_only=True):
    address: Address
    session_id: str
    owner: str
    seq: int | None
    """The session's last message when it left, or None while it is there."""


@reads
def get(tx: Tx, address: Address) -> Door | None:
    """The door at `address`. A chat itself is not a door."""
    return None if address.thread_id is None else last(tx, address)


def last(tx: Tx, address: Address) -> Door | None:
    """The session that was at `address` last, which may be a chat itself."""
    row = tx.row(f"{_SELECT} WHERE d.address = :key", key=address.key)
    return _door(row) if row else None


@reads
def newest(tx: Tx, session_id: str, home: Address) -> Door | None:
    """The session's newest door in the chat of `home`."""
    doors = of_session(tx, session_id, home.platform)
    return next((door for door in doors if door.address.chat_id == home.chat_id), None)


@reads
def of_session(tx: Tx, session_id: str, platform: Platform) -> tuple[Door, ...]:
    """The session's doors on a platform, newest first."""
    sql = f"{_SELECT} WHERE s.id = :id AND d.platform = :platform ORDER BY d.opened DESC, d.address"
    doors = map(_door, tx.rows(sql, id=session_id, platform=platform.value))
    return tuple(door for door in doors if door.address.thread_id is not None)


def elsewhere(tx: Tx, session_id: str, platform: Platform) -> tuple[Address, ...]:
    """The session's newest door on each platform except `platform`."""
    others = (other for other in Platform if other is not platform)
    found = (of_session(tx, session_id, other) for other in others)
    return tuple(doors[0].address for doors in found if doors)


def arrived(tx: Tx, no: int, address: Address) -> None:
    """Record that the session with this number is at `address`."""
    tx.insert(
        "doors",
        conflict="(address) DO UPDATE SET session_no = excluded.session_no, seq = NULL,"
        " opened = CASE WHEN doors.session_no = excluded.session_no"
        " THEN doors.opened ELSE excluded.opened END",
        address=address.key,
        session_no=no,
        platform=address.platform.value,
        chat=chat_key(address),
        opened=tx.now,
    )


def left(tx: Tx, no: int, address: str, seq: int) -> None:
    """Record that the session left this address after its message `seq`."""
    sql = "UPDATE doors SET seq = :seq WHERE address = :address AND session_no = :no"
    tx.change(sql, seq=seq, address=address, no=no)


def moved(tx: Tx, old: Address, new: Address) -> None:
    """Follow a chat to its new address, which has no session."""
    tx.change("DELETE FROM doors WHERE address = :new", new=new.key)
    tx.change(
        "UPDATE doors SET address = :new, chat = :chat WHERE address = :old",
        old=old.key,
        new=new.key,
        chat=chat_key(new),
    )


def _door(row: Row) -> Door:
    address, session_id, owner, seq = row
    return Door(address=Address.parse(address), session_id=session_id, owner=owner, seq=seq)
