"""The outbox: messages to send, in order per address, never dropped silently.

queued ──claim──▶ sending ──▶ sent ─────▶ failed      the platform took it, and did not deliver it
  ▲                 │ │ └───▶ uncertain   it may have arrived, and cannot be sent again safely
  └─────retry───────┘ └─────▶ failed      it cannot be delivered

A message that is too long for its platform is sent in parts. The receipt of each part is stored as
it arrives, so that another process can resume after the last part that arrived.

A platform may report whether a part was delivered before its sender knows its receipt. The event is
stored beside the outbox, and applied when the message is finished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.core.address import Address, Platform
from segue.core.session import SECOND
from segue.core.text import short_reason
from segue.store import bubbles
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

SEND_TIMEOUT = 60.0
"""How long one send may take before another process recovers it."""

MAX_ATTEMPTS = 20
"""How often to try. With growing pauses, this takes more than an hour. It also stops a message that
crashes every gateway that sends it."""

LONG_PAUSE = 180.0
"""A platform that asks for a longer pause, in seconds, is a problem for its user."""

UNCERTAIN = "The gateway stopped while it was being sent, so it may or may not have arrived."

FORGOTTEN = (
    "It was not confirmed, and cannot be sent again safely after so long, so it may or may not have"
    " arrived."
)

_WINDOW = 64
"""How many messages one query reads. A platform with as many waiting is crowded."""
_ROUNDS = 8
"""How often as many addresses are searched for one that is ready."""

_PRUNED = 500
"""How many old messages one transaction deletes."""

OFFER = "This may not have reached you:"

_DELIVERED = "delivered"
_UNDELIVERED = "undelivered"
_OPEN = "state IN ('queued', 'sending')"
"""SQL: a message waits to be sent, or is being sent."""
_BEGUN = "(state = 'sending' OR (state = 'queued' AND receipts <> ''))"
"""SQL: a part of a message that is open was sent, or is being sent."""
_HAS_LINE = "replace(receipts, :line, '') <> receipts"
"""SQL: whether a part has the receipt that `_line` encoded."""

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


_COLUMNS = (
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


@writes
def claim(
    tx: Tx,
    platforms: Collection[Platform],
    *,
    limit: int = 16,
    seconds: float = SEND_TIMEOUT,
    served: dict[Platform, str] | None = None,
    key_ages: Mapping[Platform, timedelta] | None = None,
) -> tuple[Outgoing, ...]:
    """Claim the next messages to send, at most one per address.

    While few messages wait on a platform, the oldest come first. When many wait, half of the room
    goes to the newest ones, so that a new conversation does not wait for them. The other half goes
    to each address in turn. `served` holds the address whose turn was last on each platform, and is
    updated.

    A message whose row is invalid fails here, and is returned in that state. So is one that may
    have arrived longer ago than its platform remembers keys, as `key_ages` says: it is uncertain.
    """
    served = {} if served is None else served
    newest = _newest(tx, platforms) if platforms else []
    waiting = Counter(head.platform for head in newest)
    crowded = [platform for platform in platforms if waiting[platform] >= _WINDOW]
    ready = dict.fromkeys(head.no for head in newest if head.is_ready)
    if crowded:
        wanted = list(islice(ready, limit // 2))
        for platform in crowded:
            wanted += _by_turn(tx, platform, limit - len(wanted), served, exclude=set(wanted))
        wanted = list(dict.fromkeys([*wanted, *ready]))[:limit]
    else:
        wanted = sorted(ready)[:limit]
    # In order of their numbers, so that two gateways cannot wait for each other.
    claimed = (
        tx.row(
            "UPDATE outbox SET state = 'sending', attempt = attempt + 1, process = :process,"
            f" until = :until WHERE no = :no AND state = 'queued' RETURNING {_COLUMNS}",
            process=tx.process,
            until=tx.after(seconds),
            no=no,
        )
        for no in sorted(wanted)
    )
    ages: Mapping[Platform, timedelta] = {} if key_ages is None else key_ages
    taken = tuple(_aged(tx, _outgoing(row), ages) for row in claimed if row)
    for outgoing in taken:
        if outgoing.state is not OutgoingState.SENDING:
            finish(tx, outgoing, outgoing.state, error=outgoing.error or "")
            # `finish` cannot find the messages behind it if its address is unreadable.
            tx.nudge(Topic.OUTBOX)
    return taken


def _aged(tx: Tx, outgoing: Outgoing, ages: Mapping[Platform, timedelta]) -> Outgoing:
    """The message, as uncertain if its platform may have forgotten its key."""
    age = ages.get(outgoing.address.platform)
    first = outgoing.unconfirmed
    if outgoing.state is not OutgoingState.SENDING or first is None or age is None:
        return outgoing
    if _is_within(tx, micros(first), age):
        return outgoing
    return replace(outgoing, state=OutgoingState.UNCERTAIN, error=FORGOTTEN)


class _Head(NamedTuple):
    """The first message that is open at an address, and not held: the next one to send there."""

    platform: Platform
    address: str
    no: int
    """0 if all are held."""
    is_ready: bool


# The first one by the order of an index. For a minimum, PostgreSQL may read all that wait there, if
# its statistics are older than they are.
_HEAD = (
    "SELECT l.platform, l.address, coalesce(h.no, 0), h.no IS NOT NULL AND h.state = 'queued'"
    " AND h.not_before <= :ticks FROM ({})"
    " l LEFT JOIN outbox h ON h.no = (SELECT e.no FROM outbox e WHERE e.platform = l.platform"
    f" AND e.address = l.address AND e.{_OPEN} AND e.held = 0 ORDER BY e.no LIMIT 1) ORDER BY l.n"
)


def _newest(tx: Tx, platforms: Collection[Platform]) -> list[_Head]:
    """The next message at the address of each of the newest messages, newest first."""
    each = (
        "SELECT * FROM (SELECT platform, address, -no AS n FROM outbox"
        f" WHERE platform = '{platform.value}' AND state = 'queued' ORDER BY no DESC LIMIT :most) w"
        for platform in platforms
    )
    rows = tx.rows(_HEAD.format(" UNION ALL ".join(each)), ticks=tx.ticks, most=_WINDOW)
    return [_Head(Platform(platform), *rest) for platform, *rest in rows]


def _by_turn(
    tx: Tx, platform: Platform, limit: int, served: dict[Platform, str], *, exclude: Collection[int]
) -> list[int]:
    """The next message at each of the addresses whose turn it is, without the numbers in
    `exclude`."""
    found: list[int] = []
    for _ in range(_ROUNDS):
        after = served.get(platform, "")
        lanes = _lanes(tx, platform, after)
        for head in lanes:
            if len(found) >= limit:
                return found
            served[platform] = head.address
            if head.is_ready and head.no not in exclude:
                found.append(head.no)
        if len(lanes) < _WINDOW:  # the end: go on with the first address
            served[platform] = ""
            if not after:
                break
    return list(dict.fromkeys(found))


def _lanes(tx: Tx, platform: Platform, after: str) -> list[_Head]:
    """The next message at each of the first addresses after `after`, in the order of the keys."""
    following = (
        f"(SELECT o.address FROM outbox o WHERE o.platform = :platform AND o.{_OPEN}"
        " AND o.address > {} ORDER BY o.address LIMIT 1)"
    )
    lanes = (
        f"WITH RECURSIVE lanes(address, n) AS (SELECT {following.format(':after')}, 1"
        f" UNION ALL SELECT {following.format('lanes.address')}, n + 1 FROM lanes"
        " WHERE lanes.address IS NOT NULL AND n < :most)"
        " SELECT :platform AS platform, address, n FROM lanes WHERE address IS NOT NULL"
    )
    rows = tx.rows(
        _HEAD.format(lanes), ticks=tx.ticks, platform=platform.value, after=after, most=_WINDOW
    )
    return [_Head(platform, *rest) for _, *rest in rows]


@writes
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
        f"{change}, until = :until, unconfirmed = NULL",
        line=_line(receipt),
        until=tx.after(SEND_TIMEOUT),
    )


@writes
def sent(tx: Tx, outgoing: Outgoing, receipt: str = "") -> bool:
    """Mark it as sent. `receipt` is that of the last part, unless already recorded."""
    return finish(tx, outgoing, OutgoingState.SENT, receipt=receipt)


@writes
def failed(tx: Tx, outgoing: Outgoing, reason: str) -> bool:
    """Mark it as undeliverable."""
    return finish(tx, outgoing, OutgoingState.FAILED, error=reason)


@writes
def uncertain(tx: Tx, outgoing: Outgoing, reason: str) -> bool:
    """Mark it as possibly delivered: it must not be sent again."""
    return finish(tx, outgoing, OutgoingState.UNCERTAIN, error=reason)


def finish(
    tx: Tx, outgoing: Outgoing, state: OutgoingState, *, receipt: str = "", error: str = ""
) -> bool:
    tx.nudge(Topic.SENT)
    bubbles.become(tx, outgoing.address, receipt)
    changed = _end_attempt(
        tx,
        outgoing,
        "state = :state, receipts = receipts || :line, error = :error, finished = :now",
        state=state.value,
        line=_line(receipt) if receipt else "",
        error=short_reason(text(error)) if error else None,
        now=tx.now,
    )
    has_next, has_events = tx.one(
        f"SELECT EXISTS (SELECT 1 FROM outbox WHERE address = :key AND {_OPEN}),"
        " EXISTS (SELECT 1 FROM delivery_events WHERE address = :key)",
        key=outgoing.address.key,
    )
    if changed and has_events:
        _apply_events(tx, outgoing.address)
    if has_next:  # the next one can be sent now
        tx.nudge(Topic.OUTBOX)
    return changed


@writes
def undelivered(tx: Tx, address: Address, receipt: str, reason: str) -> bool:
    """Fail a message that was sent, because its platform did not deliver it after all. Return
    whether that changed a message. If a message is being sent there, or the receipt of one is not
    known, it may be the one: the event is kept until a message there is finished."""
    line = _line(receipt)
    which = f"address = :key AND receipts <> '' AND state IN ('sent', 'uncertain') AND {_HAS_LINE}"
    if _fail(tx, which, reason, key=address.key, line=line):
        return True
    (is_unfinished,) = tx.one(
        f"SELECT EXISTS (SELECT 1 FROM outbox WHERE address = :key AND {_BEGUN}"
        f" AND (state = 'sending' OR {_HAS_LINE})) OR EXISTS (SELECT 1 FROM outbox"
        " WHERE address = :key AND state = 'uncertain' AND offered = 0)",
        key=address.key,
        line=line,
    )
    if is_unfinished:
        _store_event(tx, address, receipt, _UNDELIVERED, reason)
    return False


@writes
def delivered(tx: Tx, address: Address, receipt: str, key: str) -> bool:
    """Take the receipt of a part whose fate was unknown: it has arrived. Its message is queued, for
    the parts that follow, unless it was offered again already. `key` is the message's, with the
    part's number. Return whether that changed a message. If the message is being sent, the event is
    kept until it is finished."""
    name, _, number = key.rpartition("/")
    sql = "SELECT no, state, receipts FROM outbox WHERE address = :at AND key = :name"
    row = tx.row(f"{sql} {tx.for_update}", at=address.key, name=name)
    if row is None or not number.isdecimal() or row[2].count("\n") != int(number):
        return False
    no, state, _ = row
    if state == "sending":
        _store_event(tx, address, receipt, _DELIVERED, key)
        return False
    changed = tx.change(
        "UPDATE outbox SET state = 'queued', receipts = receipts || :line, error = NULL,"
        " finished = NULL, unconfirmed = NULL"
        " WHERE no = :no AND state = 'uncertain' AND offered = 0",
        line=_line(receipt),
        no=no,
    )
    if changed:
        tx.nudge(Topic.OUTBOX)
    return changed == 1


def _store_event(tx: Tx, address: Address, receipt: str, outcome: str, detail: str) -> None:
    tx.insert(
        "delivery_events",
        conflict="DO NOTHING",
        address=address.key,
        receipt=text(receipt),
        outcome=outcome,
        detail=text(detail),
    )


def _apply_events(tx: Tx, address: Address) -> None:
    """Apply the events that came while a message was being sent to this address."""
    events = tx.rows(
        "DELETE FROM delivery_events WHERE address = :key RETURNING no, receipt, outcome, detail",
        key=address.key,
    )
    # An arrival says which message has the receipt, whatever the order of the events was.
    for _, receipt, outcome, detail in sorted(events, key=lambda event: (event[2], event[0])):
        apply = delivered if outcome == _DELIVERED else undelivered
        apply(tx, address, receipt, detail)


@writes
def retry(
    tx: Tx,
    outgoing: Outgoing,
    reason: str,
    *,
    seconds: float,
    asked: float | None = None,
    arrived: bool = False,
) -> bool:
    """Queue it again after a failed attempt, to be sent in `seconds`. Later messages to that
    address wait. `asked` is the pause that the platform itself asked for, which may be longer.
    `arrived`: whether the attempt may have arrived all the same."""
    tx.nudge(Topic.SENT)
    change = "state = 'queued', error = :error, not_before = :after, asked = :asked"
    values: dict[str, Any] = {
        "error": short_reason(text(reason)),
        "after": tx.after(seconds),
        "asked": 0 if asked is None else tx.after(asked),
    }
    if arrived:
        change += f", {_UNCONFIRMED}"
        values["ticks_began"] = _ticks_began(tx)
    return _end_attempt(tx, outgoing, change, **values)


_UNCONFIRMED = "unconfirmed = coalesce(unconfirmed, :ticks_began + until)"
"""SQL: the current attempt may have arrived. `:ticks_began` is `_ticks_began`."""


def _ticks_began(tx: Tx) -> int:
    """What added to the end of an attempt's time, in ticks, is the time when it began."""
    return tx.now - tx.ticks - round(SEND_TIMEOUT * SECOND)


