"""What is to be said on a platform: in order per address, and never dropped in silence.

queued ──claim──▶ sending ──▶ sent
  ▲                 │ │ └───▶ uncertain   it may have arrived, and could not be repeated
  └─────retry───────┘ └─────▶ failed      it cannot be delivered

What is too long for one message goes out in parts. The receipt of each is journalled as it arrives,
so that whoever goes on with it begins with the part after the last of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from segue.core.address import Address, Platform
from segue.core.handoff import short_reason
from segue.core.lease import SECOND
from segue.store import bubbles
from segue.store.base import Engine, Row, Topic, Tx
from segue.store.leases import until
from segue.store.values import (
    Buttons,
    buttons_json,
    listed,
    micros,
    moment,
    moment_or_none,
    parse_buttons,
    readable_address,
    text,
    unreadable,
)

SECONDS = 60.0
"""How long one sending may take before another process looks after it."""

MOST_ATTEMPTS = 20
"""With growing pauses, that is more than an hour; a message that ends each gateway which sends it
is not tried for ever either."""

UNCERTAIN = "The gateway stopped while it was being sent, so it may or may not have arrived."

OFFER = "This may not have reached you:"

_receipts = msgspec.json.Decoder(str)


class OutgoingState(StrEnum):
    QUEUED = "queued"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One thing to say, and how its delivery stands."""

    no: int
    key: str
    """Names it, so that asking twice says it once; platforms that take a key get this one."""
    address: Address
    session_id: str | None
    body: str
    file: str | None
    """The path of the one that it carries."""
    state: OutgoingState
    attempt: int
    buttons: Buttons
    receipts: tuple[str, ...]
    """Of the parts that arrived, in order."""
    error: str | None
    queued: datetime
    finished: datetime | None
    reported: bool
    """Whether its session was told what became of it, if that was nothing good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Something to say, not yet queued."""

    key: str
    address: Address
    body: str
    session_id: str | None = None
    buttons: Buttons = ()
    file: str | None = None
    """The path of a file that it carries, for people."""
    data: bytes = b""
    """What is in that file."""


class Outbox:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def enqueue(self, draft: Draft) -> bool:
        """Say it, after everything that was queued for that address; False when it was already."""
        return await self._engine.write(enqueue, draft)

    async def data(self, outgoing: Outgoing) -> bytes:
        """What is in the file that it carries; empty when that is no longer known."""
        return await self._engine.read(data, outgoing.key)

    async def claim(
        self, platforms: Collection[Platform], *, limit: int = 16, seconds: float = SECONDS
    ) -> tuple[Outgoing, ...]:
        """The next to send, at most one per address, journalled as being sent by this process.
        Those that cannot be read have failed with this, and come with that state."""
        return await self._engine.write(claim, platforms, limit, seconds)

    async def progress(self, outgoing: Outgoing, receipt: str) -> bool:
        """One more part of it arrived, and there is time for the next; the same receipt again adds
        nothing. False, here as below, when it is no longer this process's to tell."""
        return await self._engine.write(progress, outgoing, receipt)

    async def sent(self, outgoing: Outgoing, receipt: str = "") -> bool:
        """It arrived; `receipt` is its last part's, unless that was told before."""
        return await self._engine.write(finish, outgoing, OutgoingState.SENT, receipt=receipt)

    async def failed(self, outgoing: Outgoing, reason: str) -> bool:
        """It cannot be delivered."""
        return await self._engine.write(finish, outgoing, OutgoingState.FAILED, error=reason)

    async def uncertain(self, outgoing: Outgoing, reason: str) -> bool:
        """It may have arrived, and must not be repeated."""
        return await self._engine.write(finish, outgoing, OutgoingState.UNCERTAIN, error=reason)

    async def retry(
        self, outgoing: Outgoing, reason: str, *, seconds: float, asked: bool = False
    ) -> bool:
        """It did not arrive: again, in so many seconds. What follows at that address waits.
        `asked`: the platform itself asked for the pause."""
        return await self._engine.write(retry, outgoing, reason, seconds, asked=asked)

    async def asked_to_wait(self, address: Address) -> float:
        """For how many seconds more nothing is sent there, because the platform asked for that."""
        return await self._engine.read(asked_to_wait, address)

    async def recover(
        self,
        repeatable: Collection[Platform],
        *,
        platforms: Collection[Platform] | None = None,
        alive: Collection[str] | None = None,
        besides: Collection[int] = (),
    ) -> tuple[Outgoing, ...]:
        """Look after what dead processes were sending, on all platforms or on these: queued again
        where the platform takes a key, or it becomes a live bubble; uncertain elsewhere. The parts
        that arrived stay known. Returns the uncertain ones.

        `alive`: the only processes that may still be sending, where the caller knows; else one
        that hangs is believed in for SECONDS. `besides`: the numbers of those that the caller is
        sending itself.
        """
        return await self._engine.write(recover, repeatable, platforms, alive, besides)

    async def troubled(
        self, *, reported: bool | None = None, limit: int = 50
    ) -> tuple[Outgoing, ...]:
        """What failed or is uncertain, the newest first; all, or those that were (not) reported in
        their session."""
        return await self._engine.read(troubled, reported, limit)

    async def reported(self, no: int) -> bool:
        """The session of a troubled one is told; False when it was before, or nothing is wrong."""
        return await self._engine.write(report, no)

    async def waiting(self, address: Address) -> int:
        """How many are queued or being sent there."""
        return await self._engine.read(waiting, address)

    async def due(self, platforms: Collection[Platform]) -> int:
        """How many could be sent now, or are being sent, on these platforms."""
        return await self._engine.read(due, platforms)

    async def begin_bubble(
        self, address: Address, key: str, body: str, session_id: str | None = None
    ) -> None:
        """That is about to be sent there under `key`, to be the live bubble of `address`."""
        await self._engine.write(bubbles.begin, address, bubbles.Begun(key, body), session_id)

    async def bubble(
        self, address: Address, receipt: str | None, session_id: str | None = None
    ) -> None:
        """That message is the live bubble of `address`; None: there is none any more. Nor is one
        that is told to have become a part of what was sent."""
        await self._engine.write(bubbles.put, address, receipt, session_id)

    async def bubbles(self, platforms: Collection[Platform]) -> Mapping[Address, str]:
        """The live bubbles there are, each by its receipt."""
        return await self._engine.read(bubbles.of, platforms)

    async def begun_bubbles(
        self, platforms: Collection[Platform]
    ) -> Mapping[Address, bubbles.Begun]:
        """Those that may or may not have been sent."""
        return await self._engine.read(bubbles.begun, platforms)

    async def get(self, key: str) -> Outgoing | None:
        return await self._engine.read(get, key)

    async def prune(self, before: datetime) -> int:
        """Forget what was delivered before then."""
        return await self._engine.write(prune, before)


