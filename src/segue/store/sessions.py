"""Sessions: create, name, find, end and delete. Their messages are in `transcripts`."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from segue.core.address import Platform
from segue.core.errors import AmbiguousSession, SessionError, SessionNotFound, UserError
from segue.core.session import (
    TITLE_LIMIT,
    EndReason,
    Lease,
    Session,
    Usage,
    clean_title,
    former_lineage_key,
    join_title,
    lineage_key,
    new_session_id,
    numbered_base,
    split_title,
)
from segue.core.text import one_line
from segue.store import errors, inbox, leases, owners, pages, search
from segue.store.base import (
    Row,
    SqlDialect,
    Topic,
    Tx,
    reads,
    writes,
)
from segue.store.values import address_or_none, micros, moment, moment_or_none, text

_PREFIX_MINIMUM = 4
_CANDIDATES = 5
_MOST_MEANT = 50
"""How many sessions to compare if a name is the beginning of many ids."""
_SHARDS = 16
_LATEST = "latest"

_SELECT = """
    SELECT s.id, s.owner, s.source, s.started, s.active, s.title, s.title_chosen, s.parent, s.cwd,
           s.model, s.input_tokens, s.output_tokens, s.cached_tokens, s.last_seq, s.ended,
           s.end_reason, b.address
    FROM sessions s LEFT JOIN bindings b ON b.session_no = s.no