def give_up(tx: Tx, key: str, reason: str) -> bool:
    """Fail a message that waits to be sent, and of which nothing was sent. Return False if there is
    none with that key."""
    which = "key = :key AND state = 'queued' AND receipts = ''"
    return _fail(tx, which, reason, key=key) == 1


def decide(tx: Tx, key: str | None) -> None:
    """Record that the fate of the report with this key, if it has one, needs no attention."""
    tx.change("UPDATE outbox SET report = 0 WHERE key = :key", key=key)


@writes
def withdraw(tx: Tx, key: str) -> bool:
    """Delete a message that waits to be sent for the first time, or is held. Return False if there
    is none with that key."""
    sql = "DELETE FROM outbox WHERE key = :key AND state = 'queued' AND attempt = 0"
    return tx.change(sql, key=key) == 1


def _fail(tx: Tx, which: str, reason: str, **values: str) -> int:
    """Fail the messages that the SQL condition `which` names. Return how many there were."""
    sql = f"UPDATE outbox SET state = 'failed', error = :error, finished = :now WHERE {which}"
    changed = tx.change(sql, error=short_reason(text(reason)), now=tx.now, **values)
    if changed:
        tx.nudge(Topic.SENT)
    return changed


@writes
def hold(tx: Tx, outgoing: Outgoing, reason: str, *, seconds: float) -> bool:
    """Let it wait until its owner acts, or try again in `seconds`. Later messages to that address
    do not wait, because one of them may say what to do."""
    tx.nudge(Topic.SENT)
    tx.nudge(Topic.OUTBOX)
    return _end_attempt(
        tx,
        outgoing,
        "state = 'queued', held = 1, error = :error, not_before = :after, attempt = 0",
        error=short_reason(text(reason)),
        after=tx.after(seconds),
    )


