"""The receiving side of a handoff: return to the session's thread or open one, let the agent say
there what it was working on, and then move the session in one transaction.

Nothing moves before that transaction: on any error the session stays where it was. Each step is
recorded, so that another gateway can resume if this one dies: it reuses the thread that was opened
and the reply that the agent gave.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from datetime import datetime, timedelta
from math import ceil

from msgspec import Struct

from segue.core import provenance
from segue.core.address import Address, Platform
from segue.core.errors import (
    ConnectFailed,
    DeliveryFailed,
    PlatformError,
    SessionNotFound,
    StoreError,
    UserError,
    no_home_channel,
)
from segue.core.session import Session
from segue.core.text import clock_time, one_line
from segue.handoffs import greeting
from segue.handoffs import queries as handoffs
from segue.handoffs.greeting import Reply
from segue.handoffs.queries import LEASE_SECONDS
from segue.handoffs.values import Handoff, Step
from segue.platforms.base import Adapter
from segue.store import (
    Store,
    Topic,
    Tx,
    bindings,
    doors,
    gateways,
    outbox,
    owners,
    page_sessions,
    retries,
    sessions,
    transcripts,
)
from segue.store.doors import Door
from segue.store.gateways import LinkState
from segue.store.outbox import Draft, Outgoing, OutgoingState
from segue.store.page_sessions import SessionActivity
from segue.store.retries import ClaimLost, claim_heartbeat
from segue.system import backoff
from segue.turns import Place, Turns

POLL_SECONDS = 1.0
"""Seconds between polls when there is no wake-up: a gateway that dies does not send one."""
LOOK_ATTEMPTS = 3
"""How often to try to find out who can read the chat."""
FIRST_PAUSE = 0.2
MAX_PAUSE = 1.0
OPEN_ATTEMPTS = 3
"""How often to try to open a thread."""
INVITE_ATTEMPTS = 5
"""How often to try to add the owner to a thread."""
REPLY_TIMEOUT = 120.0
"""How long the agent may take for its reply."""
ANSWER_TIMEOUT = 20.0
"""How long an answer to the session that is in a home channel may delay the arrival of another."""
ARRIVAL_TIMEOUT = 60.0
"""How long the first message may take to be delivered."""
OUTAGE_TIMEOUT = 5.0
"""How long the platform may be out of reach meanwhile."""
MAX_WAIT = 30.0
"""The longest pause that a platform may ask for. A longer one fails the handoff at once."""
_TITLE_LENGTH = 100
_ANSWERING = "an answer is being written there"
_MAYBE_OPENED = (
    "a gateway stopped while it was opening a thread there. An empty one may be left; another is"
    " opened only when you ask again"
)

logger = logging.getLogger(__name__)


class DeliveryContext(Struct, frozen=True, kw_only=True):
    """What a gateway provides for a handoff."""

    store: Store
    turns: Turns
    adapter: Adapter
    place: Callable[[Address], Place]
    """Returns how a turn runs at an address."""
    how_to_address: Callable[[Address], str]
    """Returns how users address the agent there, or ""."""
    check_audience: Callable[[str, Address], Awaitable[None]]
    """Raises AudienceChanged if a chat is not as private as this owner believes."""


class _Arrival(Struct, frozen=True):
    """Where a session goes, and the agent's reply there."""

    thread: Address
    reply: Reply
    confirmed: bool


class _ThreadRefused(Exception):
    """The platform does not take messages in the session's thread any more."""


# Claiming


async def claims(
    store: Store,
    platforms: Callable[[], Collection[Platform]],
    in_hand: Callable[[], Collection[int]] = tuple,
) -> AsyncGenerator[Handoff]:
    """Claim and yield every handoff to one of `platforms` that this gateway should carry out,
    forever: new ones at once, and those of a dead gateway from the step that it recorded.

    Those `in_hand` are skipped: this gateway is carrying them out, even if their claim lapsed while
    the store was unavailable. Void handoffs are failed along the way, so that their sessions can
    continue.
    """
    async with store.listen(Topic.HANDOFFS) as wake:
        woken = True
        while True:
            if woken or await handoffs.in_flight(store):
                while claim := await handoffs.claim_next(store, platforms(), exclude=in_hand()):
                    yield claim
                in_flight = await handoffs.in_flight(store)
                if any(handoff.claimed_by != store.process for handoff in in_flight):
                    await handoffs.expire(store)
            woken = await wake.wait(POLL_SECONDS)


# Delivering