_COLUMNS = (
    "no, key, address, session_id, body, state, attempt, buttons, receipts, error, queued,"
    " finished, reported, file"
)


def enqueue(tx: Tx, draft: Draft) -> bool:
    queued = tx.change(
        "INSERT INTO outbox"
        " (key, platform, address, session_id, body, buttons, file, state, queued)"
        " VALUES (:key, :platform, :address, :session, :body, :buttons, :file, 'queued', :now)"
        " ON CONFLICT DO NOTHING",
        key=draft.key,
        platform=draft.address.platform.value,
        address=draft.address.key,
        session=draft.session_id,
        body=text(draft.body),
        buttons=buttons_json(draft.buttons),
        file=text(draft.file) if draft.file else None,
        now=tx.now,
    )
    if queued:
        if draft.data:
            sql = "INSERT INTO uploads (key, data) VALUES (:key, :data)"
            tx.change(sql, key=draft.key, data=draft.data)
        tx.nudge(Topic.OUTBOX)
    return queued == 1


def data(tx: Tx, key: str) -> bytes:
    row = tx.row("SELECT data FROM uploads WHERE key = :key", key=key)
    return bytes(row[0]) if row else b""


def claim(
    tx: Tx, platforms: Collection[Platform], limit: int, seconds: float
) -> tuple[Outgoing, ...]:
    skip = f"{tx.for_update} SKIP LOCKED" if tx.for_update else ""
    rows = tx.rows(
        "SELECT no FROM outbox o WHERE state = 'queued' AND not_before <= :ticks"
        f" AND platform IN ({listed(platforms)}) AND NOT EXISTS (SELECT 1 FROM outbox e"
        " WHERE e.address = o.address AND e.no < o.no AND e.state IN ('queued', 'sending'))"
        f" ORDER BY no LIMIT :limit {skip}",
        ticks=tx.ticks,
        limit=limit,
    )
    claimed = (
        tx.row(
            "UPDATE outbox SET state = 'sending', attempt = attempt + 1, process = :process,"
            f" until = :until WHERE no = :no AND state = 'queued' RETURNING {_COLUMNS}",
            process=tx.process,
            until=until(tx, seconds),
            no=row[0],
        )
        for row in rows
    )
    taken = tuple(_outgoing(row) for row in claimed if row)
    for outgoing in taken:
        if outgoing.state is OutgoingState.FAILED:
            finish(tx, outgoing, OutgoingState.FAILED, error=outgoing.error or "")
            tx.nudge(Topic.OUTBOX)  # what waits behind it is not known from its address
    return taken