@writes
def release(tx: Tx, platform: Platform | None = None) -> None:
    """Queue the messages that were held for long enough, or all that are held on a platform."""
    which = "not_before <= :ticks" if platform is None else "platform = :platform"
    changed = tx.change(
        f"UPDATE outbox SET held = 0, not_before = 0 WHERE held = 1 AND {which}",
        ticks=tx.ticks,
        platform=platform and platform.value,
    )
    if changed:
        tx.nudge(Topic.OUTBOX)


@reads
def asked_to_wait(tx: Tx, address: Address) -> tuple[float, str]:
    """Seconds of the pause that the platform asked for there, or 0, and the reason."""
    row = tx.row(
        f"SELECT asked, error FROM outbox WHERE address = :key AND {_OPEN} AND state = 'queued'"
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


def _end_attempt(tx: Tx, outgoing: Outgoing, change: str, **values: Any) -> bool:
    return _change(tx, outgoing, f"{change}, process = NULL, until = NULL", **values)


def _change(tx: Tx, outgoing: Outgoing, change: str, **values: Any) -> bool:
    """Change the row if this is still the current attempt, and made by this process."""
    sql = (
        f"UPDATE outbox SET {change}"
        " WHERE no = :no AND state = 'sending' AND attempt = :attempt AND process = :process"
    )
    changed = tx.change(sql, no=outgoing.no, attempt=outgoing.attempt, process=tx.process, **values)
    return changed == 1


@writes
def recover(
    tx: Tx,
    repeatable: Collection[Platform],
    *,
    platforms: Collection[Platform] | None = None,
    alive: Collection[str] | None = None,
    exclude: Collection[int] = (),
    key_ages: Mapping[Platform, timedelta] | None = None,
) -> tuple[Outgoing, ...]:
    """Recover what dead processes were sending, and return the messages that are now uncertain.

    A message is queued again if its platform is `repeatable` (it accepts a key), or if it replaces
    a live bubble. Otherwise it becomes uncertain. The receipts of parts that arrived are kept.

    `platforms` of None means all. `alive` names the only processes that may still be sending, if
    the caller knows; otherwise a process that hangs keeps its messages for SEND_TIMEOUT. `exclude`
    are the numbers of messages that the caller itself is sending. `key_ages` says how long a
    platform remembers a key, if it does not remember all: a message that was sent longer ago
    becomes uncertain.
    """
    ages: Mapping[Platform, timedelta] = {} if key_ages is None else key_ages
    among = listed(Platform if platforms is None else platforms)
    # A message that replaces a bubble is an edit, and can be repeated on any platform.
    rows = tx.rows(
        "SELECT no, process, until, platform, attempt, unconfirmed, receipts = '' AND file IS NULL"
        " AND EXISTS (SELECT 1 FROM bubbles b"
        " WHERE b.platform = o.platform AND b.address = o.address AND b.receipt <> '')"
        f" FROM outbox o WHERE state = 'sending' AND platform IN ({among}) {tx.for_update}"
    )
    lost: list[Outgoing] = []
    for no, process, ends, platform, attempt, unconfirmed, is_edit in rows:
        gone = tx.dead(process) or (alive is not None and process not in alive)
        if no in exclude or (tx.ticks < ends and not gone):
            continue
        where = Platform(platform)
        first = unconfirmed
        if first is None and ends:  # not after a reboot, when ticks start again
            first = ends + _ticks_began(tx)
        is_keyed = where in repeatable and _is_within(tx, first, ages.get(where))
        values: dict[str, Any] = {}
        if (is_edit or is_keyed) and attempt < MAX_ATTEMPTS:
            change = "state = 'queued', unconfirmed = :first"
            values["first"] = first
        else:
            change = "state = 'uncertain', error = :reason, finished = :now"
            values["reason"] = UNCERTAIN
            values["now"] = tx.now
        row = tx.row(
            f"UPDATE outbox SET {change}, process = NULL, until = NULL"
            f" WHERE no = :no RETURNING {_COLUMNS}",
            no=no,
            **values,
        )
        tx.nudge(Topic.OUTBOX)
        tx.nudge(Topic.SENT)
        if row is None:
            continue
        recovered = _outgoing(row)
        if recovered.state is OutgoingState.UNCERTAIN:
            lost.append(recovered)
        _apply_events(tx, recovered.address)
    return tuple(lost)


def _is_within(tx: Tx, first: int | None, age: timedelta | None) -> bool:
    """Whether the platform still knows the key of a message whose first attempt began then. Not if
    that time is unknown, or later than now because the clock was set back."""
    if age is None:
        return True
    if first is None:
        return False
    return 0 <= tx.now - first <= round(age.total_seconds() * SECOND)


@reads
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
    sql = f"SELECT EXISTS (SELECT 1 FROM outbox WHERE address = :key AND {_OPEN})"
    return bool(tx.one(sql, key=address.key)[0])


@reads
def is_due(tx: Tx, platforms: Collection[Platform]) -> bool:
    """Whether a message on these platforms is being sent or could be sent now."""
    (found,) = tx.one(
        f"SELECT EXISTS (SELECT 1 FROM outbox WHERE {_OPEN}"
        f" AND held = 0 AND not_before <= :ticks AND platform IN ({listed(platforms)}))",
        ticks=tx.ticks,
    )
    return bool(found)


@reads
def get(tx: Tx, key: str) -> Outgoing | None:
    row = tx.row(f"SELECT {_COLUMNS} FROM outbox WHERE key = :key", key=key)
    return _outgoing(row) if row else None


@reads
def asking(tx: Tx, key: str) -> tuple[Outgoing, ...]:
    """The messages with buttons that ask one question: the one with this key, and those whose keys
    continue it after a colon."""
    selected = f"SELECT {_COLUMNS} FROM outbox WHERE buttons IS NOT NULL AND"
    rows = tx.rows(f"{selected} key = :key", key=key)
    more = f"{key}:"
    rows += tx.rows(f"{selected} {tx.starting('key')}", start=more, beyond=beyond(more))
    return tuple(map(_outgoing, sorted(rows)))


@reads
def sent_as(tx: Tx, address: Address, receipt: str) -> Outgoing | None:
    """The message of which a part has this receipt, unless it was pruned."""
    row = tx.row(
        f"SELECT {_COLUMNS} FROM outbox"
        f" WHERE address = :address AND receipts <> '' AND {_HAS_LINE} ORDER BY no DESC LIMIT 1",
        address=address.key,
        line=_line(receipt),
    )
    return None if row is None else _outgoing(row)


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
        f" WHERE o.key = uploads.key AND o.{_OPEN})"
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


def _line(receipt: str) -> str:
    """Encode a receipt to append it to the column."""
    return "\n" + msgspec.json.encode(text(receipt)).decode()


def _outgoing(row: Row) -> Outgoing:
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
