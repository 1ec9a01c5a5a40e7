"""Bindings: the session that each address leads to."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from datetime import datetime, tzinfo

from msgspec import Struct
from msgspec.structs import replace

from segue.core import notices
from segue.core.address import Address, ChatType, Platform
from segue.core.errors import AddressTaken, SessionElsewhere
from segue.core.reset import ResetPolicies, ResetPolicy
from segue.core.session import Binding, EndReason, Origin, Session
from segue.core.text import one_line
from segue.store import doors, inbox, leases, outbox, pages, release_requests, sessions, transcripts
from segue.store.base import Row, Topic, Transactions, Tx, reads, writes
from segue.store.values import micros, moment

MOVED = "moved:"
"""How the outbox key of the notice begins that a session has left a chat."""
RESUME = "r"
"""The data of a button that brings a session to its chat: this, a colon and the session's id."""


class BoundSession(Struct, frozen=True, kw_only=True):
    """The session bound to an address, and how it came to be."""

    session: Session
    created: bool = False
    replaced: str | None = None
    """The expired session that was bound here before. It is ended, not deleted."""
    reason: EndReason | None = None
    ended_now: Session | None = None
    """That session, if it was ended only now, so that no notes about it are saved yet."""


class Elsewhere(Struct, frozen=True, kw_only=True):
    """A session that is not at its door."""

    session: Session
    holder: str | None
    """The process that holds it, or None."""
    is_moving: bool
    """Whether a handoff is moving it. If it is neither held nor moving, a turn was interrupted
    where the session is, and is finished there first."""
    since: datetime
    """Since when it is where it is."""


_SELECT = "SELECT b.address, s.id, b.origin, b.version, b.bound FROM bindings b JOIN sessions s"


@reads
def get(tx: Tx, address: Address) -> Binding | None:
    row = tx.row(f"{_SELECT} ON s.no = b.session_no WHERE b.address = :key", key=address.key)
    return _binding(row) if row else None


async def resolve(
    store: Transactions,
    address: Address,
    owner: str,
    *,
    policy: ResetPolicy,
    zone: tzinfo,
    cwd: str | None = None,
    model: str | None = None,
) -> BoundSession:
    """Return the session bound to `address`, or create one.

    A new session is created if none is bound, if the bound one has expired under `policy`, or if
    `sessions.close` has ended it. A session never expires while it is held or being handed off, or
    if a handoff brought it here.

    At a door, its session comes back if it is free. Otherwise raise SessionElsewhere.
    """
    known = await current(store, address, owner, policy, zone)
    if known is not None:
        return known
    return await get_or_create(
        store, address, owner, policy=policy, zone=zone, cwd=cwd, model=model
    )


@reads
def current(
    tx: Tx, address: Address, owner: str, policy: ResetPolicy, zone: tzinfo
) -> BoundSession | None:
    """The session bound to `address`, or None if a new one is due."""
    if (binding := get(tx, address)) is None:
        return None
    session = sessions.found(tx, binding.session_id)
    if session.owner != owner:
        raise AddressTaken
    return None if over(tx, binding, session, policy, zone) else BoundSession(session=session)


def over(
    tx: Tx, binding: Binding, session: Session, policy: ResetPolicy, zone: tzinfo
) -> EndReason | None:
    """Why the session is over, or None: it was ended, or `policy` expires it now."""
    return session.end_reason or expiry(tx, binding, session, policy, zone)


def expiry(
    tx: Tx, binding: Binding, session: Session, policy: ResetPolicy, zone: tzinfo
) -> EndReason | None:
    """Why `policy` expires the session, or None if it does not."""
    reason = policy.expired(active=session.active, now=moment(tx.now), zone=zone)
    if reason is None or binding.origin is Origin.HANDOFF or leases.get(tx, session.id):
        return None
    (no,) = tx.one("SELECT no FROM sessions WHERE id = :id", id=session.id)
    return None if sessions.is_moving(tx, no) else reason


