"""The SQL of handoffs: each transition in the table of `values` is one guarded UPDATE, so that only
one process can win.

A handoff is in flight (pending or running) only until its `claim_by`. A claim and each heartbeat
extend it. If the gateway dies, another one has until then to resume from the recorded step. After
that the handoff is void, even if a gateway starts later.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct

from segue.core import notices
from segue.core.address import Address, Platform
from segue.core.errors import SessionError
from segue.core.session import Lease, MovingTurn, Origin, Session, Ticks, Usage
from segue.core.text import short_reason
from segue.core.transcript import Message
from segue.handoffs.values import (
    MAX_ATTEMPTS,
    REASONS,
    TRANSITIONS,
    Failure,
    Handoff,
    HandoffEvent,
    State,
    Step,
    stayed,
)
from segue.store import (
    bindings,
    errors,
    inbox,
    leases,
    outbox,
    release_requests,
    sessions,
    transcripts,
)
from segue.store.base import Row, Topic, Transactions, Tx, marks, reads, writes
from segue.store.release_requests import ReleaseRequest
from segue.store.values import address_or_none, listed, moment, moment_or_none, text, unreadable

CLAIM_SECONDS = 15.0
"""How long a handoff waits for a gateway: after the request, and after its gateway died."""

LEASE_SECONDS = 10.0
"""How long a claim lasts without a heartbeat."""

_SELECT = """
    SELECT h.id, s.id, h.platform, h.state, h.requested, h.claim_by, h.key, h.home, h.message,
           h.new_thread, h.mid_turn, h.attempt, h.fence, h.process, h.lease_until, h.claimed,
           h.finished, h.step, h.thread, h.reply, h.failure, h.error, h.detail, NOT EXISTS (
               -- Handoff.recap_key, Handoff.return_key
               SELECT 1 FROM outbox o WHERE o.state = 'uncertain' AND o.key IN (
                   'handoff:' || h.id || ':' || 'recap', 'handoff:' || h.id || ':' || 'return')
           ), EXISTS (
               SELECT 1 FROM outbox o
               WHERE o.key = 'handoff:' || h.id || ':' || 'return' AND o.state = 'failed'
           )
    FROM handoffs h JOIN sessions s ON s.no = h.session_no
"""


class Completion(Struct, frozen=True, kw_only=True):
    """A completed handoff."""

    handoff: Handoff
    displaced: str | None
    """The session that was bound to the address before. It has not ended, but is not open anywhere
    now."""


@marks
def request(
    tx: Tx,
    session_id: str,
    platform: Platform,
    *,
    lease: Lease | None = None,
    home: Address | None = None,
    message: str | None = None,
    new_thread: bool = False,
    mid_turn: bool = False,
    key: str | None = None,
    claim_seconds: float = CLAIM_SECONDS,
) -> Handoff:
    """Request that the session moves. `lease` is the caller's lease, if it has one. `mid_turn`: the
    caller has paused a turn, which continues where the session arrives.

    Raise SessionNotFound, SessionMoved, SessionHeld (another process has it open) or
    HandoffError (one is in flight). Calling it again with the same `key` returns the first request.
    """
    key = key or secrets.token_hex(16)
    no, epoch, process, seq = leases.locked(tx, session_id, "no, epoch, process, last_seq")
    if known := _keyed(tx, key):
        return known
    leases.permit(tx, session_id, lease, epoch=epoch, process=process)
    latest = state(tx, session_id)
    if latest is not None and _is_void(tx, latest):
        _end(tx, latest.id, _why_void(latest))
    elif latest is not None and latest.in_flight:
        raise errors.handoff_in_flight(latest.platform)
    tx.insert(
        "handoffs",
        session_no=no,
        key=key,
        platform=platform.value,
        home=home.key if home else None,
        message=None if message is None else text(message),
        new_thread=int(new_thread),
        mid_turn=(MovingTurn.PAUSED if mid_turn else MovingTurn.NONE).value,
        epoch=epoch,
        seq=seq,
        state=State.PENDING.value,
        claim_by=tx.after(claim_seconds),
        requested=tx.now,
    )
    tx.nudge(Topic.HANDOFFS)
    return _handoff(tx.one(f"{_SELECT} WHERE h.key = :key", key=key))


@marks
def grant(
    tx: Tx,
    release_request: ReleaseRequest,
    lease: Lease,
    *,
    mid_turn: bool = False,
    claim_seconds: float = CLAIM_SECONDS,
) -> Handoff | None:
    """Request the handoff that another process asks for, as the holder of the session. Return
    None if the release request was withdrawn. Calling it again returns the same handoff, while it
    is in flight."""
    current = release_requests.get(tx, release_request.session_id)
    if current is None or current.key != release_request.key:
        known = _keyed(tx, release_request.key)
        return known if known and known.in_flight else None
    release_requests.withdraw(tx, release_request.session_id, release_request.key)
    return request(
        tx,
        release_request.session_id,
        release_request.home.platform,
        lease=lease,
        home=release_request.home,
        message=release_request.message,
        new_thread=release_request.new_thread,
        mid_turn=mid_turn,
        key=release_request.key,
        claim_seconds=claim_seconds,
    )


class ReleaseState(Struct, frozen=True, kw_only=True):
    """What became of a release request."""

    handoff: Handoff | None
    """The handoff, if the request was granted."""
    is_open: bool
    """Whether it is neither granted nor withdrawn."""
    holder: str | None
    """The holder of the session."""
    is_free: bool
    """Whether the session has no holder and no turn that a gateway has yet to resume."""


@reads
def release_state(tx: Tx, release_request: ReleaseRequest) -> ReleaseState:
    current = release_requests.get(tx, release_request.session_id)
    lease = leases.get(tx, release_request.session_id)
    return ReleaseState(
        handoff=_keyed(tx, release_request.key),
        is_open=current is not None and current.key == release_request.key,
        holder=lease and lease.holder,
        is_free=lease is None and not inbox.is_answering(tx, release_request.session_id),
    )


def _keyed(tx: Tx, key: str) -> Handoff | None:
    row = tx.row(f"{_SELECT} WHERE h.key = :key", key=key)
    return _handoff(row) if row else None


def state(tx: Tx, session_id: str) -> Handoff | None:
    """The session's latest handoff, or None."""
    latest = history(tx, session_id, limit=1)
    return latest[0] if latest else None


