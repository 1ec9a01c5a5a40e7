"""The outbox: messages to send, in order per address, never dropped silently.

`deliveries` sends them. What became of each is read here.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.core.address import Address, Platform
from segue.core.session import SECOND
from segue.core.text import short_reason
from segue.store.base import Row, Topic, Transactions, Tx, reads, writes
from segue.store.values import (
    Buttons,
    beyond,
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

LONG_PAUSE = 180.0
"""A platform that asks for a longer pause, in seconds, is a problem for its user."""
_PRUNED = 500
"""How many old messages one transaction deletes."""
OFFER = "This may not have reached you:"
OPEN = "state IN ('queued', 'sending')"
"""SQL: a message waits to be sent, or is being sent."""
HAS_LINE = "replace(receipts, :line, '') <> receipts"
"""SQL: whether a part has the receipt that `receipt_line` encoded."""
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
    unconfirmed: datetime | None = None
    """When the first attempt began that may have arrived. None if there was none."""


class PlatformPause(Struct, frozen=True, kw_only=True):
    """A platform takes no messages for some time."""

    platform: Platform
    until: datetime | None
    """None if only its user can end it."""
    reason: str
    """As the platform says, with what to do."""


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
    is_report: bool = False
    """Whether it is the report of a job, for which another place may stand in."""


COLUMNS = (
    "no, key, address, session_id, body, state, attempt, buttons, receipts, error, queued,"
    " finished, reported, file, unconfirmed"
)


@writes
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
        report=int(draft.is_report),
        queued=tx.now,
    )
    if queued:
        if draft.data:
            tx.insert("uploads", key=draft.key, data=draft.data)
        tx.nudge(Topic.OUTBOX)
    return queued is not None


@reads
def data(tx: Tx, outgoing: Outgoing) -> bytes:
    """The contents of the attached file. Empty if they are no longer stored."""
    row = tx.row("SELECT data FROM uploads WHERE key = :key", key=outgoing.key)
    return bytes(row[0]) if row else b""


def give_up(tx: Tx, key: str, reason: str) -> bool:
    """Fail a message that waits to be sent, and of which nothing was sent. Return False if there is
    none with that key."""
    which = "key = :key AND state = 'queued' AND receipts = ''"
    return fail(tx, which, reason, key=key) == 1


def decide(tx: Tx, key: str | None) -> None:
    """Record that the fate of the report with this key, if it has one, needs no attention."""
    tx.change("UPDATE outbox SET report = 0 WHERE key = :key", key=key)


@writes
def withdraw(tx: Tx, key: str) -> bool:
    """Delete a message that waits to be sent for the first time, or is held. Return False if there
    is none with that key."""
    sql = "DELETE FROM outbox WHERE key = :key AND state = 'queued' AND attempt = 0"
    return tx.change(sql, key=key) == 1


def fail(tx: Tx, which: str, reason: str, **values: str) -> int:
    """Fail the messages that the SQL condition `which` names. Return how many there were."""
    sql = f"UPDATE outbox SET state = 'failed', error = :error, finished = :now WHERE {which}"
    changed = tx.change(sql, error=short_reason(text(reason)), now=tx.now, **values)
    if changed:
        tx.nudge(Topic.SENT)
    return changed


@reads
def asked_to_wait(tx: Tx, address: Address) -> tuple[float, str]:
    """Seconds of the pause that the platform asked for there, or 0, and the reason."""
    row = tx.row(
        f"SELECT asked, error FROM outbox WHERE address = :key AND {OPEN} AND state = 'queued'"
        " AND asked > 0 AND asked > :ticks AND not_before > 0 ORDER BY asked DESC LIMIT 1",
        key=address.key,
        ticks=tx.ticks,
    )
    if row is None:
        return 0.0, ""
    until, error = row
    return (until - tx.ticks) / SECOND, error or ""


@reads
def paused(tx: Tx) -> tuple[PlatformPause, ...]:
    """The long pauses that platforms asked for, one for each platform: the one that ends last. And
    for each platform, why messages are held there."""
    rows = tx.rows(
        "SELECT platform, asked, error FROM outbox"
        " WHERE state IN ('queued', 'sending') AND asked > 0 AND asked > :soon"
        " AND not_before > 0 ORDER BY asked",  # 0 after a reboot, when ticks start again
        soon=tx.after(LONG_PAUSE),
    )
    held = tx.rows("SELECT platform, error FROM outbox WHERE held = 1 ORDER BY no")
    longest = {platform: (until, error) for platform, until, error in rows}
    return tuple(
        PlatformPause(
            platform=Platform(platform),
            until=moment(tx.now + until - tx.ticks),
            reason=error or "",
        )
        for platform, (until, error) in sorted(longest.items())
    ) + tuple(
        PlatformPause(platform=Platform(platform), until=None, reason=error or "")
        for platform, error in dict(held).items()
    )


@reads
def troubled(tx: Tx, *, reported: bool | None = None, limit: int = 50) -> tuple[Outgoing, ...]:
    """Failed and uncertain messages, newest first: all of them, or only those that were (or
    were not) reported in their session."""
    # Messages without a session cannot be reported, and must not crowd out the rest.
    only = "" if reported is None else f" AND reported = {int(reported)} AND session_id IS NOT NULL"
    rows = tx.rows(
        f"SELECT {COLUMNS} FROM outbox WHERE state IN ('failed', 'uncertain'){only}"
        " ORDER BY no DESC LIMIT :limit",
        limit=limit,
    )
    return tuple(map(parse_row, rows))


@writes
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


@reads
def is_waiting(tx: Tx, address: Address) -> bool:
    """Whether a message to this address is queued or being sent."""
    sql = f"SELECT EXISTS (SELECT 1 FROM outbox WHERE address = :key AND {OPEN})"
    return bool(tx.one(sql, key=address.key)[0])


@reads
def is_due(tx: Tx, platforms: Collection[Platform]) -> bool:
    """Whether a message on these platforms is being sent or could be sent now."""
    (found,) = tx.one(
        f"SELECT EXISTS (SELECT 1 FROM outbox WHERE {OPEN}"
        f" AND held = 0 AND not_before <= :ticks AND platform IN ({listed(platforms)}))",
        ticks=tx.ticks,
    )
    return bool(found)


@reads
def get(tx: Tx, key: str) -> Outgoing | None:
    row = tx.row(f"SELECT {COLUMNS} FROM outbox WHERE key = :key", key=key)
    return parse_row(row) if row else None


@reads
def asking(tx: Tx, key: str) -> tuple[Outgoing, ...]:
    """The messages with buttons that ask one question: the one with this key, and those whose keys
    continue it after a colon."""
    selected = f"SELECT {COLUMNS} FROM outbox WHERE buttons IS NOT NULL AND"
    rows = tx.rows(f"{selected} key = :key", key=key)
    more = f"{key}:"
    rows += tx.rows(f"{selected} {tx.starting('key')}", start=more, beyond=beyond(more))
    return tuple(map(parse_row, sorted(rows)))


@reads
def sent_as(tx: Tx, address: Address, receipt: str) -> Outgoing | None:
    """The message of which a part has this receipt, unless it was pruned."""
    row = tx.row(
        f"SELECT {COLUMNS} FROM outbox"
        f" WHERE address = :address AND receipts <> '' AND {HAS_LINE} ORDER BY no DESC LIMIT 1",
        address=address.key,
        line=receipt_line(receipt),
    )
    return None if row is None else parse_row(row)


async def prune(store: Transactions, before: datetime) -> int:
    """Delete messages that were sent before this time, and the files of finished ones. Return how
    many messages were deleted."""
    await _prune_files(store)
    deleted = 0
    while some := await _prune(store, before):
        deleted += some
    return deleted


@writes
def _prune_files(tx: Tx) -> None:
    """Delete the files of finished messages."""
    tx.change(
        "DELETE FROM uploads WHERE NOT EXISTS (SELECT 1 FROM outbox o"
        f" WHERE o.key = uploads.key AND o.{OPEN})"
    )


@writes
def _prune(tx: Tx, before: datetime) -> int:
    """Delete some of the messages that were sent before this time."""
    rows = tx.rows(
        "SELECT no FROM outbox WHERE state = 'sent' AND finished < :before"
        " ORDER BY finished, no LIMIT :most",
        before=micros(before),
        most=_PRUNED,
    )
    tx.change_many(
        "DELETE FROM outbox WHERE no = :no AND state = 'sent'", [{"no": no} for (no,) in rows]
    )
    return len(rows)


def receipt_line(receipt: str) -> str:
    """Encode a receipt to append it to the column."""
    return "\n" + msgspec.json.encode(text(receipt)).decode()


def parse_row(row: Row) -> Outgoing:
    """Return the message in `row`. If the row is invalid, return a failed message without the
    invalid values: one bad row must not keep the others from being read."""
    no, key, address, session_id, body, state, attempt, *rest = row
    buttons, receipts, error, queued, finished, reported, file, unconfirmed = rest
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
        unconfirmed=moment_or_none(unconfirmed),
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