@writes
def get_or_create(
    tx: Tx,
    address: Address,
    owner: str,
    *,
    policy: ResetPolicy,
    zone: tzinfo,
    cwd: str | None,
    model: str | None,
    title: str | None = None,
) -> BoundSession:
    if (elsewhere := enter(tx, address, owner)) is not None:
        name = sessions.typed_name(tx, elsewhere.session)
        place = _whereabouts(elsewhere, moment(tx.now))
        label = one_line(elsewhere.session.label)
        raise SessionElsewhere(label=label, place=place, name=name, session=elsewhere.session.id)
    there = get(tx, address)
    former = doors.last(tx, address)
    if there is not None:  # its lease must not change while we decide
        leases.locked(tx, there.session_id, "no")
    if (known := current(tx, address, owner, policy, zone)) is not None:
        return known
    if there is not None:
        return _replace(tx, there, owner, policy, zone, cwd=cwd, model=model, title=title)
    fresh = sessions.create(tx, owner, address.platform, title=title, cwd=cwd, model=model)
    rebind(tx, fresh.id, address, Origin.MESSAGE)
    session = sessions.found(tx, fresh.id)
    if former is not None and former.owner == owner:
        _notify_new(tx, address, session, sessions.found(tx, former.session_id))
    return BoundSession(session=session, created=True)


def _replace(
    tx: Tx,
    there: Binding,
    owner: str,
    policy: ResetPolicy,
    zone: tzinfo,
    *,
    cwd: str | None,
    model: str | None,
    title: str | None,
) -> BoundSession:
    """Let a new session take the place of one that is over, and notify the chat."""
    former = sessions.found(tx, there.session_id)
    address = there.address
    reason = over(tx, there, former, policy, zone)
    is_open = former.ended is None
    if is_open:
        sessions.close(tx, former.id, None, reason or EndReason.CLOSED)
    fresh = sessions.create(
        tx, owner, address.platform, title=title, parent=former.id, cwd=cwd, model=model
    )
    rebind(tx, fresh.id, address, Origin.MESSAGE)
    session = sessions.found(tx, fresh.id)
    _notify_replaced(tx, address, session, former, reason)
    return BoundSession(
        session=session,
        created=True,
        replaced=former.id,
        reason=reason,
        ended_now=sessions.found(tx, former.id) if is_open else None,
    )


@writes
def rebind(tx: Tx, session_id: str, address: Address, origin: Origin) -> str | None:
    """Move the session to `address`. Return the session that was bound there, if any, which is
    now set aside.

    The session is active now, and reopened if it was ended. Approvals that either session asked
    for elsewhere are voided, a release request for the session is dropped, and the chat that it
    leaves is notified. Raise AddressTaken if the address belongs to another owner.
    """
    tx.lock(address.key)
    no, owner, seq = leases.locked(tx, session_id, "no, owner, last_seq")
    there = get(tx, address)
    door = doors.get(tx, address)
    if there is not None and sessions.found(tx, there.session_id).owner != owner:
        raise AddressTaken
    if door is not None and door.owner != owner:
        raise AddressTaken
    left = tx.row("DELETE FROM bindings WHERE session_no = :no RETURNING address", no=no)
    if left is not None:
        doors.left(tx, no, left[0], seq)
    doors.arrived(tx, no, address)
    doors.record_move(tx, no, seq, address)
    release_requests.drop(tx, no)
    tx.nudge(Topic.SESSIONS)
    tx.insert(
        "bindings",
        conflict="(address) DO UPDATE SET session_no = excluded.session_no,"
        " origin = excluded.origin, version = excluded.version, bound = excluded.bound",
        address=address.key,
        session_no=no,
        origin=origin.value,
        version=there.version + 1 if there else 1,
        bound=tx.now,
    )
    tx.nudge(Topic.INBOX)  # messages there may wait for a session
    if address.platform is Platform.WEB and address.thread_id is not None:
        pages.arrived(tx, address.thread_id, session_id)
    sessions.record_place(tx, session_id, address.platform, _reset_kind(address, origin))
    if there is not None and there.session_id != session_id:
        sessions.record_place(tx, there.session_id, None)
    sessions.reopen(tx, session_id)  # otherwise the next message there would replace it
    if left is None or left[0] != address.key:
        sessions.void_approvals(tx, session_id)
        if left is not None:
            _notify_left(tx, Address.parse(left[0]), sessions.found(tx, session_id))
    if there is None or there.session_id == session_id:
        return None
    sessions.void_approvals(tx, there.session_id)
    return there.session_id