@reads
def due(tx: Tx, session_id: str) -> tuple[Handoff | None, bool]:
    """The session's latest handoff, and whether `expire` would fail it."""
    latest = state(tx, session_id)
    return latest, latest is not None and _is_void(tx, latest)


async def current(store: Transactions, session_id: str) -> Handoff | None:
    """The session's latest handoff, or None if it has none or does not exist. A void handoff is
    failed first."""
    latest, is_due = await due(store, session_id)
    if is_due:
        await expire(store)
        latest, _ = await due(store, session_id)
    return latest


@reads
def history(tx: Tx, session_id: str, *, limit: int = 20) -> tuple[Handoff, ...]:
    """The session's handoffs, newest first."""
    sql = f"{_SELECT} WHERE s.id = :id ORDER BY h.id DESC LIMIT :limit"
    return tuple(map(_handoff, tx.rows(sql, id=session_id, limit=limit)))


def get(tx: Tx, handoff_id: int) -> Handoff | None:
    row = tx.row(f"{_SELECT} WHERE h.id = :id", id=handoff_id)
    return _handoff(row) if row else None


@reads
def recent(tx: Tx, limit: int = 20) -> tuple[Handoff, ...]:
    """The handoffs of all sessions, newest first."""
    rows = tx.rows(f"{_SELECT} ORDER BY h.id DESC LIMIT :limit", limit=limit)
    return tuple(map(_handoff, rows))


@reads
def in_flight(tx: Tx) -> tuple[Handoff, ...]:
    """All pending and running handoffs, including void ones, oldest first."""
    # The plus keeps SQLite from walking through every handoff there ever was, by its id.
    rows = tx.rows(f"{_SELECT} WHERE h.state IN ('pending', 'running') ORDER BY +h.id")
    return tuple(map(_handoff, rows))


@reads
def pending(tx: Tx) -> tuple[Handoff, ...]:
    """Handoffs that wait for a gateway and are not void, oldest first."""
    # The state is a literal: with a parameter, PostgreSQL does not use the partial index.
    sql = f"{_SELECT} WHERE h.state = 'pending' AND h.claim_by > :ticks ORDER BY h.id"
    return tuple(map(_handoff, tx.rows(sql, ticks=tx.ticks)))


