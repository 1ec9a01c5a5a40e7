"""Questions to a person before a tool is used: each for one exact call, answered once, used once.

waiting ──answer──▶ answered ──use──▶ used
   │ └──time────▶ expired  │
   └──────the session moves or ends──▶ void

They are in the store so that the answer finds the turn, whichever process takes it up again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from segue.core.address import Address
from segue.core.approval import Answer
from segue.core.errors import ApprovalOver
from segue.core.lease import Lease, Ticks
from segue.store import leases
from segue.store.base import Engine, Row, Topic, Tx
from segue.store.values import moment, text


class ApprovalState(StrEnum):
    WAITING = "waiting"
    ANSWERED = "answered"
    USED = "used"
    VOID = "void"
    EXPIRED = "expired"


_OVER = {
    ApprovalState.ANSWERED: "it was answered already",
    ApprovalState.USED: "it was answered already",
    ApprovalState.VOID: "the conversation has moved on",
    ApprovalState.EXPIRED: "its time is up",
}
_NOT_YOURS = "it is not yours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One question, and how it stands."""

    id: int
    session_id: str
    call_id: str
    fingerprint: str
    """What makes the call the very one that was asked about."""
    what: str
    """What exactly will be done, as the person was shown it."""
    address: Address
    """Where it was asked: only there it can be answered."""
    owner: str
    """Whose session it is: only they can answer."""
    asked: datetime
    until: Ticks
    state: ApprovalState
    answer: Answer | None


class Approvals:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def ask(
        self,
        lease: Lease,
        call_id: str,
        fingerprint: str,
        what: str,
        address: Address,
        *,
        seconds: float,
    ) -> Approval:
        """The question about that call: the one that waits, or is answered and unused, or else a
        new one. SessionMoved when the lease is no longer the session's."""
        return await self._engine.write(
            ask, lease, call_id, fingerprint, what, address, seconds=seconds
        )

    async def answer(
        self, approval_id: int, owner: str, address: Address, answer: Answer
    ) -> Approval:
        """Answer it, and wake the turn that waits; ApprovalOver, which says why, when it does not
        wait for this owner in this place."""
        return await self._engine.write(give, approval_id, owner, address, answer)

    async def use(self, lease: Lease, approval_id: int) -> Answer | None:
        """The answer, for one use; None when there is none to use. SessionMoved when the lease is
        no longer the session's."""
        return await self._engine.write(use, lease, approval_id)

    async def get(self, approval_id: int) -> Approval | None:
        return await self._engine.read(get, approval_id)

    async def waiting(self, session_id: str) -> Approval | None:
        """The newest of the session that waits, or is answered and unused."""
        return await self._engine.read(waiting, session_id)

    async def waiting_at(self, address: Address) -> tuple[Approval, ...]:
        """Those that can be answered there, the oldest first."""
        return await self._engine.read(waiting_at, address)

    async def void(self, session_id: str) -> int:
        """None of the session's can be answered or used any more; says how many could."""
        return await self._engine.write(void, session_id)


_SELECT = """
    SELECT a.id, s.id, a.call_id, a.fingerprint, a.what, a.address, s.owner, a.asked, a.until,
           a.state, a.answer
    FROM approvals a JOIN sessions s ON s.no = a.session_no
"""
_OPEN = "(a.state = 'answered' OR (a.state = 'waiting' AND a.until > :ticks))"


def ask(
    tx: Tx,
    lease: Lease,
    call_id: str,
    fingerprint: str,
    what: str,
    address: Address,
    *,
    seconds: float,
) -> Approval:
    no, _ = leases.own(tx, lease)
    known = tx.row(
        f"{_SELECT} WHERE a.session_no = :no AND a.call_id = :call"
        f" AND a.fingerprint = :fingerprint AND {_OPEN} ORDER BY a.id DESC LIMIT 1",
        no=no,
        call=text(call_id),
        fingerprint=text(fingerprint),
        ticks=tx.ticks,
    )
    if known:
        return _approval(tx, known)
    # A question about the same call that stood for something else, such as another file, is over.
    tx.change(
        "UPDATE approvals SET state = 'void' WHERE session_no = :no AND call_id = :call"
        " AND state IN ('waiting', 'answered')",
        no=no,
        call=text(call_id),
    )
    (approval_id,) = tx.one(
        "INSERT INTO approvals (session_no, call_id, fingerprint, what, address, asked, until,"
        " state) VALUES (:no, :call, :fingerprint, :what, :address, :now, :until, 'waiting')"
        " RETURNING id",
        no=no,
        call=text(call_id),
        fingerprint=text(fingerprint),
        what=text(what),
        address=address.key,
        now=tx.now,
        until=leases.until(tx, seconds),
    )
    return _approval(tx, tx.one(f"{_SELECT} WHERE a.id = :id", id=approval_id))