"""


@writes
def create(
    tx: Tx,
    owner: str,
    source: Platform,
    *,
    title: str | None = None,
    parent: str | None = None,
    cwd: str | None = None,
    model: str | None = None,
) -> Session:
    """Create a session. If its title is taken, it becomes the next of that lineage."""
    owners.found(tx, owner)
    session_id = new_session_id(moment(tx.now), secrets.token_hex(4))
    tx.insert(
        "sessions",
        id=session_id,
        owner=owner,
        source=source.value,
        parent=parent,
        cwd=None if cwd is None else text(cwd),
        model=model,
        started=tx.now,
        active=tx.now,
    )
    _count(tx, record_place(tx, session_id, None), 1)
    if title is not None:
        return _name(tx, found(tx, session_id), title, chosen=True, numbered=True)
    return found(tx, session_id)


@reads
def get(tx: Tx, session_id: str) -> Session | None:
    row = tx.row(f"{_SELECT} WHERE s.id = :id", id=session_id)
    return _session(row) if row else None


def found(tx: Tx, session_id: str) -> Session:
    """Return the session, or raise SessionNotFound."""
    if (session := get(tx, session_id)) is None:
        raise SessionNotFound(name=session_id)
    return session


@reads
def find(tx: Tx, owner: str, name: str, *, exact: bool = False) -> Session:
    """Return the owner's session that `name` refers to: a title (the newest of its lineage), an
    id or its prefix, or `latest`. With `exact`, a title means only the session with that title, and
    it may be `latest`. Raise SessionNotFound or AmbiguousSession."""
    if name == _LATEST and not exact:
        return _latest(tx, owner)
    for condition, values in _meanings(name, exact=exact):
        rows = tx.rows(f"{_SELECT} WHERE s.owner = :owner AND {condition}", owner=owner, **values)
        for session in map(_session, rows):
            if "base" not in values or _is_of(session, values["base"]):
                return session
    if (former := _by_former_key(tx, owner, name)) is not None:
        return former
    meant = _by_prefix(tx, owner, name)
    if len(meant) == 1:
        return meant[0]
    if meant:
        some = ", ".join(session.name for session in meant[:_CANDIDATES])
        raise AmbiguousSession(name=one_line(name), candidates=some)
    if name == _LATEST:
        return _latest(tx, owner)
    raise SessionNotFound(name=one_line(name, TITLE_LIMIT))


def _latest(tx: Tx, owner: str) -> Session:
    if not (newest := list_sessions(tx, owner, limit=1)):
        raise SessionNotFound(name=_LATEST)
    return newest[0]


def typed_name(tx: Tx, session: Session) -> str:
    """The name that its owner can type for it: the title, the title with its number if the title
    now means another session, or the id."""
    for name in (session.name, session.exact_name):
        with contextlib.suppress(SessionError):
            if find(tx, session.owner, name).id == session.id:
                return name
    return session.id


def _meanings(name: str, *, exact: bool) -> Iterable[tuple[str, dict[str, Any]]]:
    """Conditions for what `name` can mean, most likely first."""
    yield "s.id = :id", {"id": text(name)}
    base, number = split_title(text(name).strip())
    if exact or base != text(name).strip():
        # One at most. Without the limit, PostgreSQL expects more, and reads all bindings for them.
        yield (
            "s.title IS NOT NULL AND s.lineage = :base AND s.lineage_no = :no LIMIT 1",
            {"base": lineage_key(base), "no": number},
        )
    if not exact:
        yield (
            "s.title IS NOT NULL AND s.lineage = :base ORDER BY s.lineage_no DESC LIMIT :most",
            {"base": lineage_key(text(name).strip()), "most": _MOST_MEANT},
        )


def _is_of(session: Session, lineage: str) -> bool:
    """Whether its title is of this lineage, and not only the beginning of its title: see
    `former_lineage_key`."""
    base, _ = split_title(session.title or "")
    return lineage_key(base) == lineage


def _by_former_key(tx: Tx, owner: str, name: str) -> Session | None:
    """The owner's session with exactly this title, if the title is very long and was set by an
    earlier version, which left its end out of the key."""
    title = text(name).strip().casefold()
    base, _ = split_title(text(name).strip())
    former = former_lineage_key(base)
    if former == lineage_key(base):
        return None
    rows = tx.rows(
        f"{_SELECT} WHERE s.owner = :owner AND s.title IS NOT NULL AND s.lineage = :base"
        " ORDER BY s.lineage_no DESC LIMIT :most",
        owner=owner,
        base=former,
        most=_MOST_MEANT,
    )
    meant = (_session(row) for row in rows)
    return next((it for it in meant if it.title and it.title.casefold() == title), None)


def _by_prefix(tx: Tx, owner: str, name: str) -> list[Session]:
    """The owner's sessions whose id begins with `name`, most recently active first. If there are
    many, those that began last."""
    if len(name) < _PREFIX_MINIMUM or not (name.replace("_", "").isalnum() and name.isascii()):
        return []
    # The result of a comparison depends on the collation: this is the order of the index.
    column = 's.id COLLATE "C"' if tx.dialect is SqlDialect.POSTGRES else "s.id"
    rows = tx.rows(
        f"{_SELECT} WHERE s.owner = :owner AND {column} >= :low AND {column} < :high"
        f" ORDER BY {column} DESC LIMIT :most",
        owner=owner,
        low=name.lower(),
        high=f"{name.lower()}~",  # greater than every character of an id
        most=_MOST_MEANT,
    )
    return sorted(map(_session, rows), key=lambda session: session.active, reverse=True)


@reads
def list_sessions(
    tx: Tx,
    owner: str,
    *,
    platform: Platform | None = None,
    titled: bool | None = None,
    ended: bool | None = None,
    active_before: datetime | None = None,
    limit: int = 50,
) -> tuple[Session, ...]:
    """The owner's sessions, most recently active first. `platform` is where they are now or, if
    set aside, where they began."""
    conditions = ["s.owner = :owner"]
    values: dict[str, Any] = {"owner": owner, "limit": max(limit, 0)}
    if titled is not None:
        conditions.append(f"s.title IS {'NOT ' if titled else ''}NULL")
    if ended is not None:
        conditions.append(f"s.ended IS {'NOT ' if ended else ''}NULL")
    if active_before is not None:
        conditions.append("s.active < :before")
        values["before"] = micros(active_before)
    if platform is not None:
        conditions.append("s.platform = :platform")
        values["platform"] = platform.value
    where = " AND ".join(conditions)
    newest_first = "ORDER BY s.active DESC, s.no DESC LIMIT :limit"
    rows = tx.rows(f"{_SELECT} WHERE {where} {newest_first}", **values)
    return tuple(map(_session, rows))


@reads
def count(tx: Tx) -> int:
    """How many sessions there are, of all owners."""
    return tx.one("SELECT CAST(coalesce(sum(sessions), 0) AS BIGINT) FROM session_counts")[0]


def _count(tx: Tx, no: int, change: int) -> None:
    """Count a session that was created or deleted."""
    tx.insert(
        "session_counts",
        conflict="(shard) DO UPDATE SET sessions = session_counts.sessions + excluded.sessions",
        shard=no % _SHARDS,
        sessions=change,
    )


@writes
def rename(tx: Tx, session_id: str, title: str, *, chosen: bool = True) -> Session:
    """Set the title. One that the user has `chosen` must be free, or UserError is raised. A
    generated one gets a number if it is taken, and never replaces a chosen one."""
    session = found(tx, session_id)
    if session.title_chosen and not chosen:
        return session
    return _name(tx, session, title, chosen=chosen, numbered=not chosen)


def _name(tx: Tx, session: Session, title: str, *, chosen: bool, numbered: bool) -> Session:
    tx.lock(f"titles of {session.owner}")
    base, number = split_title(clean_title(title))
    if _is_taken(tx, session, base, number):
        base = numbered_base(base)
        number = _next_number(tx, session, base)
        if not numbered:
            raise UserError(
                f"You already have a session called “{title}”. Try “{join_title(base, number)}”."
            )
    tx.change(
        "UPDATE sessions SET title = :title, title_chosen = :chosen, lineage = :lineage,"
        " lineage_no = :number WHERE id = :id",
        title=join_title(base, number),
        chosen=int(chosen),
        lineage=lineage_key(base),
        number=number,
        id=session.id,
    )
    tx.nudge(Topic.SESSIONS)
    return found(tx, session.id)


_OTHERS = (
    "SELECT lineage_no FROM sessions WHERE owner = :owner AND lineage = :lineage"
    " AND id <> :id AND title IS NOT NULL"
)


def _is_taken(tx: Tx, session: Session, base: str, number: int) -> bool:
    """Whether another session of the owner has this title."""
    taken = tx.row(
        f"{_OTHERS} AND lineage_no = :number",
        owner=session.owner,
        lineage=lineage_key(base),
        id=session.id,
        number=number,
    )
    if taken is not None:
        return True
    former = _by_former_key(tx, session.owner, join_title(base, number))
    return former is not None and former.id != session.id


def _next_number(tx: Tx, session: Session, base: str) -> int:
    """The number after the highest one of the lineage."""
    last = tx.row(
        f"{_OTHERS} ORDER BY lineage_no DESC LIMIT 1",
        owner=session.owner,
        lineage=lineage_key(base),
        id=session.id,
    )
    return 2 if last is None else last[0] + 1


@writes
def describe(tx: Tx, lease: Lease, *, cwd: str | None = None, model: str | None = None) -> None:
    """Record the working directory and the model. None keeps the current value."""
    changed = tx.change(
        "UPDATE sessions SET cwd = coalesce(CAST(:cwd AS TEXT), cwd),"
        " model = coalesce(CAST(:model AS TEXT), model)"
        f" WHERE {leases.OURS}",
        cwd=None if cwd is None else text(cwd),
        model=model,
        **leases.named(lease),
    )
    if not changed:
        raise leases.moved(tx, lease.session_id)


@writes
def end(tx: Tx, session_id: str, reason: EndReason, *, lease: Lease | None = None) -> None:
    """End the session and remove its binding. Refused while another process holds it or a
    handoff is in flight."""
    close(tx, session_id, lease, reason)
    sql = "DELETE FROM bindings WHERE session_no = (SELECT no FROM sessions WHERE id = :id)"
    tx.change(sql, id=session_id)
    record_place(tx, session_id, None)


def record_place(
    tx: Tx, session_id: str, platform: Platform | None, reset_kind: str | None = None
) -> int:
    """Record the platform of the session's new address, or that it is set aside. `reset_kind` is
    the kind of chat whose reset policy may end it there. Return the session's number."""
    (no,) = tx.one(
        "UPDATE sessions SET platform = coalesce(CAST(:platform AS TEXT), source),"
        " reset_kind = :kind, is_bound = :bound WHERE id = :id RETURNING no",
        platform=platform and platform.value,
        kind=reset_kind,
        bound=int(platform is not None),
        id=session_id,
    )
    return no


