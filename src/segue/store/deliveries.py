"""Deliveries: what a gateway does with the messages in the outbox.

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
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import replace

from segue.core.address import Address, Platform
from segue.core.session import SECOND
from segue.core.text import short_reason
from segue.store import bubbles, outbox
from segue.store.base import Topic, Tx, writes
from segue.store.outbox import Outgoing, OutgoingState
from segue.store.values import listed, micros, text

SEND_TIMEOUT = 60.0
"""How long one send may take before another process recovers it."""
MAX_ATTEMPTS = 20
"""How often to try. With growing pauses, this takes more than an hour. It also stops a message that
crashes every gateway that sends it."""
UNCERTAIN = "The gateway stopped while it was being sent, so it may or may not have arrived."
FORGOTTEN = (
    "It was not confirmed, and cannot be sent again safely after so long, so it may or may not have"
    " arrived."
)
_WINDOW = 64
"""How many messages one query reads. A platform with as many waiting is crowded."""
_ROUNDS = 8
"""How often as many addresses are searched for one that is ready."""
_DELIVERED = "delivered"
_UNDELIVERED = "undelivered"
_BEGUN = "(state = 'sending' OR (state = 'queued' AND receipts <> ''))"
"""SQL: a part of a message that is open was sent, or is being sent."""


# Claims


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
            f" until = :until WHERE no = :no AND state = 'queued' RETURNING {outbox.COLUMNS}",
            process=tx.process,
            until=tx.after(seconds),
            no=no,
        )
        for no in sorted(wanted)
    )
    ages: Mapping[Platform, timedelta] = {} if key_ages is None else key_ages
    taken = tuple(_aged(tx, outbox.parse_row(row), ages) for row in claimed if row)
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
    f" AND e.address = l.address AND e.{outbox.OPEN} AND e.held = 0 ORDER BY e.no LIMIT 1)"
    " ORDER BY l.n"
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
        f"(SELECT o.address FROM outbox o WHERE o.platform = :platform AND o.{outbox.OPEN}"
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


# Attempts


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
        line=outbox.receipt_line(receipt),
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
        line=outbox.receipt_line(receipt) if receipt else "",
        error=short_reason(text(error)) if error else None,
        now=tx.now,
    )
    has_next, has_events = tx.one(
        f"SELECT EXISTS (SELECT 1 FROM outbox WHERE address = :key AND {outbox.OPEN}),"
        " EXISTS (SELECT 1 FROM delivery_events WHERE address = :key)",
        key=outgoing.address.key,
    )
    if changed and has_events:
        _apply_events(tx, outgoing.address)
    if has_next:  # the next one can be sent now
        tx.nudge(Topic.OUTBOX)
    return changed


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


# Reports of the platform


@writes
def undelivered(tx: Tx, address: Address, receipt: str, reason: str) -> bool:
    """Fail a message that was sent, because its platform did not deliver it after all. Return
    whether that changed a message. If a message is being sent there, or the receipt of one is not
    known, it may be the one: the event is kept until a message there is finished."""
    line = outbox.receipt_line(receipt)
    which = (
        "address = :key AND receipts <> '' AND state IN ('sent', 'uncertain')"
        f" AND {outbox.HAS_LINE}"
    )
    if outbox.fail(tx, which, reason, key=address.key, line=line):
        return True
    (is_unfinished,) = tx.one(
        f"SELECT EXISTS (SELECT 1 FROM outbox WHERE address = :key AND {_BEGUN}"
        f" AND (state = 'sending' OR {outbox.HAS_LINE})) OR EXISTS (SELECT 1 FROM outbox"
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
        line=outbox.receipt_line(receipt),
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


# Recovery


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
            f" WHERE no = :no RETURNING {outbox.COLUMNS}",
            no=no,
            **values,
        )
        tx.nudge(Topic.OUTBOX)
        tx.nudge(Topic.SENT)
        if row is None:
            continue
        recovered = outbox.parse_row(row)
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