@writes
def enter(tx: Tx, address: Address, owner: str) -> Elsewhere | None:
    """Bring the session whose door `address` is back to it, if it is elsewhere and free.

    Return where the session is, if it is not free. Return None if there is nothing to choose:
    `get_or_create` then finds or creates the right session.
    """
    tx.lock(address.key)
    door = doors.get(tx, address)
    if door is None or get(tx, address) is not None:
        return None
    (no,) = leases.locked(tx, door.session_id, "no")
    session = sessions.found(tx, door.session_id)
    if session.owner != owner or session.ended is not None:
        return None
    if is_free(tx, session, no):
        bring(tx, session, address)
        return None
    lease = leases.get(tx, session.id)
    (bound,) = tx.row("SELECT bound FROM bindings WHERE session_no = :no", no=no) or (tx.now,)
    return Elsewhere(
        session=session,
        holder=lease and lease.holder,
        is_moving=sessions.is_moving(tx, no),
        since=moment(bound),
    )


def is_free(tx: Tx, session: Session, no: int) -> bool:
    """Whether a message elsewhere may bring the session there: no process holds it, no handoff is
    moving it, and where it is no message waits for the rest of its answer, because the gateway that
    answered it died."""
    if leases.get(tx, session.id) is not None or sessions.is_moving(tx, no):
        return False
    there = session.address
    return there is None or not inbox.is_answering_at(tx, session.id, there)


def bring(tx: Tx, session: Session, address: Address) -> None:
    """Bring a free session to `address`, for a message that was written there."""
    left = session.address
    rebind(tx, session.id, address, Origin.RESUME)
    is_from_terminal = left is not None and left.platform is Platform.LOCAL
    if is_from_terminal and transcripts.is_cut_off(tx, session.id):
        # A chat finishes such a turn itself. The terminal is gone, so it is mentioned here.
        key = f"cut off:{session.id}:{session.messages}"
        draft = outbox.Draft(key=key, address=address, body=notices.CUT_OFF, session_id=session.id)
        outbox.enqueue(tx, draft)


def _whereabouts(elsewhere: Elsewhere, now: datetime) -> str:
    """Where the session is and since when, in words that follow its name."""
    if elsewhere.holder is None and elsewhere.is_moving:
        return "is being handed off"
    since = elsewhere.since.astimezone()
    is_today = since.date() == now.astimezone().date()
    when = f"since {since:%H:%M}" if is_today else f"since {since:%d %B, %H:%M}"
    address = elsewhere.session.address
    if elsewhere.holder is None:
        return f"has been on {address} {when}, and an answer there was interrupted and comes first"
    if address is None or address.platform is Platform.LOCAL:
        return f"has been open in {elsewhere.holder.partition(' (')[0]} {when}"
    return f"has been on {address} {when}, and the agent is working there"


_STAYING = {
    "homes": "true",
    "approvals": "state = 'waiting'",
    "inbox": "finished IS NULL",
    "outbox": "state IN ('queued', 'sending') AND state = 'queued'",
}
"""What else moves with a chat to its new address: the table, and which of its rows."""


@writes
def chat_moved(tx: Tx, old: Address, new: Address) -> None:
    """Follow a chat to the new address that its platform gave it.

    The binding moves, unless the new address already has a session. So do the home channel,
    waiting approvals, unanswered inbox entries and queued messages. Users are not notified: to
    them it is the same chat.
    """
    for key in sorted((old.key, new.key)):
        tx.lock(key)
    if get(tx, new) is None:
        sql = (
            "UPDATE bindings SET address = :new, version = version + 1 WHERE address = :old"
            " RETURNING session_no, origin"
        )
        if row := tx.row(sql, old=old.key, new=new.key):
            kind = _reset_kind(new, Origin(row[1]))
            sql = "UPDATE sessions SET reset_kind = :kind WHERE no = :no"
            tx.change(sql, kind=kind, no=row[0])
        doors.moved(tx, old, new)
    for table, which in _STAYING.items():
        sql = f"UPDATE {table} SET address = :new WHERE address = :old AND {which}"
        tx.change(sql, old=old.key, new=new.key)