async def deliver(context: DeliveryContext, claim: Handoff) -> None:
    """Carry out a handoff that this gateway has claimed.

    It ends as completed or failed (also if it was cancelled), and the store has the outcome. If
    this task is cancelled or the store fails (StoreError), the handoff stays in flight, and the
    next claim resumes it.
    """
    try:
        beat = functools.partial(handoffs.heartbeat, context.store, claim)
        async with claim_heartbeat(context.store, Topic.HANDOFFS, beat, LEASE_SECONDS / 4):
            arrival = await _prepare(context, claim)
        await _commit(context.store, claim, arrival)  # the store checks the claim itself
    except ClaimLost:
        logger.info("handoff claim lost session=%s", claim.session_id)
    except StoreError:
        raise
    except UserError as error:
        logger.warning("handoff failed session=%s: %s", claim.session_id, error)
        reason = str(error)
        await retries.until_stored(
            "handoff failure", lambda: handoffs.fail(context.store, claim, reason)
        )
    else:
        logger.info("handoff delivered session=%s platform=%s", claim.session_id, claim.platform)


async def _prepare(context: DeliveryContext, claim: Handoff) -> _Arrival:
    """Do everything but the commit."""
    if (session := await sessions.get(context.store, claim.session_id)) is None:
        raise SessionNotFound(name=claim.session_id)
    if claim.home is None:
        raise no_home_channel(claim.platform)
    await _check_audience(context, claim, claim.home, session)
    thread = claim.thread or await _find_thread(context.store, claim, claim.home)
    if thread is None:
        thread = await _open_thread(context, claim, claim.home, session)
    elif thread.thread_id is not None:  # they may have left it
        await _add_owner(context, session.owner, thread, key=claim.key)
    reply = greeting.decode_reply(claim) or await _get_reply(context, claim, session, thread)
    await _wait_for_answer(context.store, claim, session.owner, thread)
    send_recap = functools.partial(_send_recap, context, claim, session)
    try:
        confirmed = await retries.until_stored(
            "handoff recap", functools.partial(send_recap, thread)
        )
    except _ThreadRefused:  # the outbox has it, so another gateway does the same
        logger.info("handoff thread refused session=%s thread=%s", claim.session_id, thread)
        thread = await _open_thread(context, claim, claim.home, session, then=Step.DELIVERING)
        confirmed = await retries.until_stored(
            "handoff recap", functools.partial(send_recap, thread)
        )
    return _Arrival(thread, reply, confirmed)


async def _check_audience(
    context: DeliveryContext, claim: Handoff, home: Address, session: Session
) -> None:
    for attempt in range(1, LOOK_ATTEMPTS + 1):
        try:
            await context.check_audience(session.owner, home)
            return
        except DeliveryFailed as error:
            if error.after is not None:
                step = claim.step or Step.CLAIMED
                await _report_wait(context.store, claim, step, error.after, error.reason)
            if not error.retry or attempt == LOOK_ATTEMPTS:
                raise
            await asyncio.sleep(_pause(attempt, error.after))


# The thread


async def _find_thread(store: Store, claim: Handoff, home: Address) -> Address | None:
    """The thread that the session had in the chat, or None if a new one is to be opened."""
    door = None if claim.new_thread else await doors.newest(store, claim.session_id, home)
    if door is None:
        return None
    await _record_step(store, claim, Step.REPLYING, thread=door.address)
    return door.address


async def _door(store: Store, claim: Handoff, thread: Address) -> Door | None:
    """The session's door at `thread`, or None if the thread was opened for this handoff."""
    door = await doors.get(store, thread)
    return door if door is not None and door.session_id == claim.session_id else None


async def _open_thread(
    context: DeliveryContext,
    claim: Handoff,
    home: Address,
    session: Session,
    *,
    then: Step = Step.REPLYING,
) -> Address:
    """Open a new thread, or use the home channel itself where no thread can be opened. `then` is
    the next step."""
    able = context.adapter.capabilities
    if claim.step is Step.OPENING and able.threads and not able.keys:
        raise DeliveryFailed(platform=claim.platform, reason=_MAYBE_OPENED)
    await _record_step(context.store, claim, Step.OPENING)
    title = one_line(session.name, _TITLE_LENGTH)
    opening = asyncio.create_task(_create_thread(context, claim, home, title))
    try:
        thread = await _wait_for_thread(context.store, claim, opening)
    finally:
        opening.cancel()
    if thread is not None:
        await _add_owner(context, session.owner, thread, key=claim.key)
    thread = thread or home
    await _record_step(context.store, claim, then, thread=thread)
    return thread