@marks
def claim(tx: Tx, handoff_id: int, *, seconds: float = LEASE_SECONDS) -> Handoff | None:
    """Claim a handoff that is pending, or running with a gateway that is gone. Return None if
    another gateway has it, or if it is over or void."""
    lock = f"{tx.for_update} OF h" if tx.for_update else ""
    row = tx.row(f"{_SELECT} WHERE h.id = :id {lock}", id=handoff_id)
    handoff = _handoff(row) if row else None
    if handoff is None or (handoff.state is State.RUNNING and not _gone(tx, handoff)):
        return None
    return _take(tx, handoff_id, seconds)


def _take(tx: Tx, handoff_id: int, seconds: float) -> Handoff | None:
    """Claim it. The caller has checked, under the row's lock, that no gateway is working on it."""
    changed = tx.change(
        "UPDATE handoffs SET state = 'running', fence = fence + 1, attempt = attempt + 1,"
        " process = :process, lease_until = :lease, claim_by = :claim_by, claimed = :now,"
        " step = coalesce(step, :step)"
        f" WHERE id = :id AND {_guard(HandoffEvent.CLAIM)} AND claim_by > :ticks"
        " AND attempt < :most",
        process=tx.process,
        lease=tx.after(seconds),
        claim_by=tx.after(seconds + CLAIM_SECONDS),
        now=tx.now,
        step=Step.CLAIMED.value,
        id=handoff_id,
        ticks=tx.ticks,
        most=MAX_ATTEMPTS,
    )
    if not changed:
        return None
    tx.nudge(Topic.HANDOFFS)
    taken = get(tx, handoff_id)
    if taken is None or taken.state is State.RUNNING:
        return taken
    cancel(tx, handoff_id, taken.error or "")  # its row cannot be read
    return None


@marks
def claim_next(
    tx: Tx,
    platforms: Collection[Platform],
    *,
    seconds: float = LEASE_SECONDS,
    exclude: Collection[int] = (),
) -> Handoff | None:
    """Claim the oldest pending handoff to one of `platforms`, or else one whose gateway is gone and
    that is not in `exclude`."""
    among = listed(platforms)
    skip = f"{tx.for_update} SKIP LOCKED" if tx.for_update else ""
    waiting = tx.row(
        f"SELECT id FROM handoffs WHERE state = 'pending' AND platform IN ({among})"
        f" AND claim_by > :ticks ORDER BY id LIMIT 1 {skip}",
        ticks=tx.ticks,
    )
    if waiting:
        return _take(tx, waiting[0], seconds)
    running = tx.rows(
        "SELECT id, process, lease_until FROM handoffs"
        f" WHERE state = 'running' AND platform IN ({among}) ORDER BY id"
    )
    dead = {process for process in {row[1] for row in running} if tx.dead(process)}
    gone = (row[0] for row in running if row[1] in dead or tx.ticks >= row[2])
    stranded = (handoff_id for handoff_id in gone if handoff_id not in exclude)
    claimed = (claim(tx, handoff_id, seconds=seconds) for handoff_id in stranded)
    return next((handoff for handoff in claimed if handoff), None)


@marks
def heartbeat(tx: Tx, claimed: Handoff, *, seconds: float = LEASE_SECONDS) -> bool:
    """Extend the claim. Return False, like every change to a claim, if it is no longer the newest:
    stop."""
    return _advance(
        tx,
        claimed,
        "lease_until = :lease, claim_by = :claim_by",
        lease=tx.after(seconds),
        claim_by=tx.after(seconds + CLAIM_SECONDS),
    )


@writes
def record_step(
    tx: Tx,
    claimed: Handoff,
    step: Step,
    *,
    thread: Address | None = None,
    reply: bytes | None = None,
    detail: str | None = None,
) -> bool:
    """Record the step, the thread that was opened, and the agent's reply there, in UTF-8. None
    keeps the recorded thread and reply, but clears `detail`."""
    tx.nudge(Topic.HANDOFFS)
    recorded = _advance(
        tx,
        claimed,
        "step = :step, detail = CAST(:detail AS TEXT),"
        " thread = coalesce(CAST(:thread AS TEXT), thread),"
        " reply = coalesce(CAST(:reply AS TEXT), reply)",
        step=step.value,
        detail=detail,
        thread=thread.key if thread else None,
        reply=None if reply is None else text(reply.decode()),
    )
    if thread is not None and not recorded:  # cancelled while the thread was being opened
        _notify_thread(tx, claimed.id, thread)
    return recorded


