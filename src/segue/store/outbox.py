"""The outbox: messages to send, in order per address, never dropped silently.

queued ──claim──▶ sending ──▶ sent ─────▶ failed      the platform took it, and did not deliver it
  ▲                 │ │ └───▶ uncertain   it may have arrived, and cannot be sent again safely
  └─────retry───────┘ └─────▶ failed      it cannot be delivered

A message that is too long for its platform is sent in parts. The receipt of each part is stored as
it arrives, so that another process can resume after the last part that arrived.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.core.address import Address, Platform
from segue.core.handoff import short_reason
from segue.core.lease import SECOND
from segue.store import bubbles
from segue.store.base import Operations, Read, Row, Topic, Tx, Write
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

SEND_TIMEOUT = 60.0
"""How long one send may take before another process recovers it."""

MAX_ATTEMPTS = 20
"""How often to try. With growing pauses, this takes more than an hour. It also stops a message that
crashes every gateway that sends it."""

UNCERTAIN = "The gateway stopped while it was being sent, so it may or may not have arrived."

_LAST = 200
"""How many messages of a chat to search for a receipt."""

OFFER = "This may not have reached you:"

_receipts = msgspec.json.Decoder(str)


class OutgoingState(StrEnum):
    QUEUED = "queued"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    UNCERTAIN = "uncertain"


class Outgoing(Struct, frozen=True, kw_only=True):
    """A message in the outbox, and the state of its delivery."""

    no: int
    key: str
    """The idempotency key: a message queued twice is sent once. Platforms that accept a key get it
    too."""
    address: Address
    session_id: str | None
    body: str
    file: str | None
    """The path of the attached file, or None."""
    state: OutgoingState
    attempt: int
    buttons: Buttons
    receipts: tuple[str, ...]
    """The receipts of the parts that arrived, in order."""
    error: str | None
    queued: datetime
    finished: datetime | None
    reported: bool
    """Whether its failure was reported in its session."""


class Draft(Struct, frozen=True, kw_only=True):
    """A message that is not queued yet."""

    key: str
    address: Address
    body: str
    session_id: str | None = None
    buttons: Buttons = ()
    file: str | None = None
    """The path of the attached file, for display."""
    data: bytes = b""
    """The contents of the attached file."""


_COLUMNS = (
    "no, key, address, session_id, body, state, attempt, buttons, receipts, error, queued,"
    " finished, reported, file"
)


def enqueue(tx: Tx, draft: Draft) -> bool:
    """Queue a message after all others for its address. Return False if its key is known."""
    queued = tx.insert(
        "outbox",
        conflict="DO NOTHING",
        key=draft.key,
        platform=draft.address.platform.value,
        address=draft.address.key,
        session_id=draft.session_id,
        body=text(draft.body),
        buttons=buttons_json(draft.buttons),
        file=text(draft.file) if draft.file else None,
        state=OutgoingState.QUEUED.value,
        queued=tx.now,
    )
    if queued:
        if draft.data:
            tx.insert("uploads", key=draft.key, data=draft.data)
        tx.nudge(Topic.OUTBOX)
    return queued is not None


def data(tx: Tx, outgoing: Outgoing) -> bytes:
    """The contents of the attached file. Empty if they are no longer stored."""
    row = tx.row("SELECT data FROM uploads WHERE key = :key", key=outgoing.key)
    return bytes(row[0]) if row else b""


def claim(
    tx: Tx, platforms: Collection[Platform], *, limit: int = 16, seconds: float = SEND_TIMEOUT
) -> tuple[Outgoing, ...]:
    """Claim the next messages to send, at most one per address.

    A message whose row is invalid fails here, and is returned in that state.
    """
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
            until=tx.after(seconds),
            no=row[0],
        )
        for row in rows
    )
    taken = tuple(_outgoing(row) for row in claimed if row)
    for outgoing in taken:
        if outgoing.state is OutgoingState.FAILED:
            finish(tx, outgoing, OutgoingState.FAILED, error=outgoing.error or "")
            # `finish` cannot find the messages behind it if its address is unreadable.
            tx.nudge(Topic.OUTBOX)
    return taken


def progress(tx: Tx, outgoing: Outgoing, receipt: str) -> bool:
    """Record that one more part arrived, and allow time for the next. Repeating the last
    receipt adds nothing.

    Return False, like every change to an attempt, if this process no longer owns it.
    """
    bubbles.become(tx, outgoing.address, receipt)
    last = "substr(receipts, length(receipts) - length(:line) + 1)"
    change = f"receipts = receipts || CASE WHEN {last} = :line THEN '' ELSE :line END"
    return _change(
        tx,
        outgoing,
        f"{change}, until = :until",
        line=_line(receipt),
        until=tx.after(SEND_TIMEOUT),
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
    if waiting(tx, outgoing.address):  # the next one can be sent now
        tx.nudge(Topic.OUTBOX)
    return settled


def undelivered(tx: Tx, address: Address, receipt: str, reason: str) -> bool | None:
    """Fail a message that was sent, because its platform did not deliver it after all. Return False
    if there is none with that receipt, and None if it may be one that is being sent there."""
    which = "address = :key AND state = 'sent' AND replace(receipts, :line, '') <> receipts"
    if _fail(tx, which, reason, key=address.key, line=_line(receipt)):
        return True
    sql = "SELECT count(*) FROM outbox WHERE address = :key AND state = 'sending'"
    return None if tx.one(sql, key=address.key)[0] else False


def delivered(tx: Tx, address: Address, receipt: str, key: str) -> bool | None:
    """Take the receipt of a part whose fate was unknown: it has arrived. Its message is queued, for
    the parts that follow, unless it was offered again already. `key` is the message's, with the
    part's number. Return False if nothing changed, and None if it may be one that is being sent."""
    name, _, number = key.rpartition("/")
    sql = "SELECT no, state, receipts FROM outbox WHERE address = :at AND key = :name"
    row = tx.row(f"{sql} {tx.for_update}", at=address.key, name=name)
    if row is None or not number.isdecimal() or row[2].count("\n") != int(number):
        return False
    no, state, _ = row
    if state == "sending":
        return None
    tx.nudge(Topic.OUTBOX)
    changed = tx.change(
        "UPDATE outbox SET state = 'queued', receipts = receipts || :line, error = NULL,"
        " finished = NULL WHERE no = :no AND state = 'uncertain' AND offered = 0",
        line=_line(receipt),
        no=no,
    )
    return changed == 1