async def _wait_for_thread(
    store: Store, claim: Handoff, opening: asyncio.Task[Address | None]
) -> Address | None:
    """Wait for the new thread.

    If the handoff is cancelled meanwhile, keep waiting, so that the thread can be notified. If this
    gateway stops, do not: the next one resumes the handoff.
    """
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        if await handoffs.heartbeat(store, claim):
            raise
        return await opening


async def _create_thread(
    context: DeliveryContext, claim: Handoff, home: Address, title: str
) -> Address | None:
    adapter = context.adapter
    for attempt in range(1, OPEN_ATTEMPTS + 1):
        try:
            return await adapter.create_handoff_thread(home, title, key=claim.key)
        except DeliveryFailed as error:
            if error.after is not None:
                await _report_wait(context.store, claim, Step.OPENING, error.after, error.reason)
            # Do not open a second thread if the first may exist, unless a key prevents duplicates.
            certain = adapter.capabilities.keys or not error.arrived
            if not (error.retry and certain) or attempt == OPEN_ATTEMPTS:
                raise
            await asyncio.sleep(_pause(attempt, error.after))
    return None


async def _add_owner(context: DeliveryContext, owner: str, thread: Address, *, key: str) -> None:
    """Make the owner a member of the thread, so that they are notified. Without that they can still
    find it, so a platform that refuses it does not fail the handoff."""
    known = await owners.identities(context.store, owner)
    users = [it.sender.user_id for it in known if it.sender.platform is thread.platform]
    attempt = 1
    while True:
        try:
            await context.adapter.invite(thread, users, key=key)
            return
        except DeliveryFailed as error:
            reason = error.reason
            can_retry = error.retry
            pause = _pause(attempt, error.after)
        except ConnectFailed as error:
            reason = str(error)
            can_retry = True
            pause = _pause(attempt, None)
        if not can_retry or pause > MAX_WAIT or attempt == INVITE_ATTEMPTS:
            logger.warning("owner not added thread=%s: %s", thread, reason)
            return
        await asyncio.sleep(pause)
        attempt += 1


def _pause(attempt: int, asked: float | None) -> float:
    """Seconds to wait after this attempt: what the platform asked for, or a moment."""
    return backoff.pause(attempt, FIRST_PAUSE, MAX_PAUSE) if asked is None else asked


async def _report_wait(
    store: Store, claim: Handoff, step: Step, seconds: float, reason: str
) -> None:
    """Show that the platform asks for a pause, or raise PlatformError if it exceeds MAX_WAIT."""
    if seconds > MAX_WAIT:
        now = datetime.now().astimezone()
        until = clock_time(now + timedelta(seconds=seconds), now)
        raise PlatformError(
            f"{claim.platform} asks to wait until {until}, longer than a handoff may take:"
            f" {reason}. The session stayed where it was. Hand it off again then."
        )
    asks = f"{claim.platform} asks to wait {ceil(seconds)} s"
    await _record_step(store, claim, step, detail=asks)


# The agent's reply


async def _get_reply(
    context: DeliveryContext, claim: Handoff, session: Session, thread: Address
) -> Reply:
    """Return the agent's reply in the thread, or the reason why there is none: an unreachable model
    must not keep the user from their session. A turn that moves with the session is the reply."""
    if claim.mid_turn:
        reply = Reply()
        await _record_step(
            context.store, claim, Step.DELIVERING, reply=greeting.encode_reply(reply)
        )
        return reply
    place = context.place(thread)
    is_back = await _door(context.store, claim, thread) is not None
    prompt = greeting.prompt(claim, thread, is_back=is_back)
    try:
        async with asyncio.timeout(REPLY_TIMEOUT):
            by = provenance.PROGRAM | provenance.OWNER  # the message for the way is in it
            turn = await context.turns.take_synthetic_turn(session.id, place, prompt, by=by)
    except TimeoutError:
        reply = Reply(trouble=f"it said nothing for {REPLY_TIMEOUT:.0f} seconds")
    except StoreError:
        raise
    except UserError as error:
        reply = Reply(trouble=str(error))
    else:
        trouble = str(turn.error) if turn.error else None
        reply = Reply(messages=turn.messages, usage=turn.usage, trouble=trouble)
    await _record_step(context.store, claim, Step.DELIVERING, reply=greeting.encode_reply(reply))
    return reply