@writes
def complete(
    tx: Tx,
    claimed: Handoff,
    *,
    address: Address,
    messages: Sequence[Message] = (),
    usage: Usage | None = None,
    drafts: Sequence[outbox.Draft] = (),
) -> Completion | None:
    """Complete the handoff. This is the single commit point: before it nothing has moved, after it
    everything has.

    The session moves to `address`, its epoch rises, its open approvals become void, the messages of
    the confirming turn are appended and the drafts are queued. A paused turn gets an inbox entry
    there, which the session has taken, so that a gateway continues it like a turn that a crash
    interrupted. The entry that it had where it was is finished.

    Return None if the claim is no longer the newest or the handoff was cancelled. Raise
    SessionError if the session continued elsewhere meanwhile. In both cases nothing changes.
    """
    tx.lock(address.key)
    finished = _advance(
        tx,
        claimed,
        "state = 'completed', lease_until = NULL, finished = :now, thread = :thread",
        now=tx.now,
        thread=address.key,
    )
    if not finished:
        return None
    # An append or a new lease since the request has raised the seq or the epoch.
    same = tx.row(
        "SELECT s.epoch = h.epoch AND s.last_seq = h.seq"
        " FROM handoffs h JOIN sessions s ON s.no = h.session_no"
        f" WHERE h.id = :id {tx.for_update}",
        id=claimed.id,
    )
    if same is None or not same[0]:
        raise SessionError(
            "The session continued elsewhere during the handoff, so it was not moved. Hand it off"
            " again from there."
        )
    displaced = bindings.rebind(tx, claimed.session_id, address, Origin.HANDOFF)
    # Even where the session already was, its turn has closed the question that it asked there, and
    # the turn that goes on asks a new one.
    sessions.void_approvals(tx, claimed.session_id)
    lease = leases.acquire(tx, claimed.session_id, "a gateway", seconds=0, take_over=True)
    transcripts.append(tx, lease, messages, usage=usage)
    leases.release(tx, lease)
    if displaced is not None:
        _notify_displaced(tx, claimed.id, address, sessions.found(tx, displaced))
    for draft in drafts:
        outbox.enqueue(tx, draft)
    if claimed.mid_turn:
        inbox.finish_taken(tx, claimed.session_id)
        inbox.enter_turn(tx, claimed.key, address, claimed.session_id)
    tx.nudge(Topic.HANDOFFS)
    done = _handoff(tx.one(f"{_SELECT} WHERE h.id = :id", id=claimed.id))
    return Completion(handoff=done, displaced=displaced)


def _notify_displaced(tx: Tx, handoff_id: int, address: Address, displaced: Session) -> None:
    """Notify the chat that another session has taken the place of the one before."""
    body = notices.displaced(displaced, sessions.typed_name(tx, displaced))
    key = f"handoff:{handoff_id}:displaced"
    buttons = (bindings.bring_back(displaced),)
    draft = outbox.Draft(
        key=key, address=address, body=body, session_id=displaced.id, buttons=buttons
    )
    outbox.enqueue(tx, draft)


@writes
def fail(tx: Tx, claimed: Handoff, reason: str) -> bool:
    """Fail the handoff. The session stays where it is, and the thread is notified."""
    tx.nudge(Topic.HANDOFFS)
    error = short_reason(text(reason))
    failed = _advance(tx, claimed, _FAILED, failure=Failure.ERROR.value, error=error, now=tx.now)
    if failed:
        _notify_thread(tx, claimed.id)
    return failed


@writes
def cancel(tx: Tx, handoff_id: int, reason: str | None = None) -> bool:
    """Cancel a handoff, or fail it for that reason, even if a gateway is working on it. Return
    False if it is already over. Races with `complete`: only one of them changes the row.

    If a thread was opened for it, a message there says that the session stayed. `fail` and `expire`
    do the same.
    """
    if reason is None:
        return _end(tx, handoff_id, Failure.CANCELLED)
    return _end(tx, handoff_id, Failure.ERROR, short_reason(text(reason)))


def _end(tx: Tx, handoff_id: int, failure: Failure, error: str = "") -> bool:
    tx.nudge(Topic.HANDOFFS)
    changed = tx.change(
        f"UPDATE handoffs SET {_FAILED} WHERE id = :id AND {_guard(HandoffEvent.CANCEL)}",
        failure=failure.value,
        error=error or REASONS[failure],
        now=tx.now,
        id=handoff_id,
    )
    if changed:
        _notify_thread(tx, handoff_id)
    return changed == 1