def retry(tx: Tx, outgoing: Outgoing, reason: str, *, seconds: float, asked: bool = False) -> bool:
    """Queue it again after a failed attempt, to be sent in `seconds`. Later messages to that
    address wait.

    `asked` means that the platform itself asked for the pause.
    """
    tx.nudge(Topic.SENT)
    return _settle(
        tx,
        outgoing,
        "state = 'queued', error = :error, not_before = :after, asked = :asked",
        error=short_reason(text(reason)),
        after=tx.after(seconds),
        asked=int(asked),
    )


def give_up(tx: Tx, key: str, reason: str) -> bool:
    """Fail a message that waits to be sent, and of which nothing was sent. Return False if there is
    none with that key."""
    which = "key = :key AND state = 'queued' AND receipts = ''"
    return _fail(tx, which, reason, key=key) == 1


def withdraw(tx: Tx, key: str) -> bool:
    """Delete a message that waits to be sent for the first time. Return False if there is none with
    that key."""
    sql = "DELETE FROM outbox WHERE key = :key AND state = 'queued' AND attempt = 0"
    return tx.change(sql, key=key) == 1


def _fail(tx: Tx, which: str, reason: str, **values: str) -> int:
    """Fail the messages that the SQL condition `which` names. Return how many there were."""
    tx.nudge(Topic.SENT)
    sql = f"UPDATE outbox SET state = 'failed', error = :error, finished = :now WHERE {which}"
    return tx.change(sql, error=short_reason(text(reason)), now=tx.now, **values)