@writes
def close(tx: Tx, session_id: str, lease: Lease | None, reason: EndReason) -> None:
    """End the session but keep its binding: the next message there replaces it and says so. Refused
    while another process holds the session or a handoff is in flight."""
    no = lock_for_end(tx, session_id, lease)
    void_approvals(tx, session_id)
    sql = (
        "UPDATE sessions SET ended = :now, end_reason = :reason, epoch = epoch + 1,"
        " holder = NULL, process = NULL, lease_until = NULL WHERE no = :no"
    )
    tx.change(sql, now=tx.now, reason=reason.value, no=no)


@writes
def reopen(tx: Tx, session_id: str) -> None:
    """Undo the end of a session, if it was ended, and count it as active now: its owner wants to
    continue it. A reset policy measures from here."""
    sql = "UPDATE sessions SET ended = NULL, end_reason = NULL, active = :now WHERE id = :id"
    if not tx.change(sql, now=tx.now, id=session_id):
        raise SessionNotFound(name=session_id)


@writes
def delete(tx: Tx, session_id: str, *, lease: Lease | None = None) -> None:
    """Delete the session and its transcript. Refused while another process holds it or a
    handoff is in flight."""
    no = lock_for_end(tx, session_id, lease)
    search.forget(tx, no)
    inbox.finish_taken(tx, session_id)
    pages.forget_session(tx, session_id)
    tx.nudge(Topic.SESSIONS)
    low = no << 32
    high = (no + 1) << 32
    tx.change("DELETE FROM messages WHERE id >= :low AND id < :high", low=low, high=high)
    tx.change("DELETE FROM sessions WHERE no = :no", no=no)
    _count(tx, no, -1)