def progress(tx: Tx, outgoing: Outgoing, receipt: str) -> bool:
    bubbles.become(tx, outgoing.address, receipt)
    last = "substr(receipts, length(receipts) - length(:line) + 1)"
    change = f"receipts = receipts || CASE WHEN {last} = :line THEN '' ELSE :line END"
    return _change(
        tx,
        outgoing,
        f"{change}, until = :until",
        line=_line(receipt),
        until=until(tx, SECONDS),
    )


def finish(
    tx: Tx, outgoing: Outgoing, state: OutgoingState, *, receipt: str = "", error: str = ""
) -> bool:
    tx.nudge(Topic.SENT)
    bubbles.become(tx, outgoing.address, receipt)
    settled = _settle(
        tx,
        outgoing,
        "state = :state, receipts = receipts || :line, error = :error, finished = :now",
        state=state.value,
        line=_line(receipt) if receipt else "",
        error=short_reason(text(error)) if error else None,
        now=tx.now,
    )
    if waiting(tx, outgoing.address):  # for this one to go first
        tx.nudge(Topic.OUTBOX)
    return settled


def retry(tx: Tx, outgoing: Outgoing, reason: str, seconds: float, *, asked: bool) -> bool:
    tx.nudge(Topic.SENT)
    return _settle(
        tx,
        outgoing,
        "state = 'queued', error = :error, not_before = :after, asked = :asked",
        error=short_reason(text(reason)),
        after=until(tx, seconds),
        asked=int(asked),
    )


def asked_to_wait(tx: Tx, address: Address) -> float:
    (until,) = tx.one(
        "SELECT coalesce(max(not_before), 0) FROM outbox"
        " WHERE address = :key AND state = 'queued' AND asked = 1",
        key=address.key,
    )
    return max(0, until - tx.ticks) / SECOND


def _settle(tx: Tx, outgoing: Outgoing, change: str, **values: Any) -> bool:
    return _change(tx, outgoing, f"{change}, process = NULL, until = NULL", **values)


def _change(tx: Tx, outgoing: Outgoing, change: str, **values: Any) -> bool:
    """Only the newest attempt may say how it went."""
    changed = tx.change(
        f"UPDATE outbox SET {change}"
        " WHERE no = :no AND state = 'sending' AND attempt = :attempt AND process = :process",
        no=outgoing.no,
        attempt=outgoing.attempt,
        process=tx.process,
        **values,
    )
    return changed == 1


def recover(
    tx: Tx,
    repeatable: Collection[Platform],
    platforms: Collection[Platform] | None,
    alive: Collection[str] | None,
    besides: Collection[int],
) -> tuple[Outgoing, ...]:
    among = listed(Platform if platforms is None else platforms)
    # What was about to become a bubble can be repeated anywhere: it is an edit.
    rows = tx.rows(
        "SELECT no, process, until, platform, attempt, receipts = '' AND file IS NULL"
        " AND EXISTS (SELECT 1 FROM bubbles b"
        " WHERE b.platform = o.platform AND b.address = o.address AND b.receipt <> '')"
        f" FROM outbox o WHERE state = 'sending' AND platform IN ({among}) {tx.for_update}"
    )
    lost: list[Outgoing] = []
    for no, process, ends, platform, attempt, is_edit in rows:
        gone = tx.dead(process) or (alive is not None and process not in alive)
        if no in besides or (tx.ticks < ends and not gone):
            continue
        if (is_edit or Platform(platform) in repeatable) and attempt < MOST_ATTEMPTS:
            change = "state = 'queued'"
        else:
            change = "state = 'uncertain', error = :reason, finished = :now"
        row = tx.row(
            f"UPDATE outbox SET {change}, process = NULL, until = NULL"
            f" WHERE no = :no RETURNING {_COLUMNS}",
            no=no,
            **({"reason": UNCERTAIN, "now": tx.now} if "reason" in change else {}),
        )
        tx.nudge(Topic.OUTBOX)
        tx.nudge(Topic.SENT)
        if row and row[5] == OutgoingState.UNCERTAIN:
            lost.append(_outgoing(row))
    return tuple(lost)