def asked_to_wait(tx: Tx, address: Address) -> float:
    """Seconds until messages may be sent there again, if the platform asked for a pause."""
    (until,) = tx.one(
        "SELECT coalesce(max(not_before), 0) FROM outbox"
        " WHERE address = :key AND state = 'queued' AND asked = 1",
        key=address.key,
    )
    return max(0, until - tx.ticks) / SECOND


def _settle(tx: Tx, outgoing: Outgoing, change: str, **values: Any) -> bool:
    return _change(tx, outgoing, f"{change}, process = NULL, until = NULL", **values)


def _change(tx: Tx, outgoing: Outgoing, change: str, **values: Any) -> bool:
    """Change the row if this is still the current attempt, and made by this process."""
    sql = (
        f"UPDATE outbox SET {change}"
        " WHERE no = :no AND state = 'sending' AND attempt = :attempt AND process = :process"
    )
    changed = tx.change(sql, no=outgoing.no, attempt=outgoing.attempt, process=tx.process, **values)
    return changed == 1


def recover(
    tx: Tx,
    repeatable: Collection[Platform],
    *,
    platforms: Collection[Platform] | None = None,
    alive: Collection[str] | None = None,
    besides: Collection[int] = (),
) -> tuple[Outgoing, ...]:
    """Recover what dead processes were sending, and return the messages that are now uncertain.

    A message is queued again if its platform is `repeatable` (it accepts a key), or if it replaces
    a live bubble. Otherwise it becomes uncertain. The receipts of parts that arrived are kept.

    `platforms` of None means all. `alive` names the only processes that may still be sending, if
    the caller knows; otherwise a process that hangs keeps its messages for SEND_TIMEOUT. `besides`
    are the numbers of messages that the caller itself is sending.
    """
    among = listed(Platform if platforms is None else platforms)
    # A message that replaces a bubble is an edit, and can be repeated on any platform.
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
        if (is_edit or Platform(platform) in repeatable) and attempt < MAX_ATTEMPTS:
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


def troubled(tx: Tx, *, reported: bool | None = None, limit: int = 50) -> tuple[Outgoing, ...]:
    """Failed and uncertain messages, newest first: all of them, or only those that were (or
    were not) reported in their session."""
    # Messages without a session cannot be reported, and must not crowd out the rest.
    only = "" if reported is None else f" AND reported = {int(reported)} AND session_id IS NOT NULL"
    rows = tx.rows(
        f"SELECT {_COLUMNS} FROM outbox WHERE state IN ('failed', 'uncertain'){only}"
        " ORDER BY no DESC LIMIT :limit",
        limit=limit,
    )
    return tuple(map(_outgoing, rows))


def report(tx: Tx, no: int) -> bool:
    """Mark a failed or uncertain message as reported in its session. Return False if it already
    was, or is in another state."""
    sql = (
        "UPDATE outbox SET reported = 1"
        " WHERE no = :no AND state IN ('failed', 'uncertain') AND reported = 0"
    )
    return tx.change(sql, no=no) == 1


def offer_again(tx: Tx, address: Address) -> None:
    """Queue again, with an introduction, the handoff messages that may not have arrived there. Each
    is offered once."""
    # The keys of a Handoff: recap_key, return_key and reply_key.
    sql = (
        "SELECT no, key, session_id, body FROM outbox WHERE address = :key AND state = 'uncertain'"
        " AND offered = 0 AND (key LIKE :recap OR key LIKE :return OR key LIKE :reply) ORDER BY no"
    )
    kinds = {kind: f"handoff:%:{kind}" for kind in ("recap", "return", "reply")}
    rows = tx.rows(sql, key=address.key, **kinds)
    for no, key, session_id, body in rows:
        tx.change("UPDATE outbox SET offered = 1 WHERE no = :no", no=no)
        offer = f"{OFFER}\n\n{body}"
        enqueue(tx, Draft(key=f"again:{key}", address=address, body=offer, session_id=session_id))