def _notify_thread(tx: Tx, handoff_id: int, opened: Address | None = None) -> None:
    """Notify the thread that the session will not arrive. What was not sent there yet is not sent
    any more; without a new thread, nothing has to be said then."""
    failed = get(tx, handoff_id)
    thread = opened or (failed and failed.thread)
    if failed is None or failed.state is not State.FAILED or thread is None:
        return
    is_direct = outbox.withdraw(tx, failed.recap_key) and thread == failed.home
    if outbox.withdraw(tx, failed.return_key) or is_direct:
        return
    where = sessions.found(tx, failed.session_id).address
    also = ":new" if opened and failed.thread else ""  # the session's own thread has a notice too
    outbox.enqueue(
        tx,
        outbox.Draft(
            key=f"handoff:{handoff_id}:stayed{also}",
            address=thread,
            body=stayed(where, failed.error or ""),
            session_id=failed.session_id,
        ),
    )


@writes
def expire(tx: Tx) -> int:
    """Fail the handoffs that no gateway claimed in time, and return how many there were."""
    void = [handoff for handoff in in_flight(tx) if _is_void(tx, handoff)]
    return sum(_end(tx, handoff.id, _why_void(handoff)) for handoff in void)


def _is_void(tx: Tx, handoff: Handoff) -> bool:
    """Whether no gateway may claim it any more: it expired, or all attempts are used up."""
    exhausted = handoff.attempt >= MAX_ATTEMPTS and _gone(tx, handoff)
    return handoff.expired(tx.ticks) or exhausted


def _why_void(handoff: Handoff) -> Failure:
    return Failure.EXPIRED if handoff.state is State.PENDING else Failure.ABANDONED


def _gone(tx: Tx, handoff: Handoff) -> bool:
    """Whether the gateway that runs it has died or missed its heartbeats."""
    if handoff.lease_until is None or handoff.claimed_by is None:
        return False
    return tx.ticks >= handoff.lease_until or tx.dead(handoff.claimed_by)


_FAILED = (
    "state = 'failed', lease_until = NULL, finished = :now, failure = :failure, error = :error"
)


def _guard(event: HandoffEvent) -> str:
    """The guard of an UPDATE for that event: the states from which the table lets it happen."""
    return f"state IN ({listed(state for state, known in TRANSITIONS if known is event)})"


def _advance(tx: Tx, claimed: Handoff, change: str, **values: Any) -> bool:
    """Change a running handoff if `claimed` is its newest claim. Return False if it is not."""
    sql = f"UPDATE handoffs SET {change} WHERE id = :id AND state = 'running' AND fence = :fence"
    changed = tx.change(sql, id=claimed.id, fence=claimed.fence, **values)
    return changed == 1


def _handoff(row: Row) -> Handoff:
    """Return the handoff in `row`. If the row is invalid, return a failed handoff without the
    invalid values: one bad row must not keep the others from being read."""
    handoff_id, session_id, platform, state, requested, claim_by, key, *rest = row
    home, message, new_thread, turn, attempt, fence, process, lease_until, *rest = rest
    claimed, finished, step, thread, reply, failure, error, detail, confirmed, replaced = rest
    try:
        return Handoff(
            id=handoff_id,
            session_id=session_id,
            requested=moment(requested),
            claim_by=Ticks(claim_by),
            key=key,
            platform=Platform(platform),
            state=State(state),
            home=address_or_none(home),
            message=message,
            new_thread=bool(new_thread),
            turn=MovingTurn(turn),
            attempt=attempt,
            fence=fence,
            claimed_by=process,
            lease_until=None if lease_until is None else Ticks(lease_until),
            claimed=moment_or_none(claimed),
            finished=moment_or_none(finished),
            step=None if step is None else Step(step),
            detail=detail,
            thread=address_or_none(thread),
            reply=None if reply is None else reply.encode(),
            failure=None if failure is None else Failure(failure),
            error=error,
            confirmed=bool(confirmed),
            replaced=bool(replaced),
        )
    except ValueError as problem:
        return Handoff(
            id=handoff_id,
            session_id=session_id,
            requested=moment(requested),
            claim_by=Ticks(claim_by),
            key=key,
            platform=Platform(platform) if platform in set(Platform) else Platform.LOCAL,
            state=State.FAILED,
            failure=Failure.ERROR,
            error=unreadable(problem),
        )