def _notify_left(tx: Tx, left: Address, session: Session) -> None:
    """Notify the chat that the session left, where the user may be waiting for an answer."""
    if left.platform is Platform.LOCAL:
        return
    body = notices.left(session, sessions.typed_name(tx, session))
    key = f"{MOVED}{session.id}:{secrets.token_hex(8)}"
    # Where there are threads, a message there is enough.
    buttons = (bring_back(session),) if left.thread_id is None else ()
    draft = outbox.Draft(key=key, address=left, body=body, session_id=session.id)
    outbox.enqueue(tx, replace(draft, buttons=buttons))


def _notify_new(tx: Tx, address: Address, session: Session, former: Session) -> None:
    """Notify the chat that a new session answers, and not the one that was there last."""
    body = notices.new_one(former, sessions.typed_name(tx, former))
    draft = outbox.Draft(key=f"new:{session.id}", address=address, body=body, session_id=session.id)
    outbox.enqueue(tx, replace(draft, buttons=(bring_back(former),)))


def _notify_replaced(
    tx: Tx, address: Address, session: Session, former: Session, reason: EndReason | None
) -> None:
    """Notify the chat that a new session has replaced the one that was there."""
    body = notices.replaced(former, reason)
    key = f"replaced:{session.id}"
    draft = outbox.Draft(key=key, address=address, body=body, session_id=session.id)
    outbox.enqueue(tx, replace(draft, buttons=(bring_back(former),)))


def bring_back(session: Session) -> tuple[str, str]:
    """The button that brings the session back to the chat."""
    return notices.bring_back_label(session), f"{RESUME}:{session.id}"


@reads
def stale(
    tx: Tx, policies: ResetPolicies, zone: tzinfo, platforms: Collection[Platform], limit: int = 20
) -> tuple[Session, ...]:
    """Sessions in chats on `platforms` that `get_or_create` would replace by policy, the
    longest inactive first."""
    if not (silent := _silent(tx, policies, zone, platforms)):
        return ()
    numbers = tx.rows(f"{silent} ORDER BY active, no LIMIT :limit", ticks=tx.ticks, limit=limit)
    sql = f"{_SELECT} ON s.no = b.session_no WHERE s.no = :no"
    rows = [row for no, _ in numbers for row in tx.rows(sql, no=no)]
    found = ((binding, sessions.found(tx, binding.session_id)) for binding in map(_binding, rows))
    return tuple(
        session
        for binding, session in found
        if expiry(tx, binding, session, policies.for_address(binding.address), zone)
    )


def _silent(tx: Tx, policies: ResetPolicies, zone: tzinfo, platforms: Collection[Platform]) -> str:
    """SQL for the sessions that have been inactive for longest, and long enough for their chat's
    policy, up to `:limit` of each kind of chat. Empty if there is no policy. Platforms and chat
    types are closed sets of plain words, so they are safe as literals."""
    now = moment(tx.now)
    kinds = [(p, t) for p in sorted(platforms) if p is not Platform.LOCAL for t in ChatType]
    latest = {(p, t): policies.of(p, t).latest_over(now=now, zone=zone) for p, t in kinds}
    return " UNION ALL ".join(
        "SELECT no, active FROM (SELECT no, active FROM sessions"
        f" WHERE reset_kind = '{platform}:{chat_type}' AND ended IS NULL"
        f" AND active <= {micros(active)} AND (lease_until IS NULL OR lease_until <= :ticks)"
        " ORDER BY active, no LIMIT :limit) of_kind"
        for (platform, chat_type), active in latest.items()
        if active is not None
    )


def _reset_kind(address: Address, origin: Origin) -> str | None:
    """The kind of chat whose policy may end a session there. None if none may."""
    if address.platform is Platform.LOCAL or origin is Origin.HANDOFF:
        return None
    return f"{address.platform}:{address.chat_type}"


@reads
def list_bindings(tx: Tx, owner: str, *, limit: int = 50) -> tuple[Binding, ...]:
    """The owner's bindings, most recently active first."""
    rows = tx.rows(
        f"{_SELECT} ON s.no = b.session_no WHERE s.owner = :owner AND s.is_bound = 1"
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