def troubled(tx: Tx, reported: bool | None, limit: int) -> tuple[Outgoing, ...]:
    # What belongs to no session is reported in none, and must not crowd out the rest.
    only = "" if reported is None else f" AND reported = {int(reported)} AND session_id IS NOT NULL"
    rows = tx.rows(
        f"SELECT {_COLUMNS} FROM outbox WHERE state IN ('failed', 'uncertain'){only}"
        " ORDER BY no DESC LIMIT :limit",
        limit=limit,
    )
    return tuple(map(_outgoing, rows))


def report(tx: Tx, no: int) -> bool:
    sql = (
        "UPDATE outbox SET reported = 1"
        " WHERE no = :no AND state IN ('failed', 'uncertain') AND reported = 0"
    )
    return tx.change(sql, no=no) == 1


def offer_again(tx: Tx, address: Address) -> None:
    """Queue again, as such, what a handoff said there and what may not have arrived: each once."""
    # Handoff.recap_key and Handoff.reply_key
    rows = tx.rows(
        "SELECT no, key, session_id, body FROM outbox WHERE address = :key AND state = 'uncertain'"
        " AND offered = 0 AND (key LIKE :recap OR key LIKE :reply) ORDER BY no",
        key=address.key,
        recap="handoff:%:recap",
        reply="handoff:%:reply",
    )
    for no, key, session_id, body in rows:
        tx.change("UPDATE outbox SET offered = 1 WHERE no = :no", no=no)
        told = f"{OFFER}\n\n{body}"
        enqueue(tx, Draft(key=f"again:{key}", address=address, body=told, session_id=session_id))


def waiting(tx: Tx, address: Address) -> int:
    sql = "SELECT count(*) FROM outbox WHERE address = :key AND state IN ('queued', 'sending')"
    return tx.one(sql, key=address.key)[0]


def due(tx: Tx, platforms: Collection[Platform]) -> int:
    among = listed(platforms)
    (count,) = tx.one(
        "SELECT count(*) FROM outbox WHERE state IN ('queued', 'sending')"
        f" AND not_before <= :ticks AND platform IN ({among})",
        ticks=tx.ticks,
    )
    return count


def get(tx: Tx, key: str) -> Outgoing | None:
    row = tx.row(f"SELECT {_COLUMNS} FROM outbox WHERE key = :key", key=key)
    return _outgoing(row) if row else None


def prune(tx: Tx, before: datetime) -> int:
    tx.change(
        "DELETE FROM uploads WHERE NOT EXISTS (SELECT 1 FROM outbox o"
        " WHERE o.key = uploads.key AND o.state IN ('queued', 'sending'))"
    )
    sql = "DELETE FROM outbox WHERE state = 'sent' AND finished < :before"
    return tx.change(sql, before=micros(before))


def _line(receipt: str) -> str:
    """A receipt as it joins the others."""
    return "\n" + msgspec.json.encode(text(receipt)).decode()


def _outgoing(row: Row) -> Outgoing:
    """The row; as failed, without what cannot be read of it, if it does not hold what it should:
    one bad row must not keep the others from being read."""
    try:
        return _read(row)
    except ValueError as error:
        return _without_structure(row, unreadable(error))


def _without_structure(row: Row, reason: str) -> Outgoing:
    no, key, address, session_id, body, _, attempt, _, _, _, queued, finished, reported, _ = row
    return Outgoing(
        no=no,
        key=key,
        address=readable_address(address),
        session_id=session_id,
        body=body,
        file=None,
        state=OutgoingState.FAILED,
        attempt=attempt,
        buttons=(),
        receipts=(),
        error=reason,
        queued=moment(queued),
        finished=moment_or_none(finished),
        reported=bool(reported),
    )


def _read(row: Row) -> Outgoing:
    (
        no,
        key,
        address,
        session_id,
        body,
        state,
        attempt,
        buttons,
        receipts,
        error,
        queued,
        finished,
        reported,
        file,
    ) = row
    return Outgoing(
        no=no,
        key=key,
        address=Address.parse(address),
        session_id=session_id,
        body=body,
        file=file,
        state=OutgoingState(state),
        attempt=attempt,
        buttons=parse_buttons(buttons),
        receipts=tuple(_receipts.decode_lines(receipts)),
        error=error,
        queued=moment(queued),
        finished=moment_or_none(finished),
        reported=bool(reported),
    )