def lock_for_end(tx: Tx, session_id: str, lease: Lease | None) -> int:
    """Return the session's number, if the caller may end or delete it, and wake its holder.

    The caller may if `lease` is the session's lease or the session is not held (else SessionMoved
    or SessionHeld), and if it is not being handed off (else SessionError).
    """
    no, epoch, process = leases.locked(tx, session_id, "no, epoch, process")
    leases.permit(tx, session_id, lease, epoch=epoch, process=process)
    if is_moving(tx, no):
        raise errors.being_handed_off()
    leases.taken_from(tx, process)
    return no


def is_moving(tx: Tx, no: int) -> bool:
    """Whether a handoff of the session is in flight, and not void."""
    row = tx.row(
        "SELECT 1 FROM handoffs WHERE session_no = :no AND state IN ('pending', 'running')"
        " AND claim_by > :ticks",
        no=no,
        ticks=tx.ticks,
    )
    return row is not None


def _session(row: Row) -> Session:
    session_id, owner, source, started, active, title, title_chosen, parent, *rest = row
    cwd, model, input_tokens, output_tokens, cached_tokens, last_seq, *rest = rest
    ended, end_reason, address = rest
    return Session(
        id=session_id,
        owner=owner,
        source=Platform(source),
        started=moment(started),
        active=moment(active),
        title=title,
        title_chosen=bool(title_chosen),
        parent=parent,
        cwd=cwd,
        model=model,
        usage=Usage(input=input_tokens, output=output_tokens, cached=cached_tokens),
        messages=last_seq,
        ended=moment_or_none(ended),
        end_reason=None if end_reason is None else EndReason(end_reason),
        address=address_or_none(address),
    )


@writes
def void_approvals(tx: Tx, session_id: str) -> int:
    """Void the session's open questions, which can no longer be answered, and return how
    many there were."""
    changed = tx.change(
        "UPDATE approvals SET state = 'void' WHERE state IN ('waiting', 'answered')"
        " AND session_no = (SELECT no FROM sessions WHERE id = :id)",
        id=session_id,
    )
    if changed:
        tx.nudge(Topic.APPROVALS)
    return changed