async def _wait_for_answer(store: Store, claim: Handoff, owner: str, thread: Address) -> None:
    """If the thread is a chat in which another session answers, let it finish: its answer belongs
    before the message that sets it aside."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ANSWER_TIMEOUT), store.listen(Topic.SESSIONS) as wake:
            shown = False
            while await store.read(_is_answering, claim.session_id, owner, thread):
                if not shown:
                    await _record_step(store, claim, Step.DELIVERING, detail=_ANSWERING)
                shown = True
                await wake.wait(POLL_SECONDS)


def _is_answering(tx: Tx, session_id: str, owner: str, thread: Address) -> bool:
    """Whether another session than that with this id works in the thread. One that waits for an
    approval does not."""
    binding = bindings.get(tx, thread)
    if binding is None or binding.session_id == session_id:
        return False
    there = page_sessions.find(tx, owner, binding.session_id)
    return there is not None and there.activity is SessionActivity.WORKING


# The recap


async def _send_recap(
    context: DeliveryContext, claim: Handoff, session: Session, thread: Address
) -> bool:
    """Send the recap to the thread and wait for its delivery. Return False if the platform did not
    confirm it, so that it may or may not have arrived. Raise _ThreadRefused if the session's own
    thread cannot be used any more."""
    draft = await _recap(context, claim, session, thread)
    await outbox.enqueue(context.store, draft)
    try:
        async with asyncio.timeout(ARRIVAL_TIMEOUT):
            arrived = await _wait_until_sent(context.store, claim, thread, draft.key)
    except TimeoutError:
        reason = "nothing that was sent there arrived"
        raise ConnectFailed(platform=claim.platform, reason=reason) from None
    if arrived.state is OutgoingState.FAILED:
        if draft.key == claim.return_key:
            raise _ThreadRefused
        raise DeliveryFailed(platform=claim.platform, reason=arrived.error or "no reason was given")
    return arrived.state is OutgoingState.SENT


async def _recap(
    context: DeliveryContext, claim: Handoff, session: Session, thread: Address
) -> Draft:
    """The first message in the thread."""
    store = context.store
    hint = context.how_to_address(thread)
    shows_history = context.adapter.capabilities.history
    count = greeting.RECAP_MESSAGES
    if (door := await _door(store, claim, thread)) is not None:
        is_there = shows_history or session.address == thread
        seen = session.messages if is_there else door.seq or 0
        new = await transcripts.last(store, session.id, count, after=seen)
        # Without the session: a refusal is no news there, because a new thread is opened.
        body = greeting.returned(session, new, hint, mid_turn=claim.mid_turn)
        return Draft(key=claim.return_key, address=thread, body=body)
    last = None if shows_history else await transcripts.last(store, session.id, count)
    refused = await outbox.get(store, claim.return_key)
    body = greeting.recap(
        session,
        last,
        direct=thread == claim.home,
        hint=hint,
        mid_turn=claim.mid_turn,
        refused=refused and refused.error,
    )
    return Draft(key=claim.recap_key, address=thread, body=body, session_id=session.id)


async def _wait_until_sent(store: Store, claim: Handoff, thread: Address, key: str) -> Outgoing:
    """Wait until the message with this key is sent, failed or uncertain, and return it."""
    loop = asyncio.get_running_loop()
    shown = False
    reached = loop.time()
    async with store.listen(Topic.SENT) as wake:
        while True:
            found = await outbox.get(store, key)
            if found is not None and found.finished is not None:
                return found
            gateway = await gateways.serving(store, claim.platform)
            health = gateway and gateway.links[claim.platform]
            if health is None or health.state is not LinkState.DOWN:
                reached = loop.time()
            elif loop.time() - reached > OUTAGE_TIMEOUT:
                raise ConnectFailed(platform=claim.platform, reason=health.detail)
            seconds, reason = await outbox.asked_to_wait(store, thread)
            if seconds and not shown:
                await _report_wait(store, claim, Step.DELIVERING, seconds, reason)
            shown = bool(seconds)
            await wake.wait(1.0)


# The single commit point


async def _commit(store: Store, claim: Handoff, arrival: _Arrival) -> None:
    reply = arrival.reply
    thread = arrival.thread
    body = greeting.reply_text(reply, confirmed=arrival.confirmed, mid_turn=claim.mid_turn)
    draft = Draft(key=claim.reply_key, address=thread, body=body, session_id=claim.session_id)
    complete = functools.partial(
        handoffs.complete,
        store,
        claim,
        address=thread,
        messages=reply.messages,
        usage=reply.usage,
        drafts=[draft] if body else [],
    )
    if await retries.until_stored("handoff completion", complete) is None:
        raise ClaimLost


# Keeping the claim


async def _record_step(
    store: Store,
    claim: Handoff,
    step: Step,
    *,
    thread: Address | None = None,
    reply: bytes | None = None,
    detail: str | None = None,
) -> None:
    record = functools.partial(
        handoffs.record_step, store, claim, step, thread=thread, reply=reply, detail=detail
    )
    if not await retries.until_stored(f"handoff step {step}", record):
        raise ClaimLost