def give(tx: Tx, approval_id: int, owner: str, address: Address, answer: Answer) -> Approval:
    asked = get(tx, approval_id)
    if asked is None or (asked.owner, asked.address) != (owner, address):
        raise ApprovalOver(reason=_NOT_YOURS)
    changed = tx.change(
        "UPDATE approvals SET state = 'answered', answer = :answer"
        " WHERE id = :id AND state = 'waiting' AND until > :ticks",
        answer=answer.value,
        id=approval_id,
        ticks=tx.ticks,
    )
    now = get(tx, approval_id) or asked
    if not changed:
        raise ApprovalOver(reason=_OVER[now.state])
    tx.nudge(Topic.APPROVALS)
    return now


def use(tx: Tx, lease: Lease, approval_id: int) -> Answer | None:
    no, _ = leases.own(tx, lease)
    tx.change(
        "UPDATE approvals SET state = 'expired'"
        " WHERE id = :id AND session_no = :no AND state = 'waiting' AND until <= :ticks",
        id=approval_id,
        no=no,
        ticks=tx.ticks,
    )
    used = tx.row(
        "UPDATE approvals SET state = 'used'"
        " WHERE id = :id AND session_no = :no AND state = 'answered' RETURNING answer",
        id=approval_id,
        no=no,
    )
    return Answer(used[0]) if used else None


def get(tx: Tx, approval_id: int) -> Approval | None:
    row = tx.row(f"{_SELECT} WHERE a.id = :id", id=approval_id)
    return _approval(tx, row) if row else None


def waiting(tx: Tx, session_id: str) -> Approval | None:
    sql = f"{_SELECT} WHERE s.id = :id AND {_OPEN} ORDER BY a.id DESC LIMIT 1"
    row = tx.row(sql, id=session_id, ticks=tx.ticks)
    return _approval(tx, row) if row else None


def waiting_at(tx: Tx, address: Address) -> tuple[Approval, ...]:
    rows = tx.rows(
        f"{_SELECT} WHERE a.address = :key AND a.state = 'waiting' AND a.until > :ticks"
        " ORDER BY a.id",
        key=address.key,
        ticks=tx.ticks,
    )
    return tuple(_approval(tx, row) for row in rows)


def void(tx: Tx, session_id: str) -> int:
    changed = tx.change(
        "UPDATE approvals SET state = 'void' WHERE state IN ('waiting', 'answered')"
        " AND session_no = (SELECT no FROM sessions WHERE id = :id)",
        id=session_id,
    )
    if changed:
        tx.nudge(Topic.APPROVALS)
    return changed


def _approval(tx: Tx, row: Row) -> Approval:
    """The approval in a row; one whose time is up has expired, whoever wrote that down."""
    (
        approval_id,
        session_id,
        call_id,
        fingerprint,
        what,
        address,
        owner,
        asked,
        until,
        state,
        answer,
    ) = row
    approval = Approval(
        id=approval_id,
        session_id=session_id,
        call_id=call_id,
        fingerprint=fingerprint,
        what=what,
        address=Address.parse(address),
        owner=owner,
        asked=moment(asked),
        until=Ticks(until),
        state=ApprovalState(state),
        answer=None if answer is None else Answer(answer),
    )
    if approval.state is ApprovalState.WAITING and tx.ticks >= until:
        return replace(approval, state=ApprovalState.EXPIRED)
    return approval
