"""Which session an address leads to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from segue.core.address import Address
from segue.core.errors import AddressTaken, SessionNotFound
from segue.core.reset import ResetPolicy
from segue.core.session import Binding, EndReason, Origin, Session
from segue.store import leases, sessions
from segue.store.base import Engine, Row, Tx
from segue.store.values import moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The session of an address, and how it came about."""

    session: Session
    created: bool = False
    replaced: str | None = None
    """The session that had expired there; it is ended, not lost."""
    reason: EndReason | None = None


class Bindings:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def get(self, address: Address) -> Binding | None:
        return await self._engine.read(get, address)

    async def get_or_create(
        self,
        address: Address,
        owner: str,
        *,
        policy: ResetPolicy,
        zone: tzinfo,
        cwd: str | None = None,
        model: str | None = None,
    ) -> Bound:
        """The address's session; a new one when there is none, or when `policy` says it is over.

        A session in which something runs, that is being handed off, or that was handed off to
        here on purpose is never replaced.
        """
        known = await self._engine.read(current, address, owner, policy, zone)
        if known is not None:
            return known
        return await self._engine.write(
            get_or_create, address, owner, policy=policy, zone=zone, cwd=cwd, model=model
        )

    async def rebind(self, session_id: str, address: Address, origin: Origin) -> str | None:
        """Move the session to `address`. Returns the session that was there, now set aside;
        AddressTaken when it is somebody else's."""
        return await self._engine.write(rebind, session_id, address, origin)

    async def list(self, owner: str, *, limit: int = 50) -> tuple[Binding, ...]:
        """The owner's bindings, the last active first."""
        return await self._engine.read(list_bindings, owner, limit)


_SELECT = "SELECT b.address, s.id, b.origin, b.version, b.bound FROM bindings b JOIN sessions s"


def get(tx: Tx, address: Address) -> Binding | None:
    row = tx.row(f"{_SELECT} ON s.no = b.session_no WHERE b.address = :key", key=address.key)
    return _binding(row) if row else None


def current(
    tx: Tx, address: Address, owner: str, policy: ResetPolicy, zone: tzinfo
) -> Bound | None:
    """The session that is there and goes on; None when a new one is due."""
    if (binding := get(tx, address)) is None:
        return None
    session = sessions.found(tx, binding.session_id)
    if session.owner != owner:
        raise AddressTaken
    return None if expiry(tx, binding, session, policy, zone) else Bound(session=session)


def expiry(
    tx: Tx, binding: Binding, session: Session, policy: ResetPolicy, zone: tzinfo
) -> EndReason | None:
    """Why the session is over, if it is."""
    reason = policy.expired(active=session.active, now=moment(tx.now), zone=zone)
    if reason is None or binding.origin is Origin.HANDOFF or leases.get(tx, session.id):
        return None
    (no,) = tx.one("SELECT no FROM sessions WHERE id = :id", id=session.id)
    return None if sessions.is_moving(tx, no) else reason


def get_or_create(
    tx: Tx,
    address: Address,
    owner: str,
    *,
    policy: ResetPolicy,
    zone: tzinfo,
    cwd: str | None,
    model: str | None,
) -> Bound:
    tx.lock(address.key)
    there = get(tx, address)
    if there is not None:  # nobody may take its lease while we decide
        tx.row(f"SELECT no FROM sessions WHERE id = :id {tx.for_update}", id=there.session_id)
    if (known := current(tx, address, owner, policy, zone)) is not None:
        return known
    replaced, reason = None, None
    if there is not None:
        replaced = there.session_id
        reason = expiry(tx, there, sessions.found(tx, replaced), policy, zone)
        sessions.end(tx, replaced, reason or EndReason.CLOSED)
    fresh = sessions.create(tx, owner, address.platform, parent=replaced, cwd=cwd, model=model)
    rebind(tx, fresh.id, address, Origin.MESSAGE)
    session = sessions.found(tx, fresh.id)
    return Bound(session=session, created=True, replaced=replaced, reason=reason)


def rebind(tx: Tx, session_id: str, address: Address, origin: Origin) -> str | None:
    tx.lock(address.key)
    row = tx.row(f"SELECT no, owner FROM sessions WHERE id = :id {tx.for_update}", id=session_id)
    if row is None:
        raise SessionNotFound(name=session_id)
    no, owner = row
    there = get(tx, address)
    if there is not None and sessions.found(tx, there.session_id).owner != owner:
        raise AddressTaken
    tx.change("DELETE FROM bindings WHERE session_no = :no", no=no)
    tx.change(
        "INSERT INTO bindings (address, session_no, origin, version, bound)"
        " VALUES (:key, :no, :origin, :version, :now)"
        " ON CONFLICT (address) DO UPDATE SET session_no = excluded.session_no,"
        " origin = excluded.origin, version = excluded.version, bound = excluded.bound",
        key=address.key,
        no=no,
        origin=origin.value,
        version=there.version + 1 if there else 1,
        now=tx.now,
    )
    displaced = there.session_id if there else None
    return displaced if displaced != session_id else None


def list_bindings(tx: Tx, owner: str, limit: int) -> tuple[Binding, ...]:
    rows = tx.rows(
        f"{_SELECT} ON s.no = b.session_no WHERE s.owner = :owner"
        " ORDER BY s.active DESC, s.no DESC LIMIT :limit",
        owner=owner,
        limit=limit,
    )
    return tuple(map(_binding, rows))


def _binding(row: Row) -> Binding:
    key, session_id, origin, version, bound = row
    return Binding(
        address=Address.parse(key),
        session_id=session_id,
        origin=Origin(origin),
        version=version,
        bound=moment(bound),
    )