def waiting(tx: Tx, address: Address) -> int:
    """How many messages to this address are queued or being sent."""
    sql = "SELECT count(*) FROM outbox WHERE address = :key AND state IN ('queued', 'sending')"
    return tx.one(sql, key=address.key)[0]


def due(tx: Tx, platforms: Collection[Platform]) -> int:
    """How many messages on these platforms are being sent or could be sent now."""
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


def sent_as(tx: Tx, address: Address, receipt: str) -> Outgoing | None:
    """The message of which a part has this receipt, if it is one of the last that were sent."""
    rows = tx.rows(
        f"SELECT {_COLUMNS} FROM outbox WHERE address = :address ORDER BY no DESC LIMIT :most",
        address=address.key,
        most=_LAST,
    )
    return next((it for it in map(_outgoing, rows) if receipt in it.receipts), None)


def prune(tx: Tx, before: datetime) -> int:
    """Delete messages that were sent before this time, and the files of finished ones."""
    tx.change(
        "DELETE FROM uploads WHERE NOT EXISTS (SELECT 1 FROM outbox o"
        " WHERE o.key = uploads.key AND o.state IN ('queued', 'sending'))"
    )
    sql = "DELETE FROM outbox WHERE state = 'sent' AND finished < :before"
    return tx.change(sql, before=micros(before))


def _line(receipt: str) -> str:
    """Encode a receipt to append it to the column."""
    return "\n" + msgspec.json.encode(text(receipt)).decode()


def _outgoing(row: Row) -> Outgoing:
    """Return the message in `row`. If the row is invalid, return a failed message without the
    invalid values: one bad row must not keep the others from being read."""
    no, key, address, session_id, body, state, attempt, *rest = row
    buttons, receipts, error, queued, finished, reported, file = rest
    plain = Outgoing(
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
        error=error,
        queued=moment(queued),
        finished=moment_or_none(finished),
        reported=bool(reported),
    )
    try:
        return replace(
            plain,
            address=Address.parse(address),
            file=file,
            state=OutgoingState(state),
            buttons=parse_buttons(buttons),
            receipts=tuple(_receipts.decode_lines(receipts)),
        )
    except ValueError as problem:
        return replace(plain, error=unreadable(problem))


class Outbox(Operations):
    enqueue = Write(enqueue)
    data = Read(data)
    claim = Write(claim)
    progress = Write(progress)
    retry = Write(retry)
    delivered = Write(delivered)
    undelivered = Write(undelivered)
    asked_to_wait = Read(asked_to_wait)
    recover = Write(recover)
    troubled = Read(troubled)
    reported = Write(report)
    waiting = Read(waiting)
    due = Read(due)
    get = Read(get)
    sent_as = Read(sent_as)
    prune = Write(prune)
    progress_after = Read(bubbles.progress_after)
    begin_bubble = Write(bubbles.begin)
    bubble = Write(bubbles.put)
    begun_bubbles = Read(bubbles.begun)
    bubbles = Read(bubbles.shown)

    async def sent(self, outgoing: Outgoing, receipt: str = "") -> bool:
        """Mark it as sent. `receipt` is that of the last part, unless already recorded."""
        return await self._engine.write(finish, outgoing, OutgoingState.SENT, receipt=receipt)

    async def failed(self, outgoing: Outgoing, reason: str) -> bool:
        """Mark it as undeliverable."""
        return await self._engine.write(finish, outgoing, OutgoingState.FAILED, error=reason)

    async def uncertain(self, outgoing: Outgoing, reason: str) -> bool:
        """Mark it as possibly delivered: it must not be sent again."""
        return await self._engine.write(finish, outgoing, OutgoingState.UNCERTAIN, error=reason)
