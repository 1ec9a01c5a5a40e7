"""The sending side of a handoff: request it, follow it, and cancel it.

`hand_off` does that for the process that holds the session. `hand_off_session` does it for any
other: it asks the holder to let the session go, and the holder then calls `hand_off` with that
release request.

Nothing here moves the session: a gateway does, in one transaction, and the store records it. This
side makes the request, watches it, and may cancel it, which the store allows only while nothing has
moved. So a terminal never has to guess the outcome, and never ends, closes or rewrites a session
that it gave away.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import functools
import logging
import math
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from segue.core.address import TARGETS, Address, Platform
from segue.core.errors import (
    HandoffError,
    NoGateway,
    SessionHeld,
    SessionNotFound,
    StoreError,
    StoreUncertain,
    no_home_channel,
)
from segue.core.session import Lease
from segue.core.text import one_line
from segue.handoffs import queries as handoffs
from segue.handoffs.progress import Completed, Failed, Held, Kept, Progress, progress
from segue.handoffs.values import Handoff, HandoffRequest, IfHeld
from segue.store import Store, Topic, Waiter, bindings, gateways, owners, release_requests, sessions
from segue.store.release_requests import ReleaseRequest
from segue.turns import HeldLease, hold

CLAIM_TIMEOUT = 5.0
"""Seconds for a gateway to claim a request. After that it is void, even if a gateway starts
later."""
POLL_SECONDS = 1.0
"""Seconds between polls when there is no wake-up: a gateway that dies does not send one."""
MAX_FAILED_POLLS = 5
"""How many polls in a row must fail before the store counts as broken."""
FORCE_SECONDS = 5.0
"""Seconds for the holder of a session to stop its turn, before the session is taken from it."""
STAYS = "The session stays here, and the agent goes on."
"""The notice where a request to move the session was withdrawn."""
_MAX_CHATS = 10_000
"""How many of the owner's chats to search."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


# The destination


def platform_named(name: str) -> Platform:
    """The platform that the user means by `name`. Raise HandoffError, with a suggestion, if there
    is none."""
    wanted = one_line(name, 40).casefold()
    if wanted in TARGETS:
        return Platform(wanted)
    near = difflib.get_close_matches(wanted, TARGETS, n=1)
    known = [target for target in TARGETS if target not in near]
    others = f"one of {', '.join(known)}"
    suggestion = f"{near[0]}, or else {others}" if near else others
    raise HandoffError(
        f"There is no platform {one_line(name, 40)!r} to hand off to. Try {suggestion}."
    )


async def destination(store: Store, session_id: str, request: HandoffRequest) -> Address:
    """The chat that the session would move to, or the first problem, in the order in which the user
    can fix them: NoGateway, a platform that the gateway does not serve, no home channel, or a chat
    that is not the owner's."""
    platform = request.platform
    session, alive = await asyncio.gather(sessions.get(store, session_id), gateways.alive(store))
    if session is None:
        raise SessionNotFound(name=session_id)
    if not alive:
        raise NoGateway(platform=platform)
    if not any(platform in gateway.platforms for gateway in alive):
        raise _not_served(platform)
    homes = [
        home.address
        for home in await owners.homes(store, session.owner)
        if home.platform is platform
    ]
    if request.chat_id is not None:
        return await _chat(store, session.owner, platform, request.chat_id, homes)
    if not homes:
        raise no_home_channel(platform)
    return homes[0]


def _not_served(platform: Platform) -> HandoffError:
    if platform is Platform.WEB:
        return HandoffError(
            "The running gateway does not serve the web page. Type `segue config set web.enabled"
            " true`, then `segue gateway stop` and `segue gateway start`."
        )
    return HandoffError(
        f"The running gateway does not serve {platform}. Type `segue setup {platform}`."
    )


async def _chat(
    store: Store, owner: str, platform: Platform, chat_id: str, homes: list[Address]
) -> Address:
    """The owner's chat with this id."""
    bound = [
        binding.address for binding in await bindings.list_bindings(store, owner, limit=_MAX_CHATS)
    ]
    wanted = (platform, chat_id)
    known = [found for found in (*homes, *bound) if (found.platform, found.chat_id) == wanted]
    if not known:
        raise HandoffError(
            f"{one_line(chat_id, 80)!r} is not one of your chats on {platform}. Send a message to"
            " the bot there first, or leave out the chat to use your home channel."
        )
    return min(known, key=lambda address: address.thread_id is not None)  # the chat, not a thread


# For the process that holds the session


async def hand_off(
    store: Store,
    held: HeldLease,
    request: HandoffRequest | ReleaseRequest,
    *,
    mid_turn: bool = False,
    interrupt: asyncio.Event | None = None,
) -> AsyncGenerator[Progress]:
    """Hand the held session off, as its user or another process requests, and yield the progress.
    `mid_turn`: its turn is paused, and continues there. Raise the same errors as `ask`.

    Set `interrupt` to cancel. The last Progress is the actual outcome: Completed, if the cancel
    came too late. The only Progress is Kept if the other process has withdrawn its request. A
    caller that is cancelled, or closes this generator early, leaves nothing in flight either, and
    finds the outcome in the store.
    """
    if isinstance(request, ReleaseRequest):
        asking = asyncio.create_task(_grant(store, held, request, mid_turn=mid_turn))
    else:
        work = ask(store, held.lease.session_id, request, lease=held.lease, mid_turn=mid_turn)
        asking = asyncio.create_task(work)
    try:
        handoff = await asyncio.shield(asking)
    except asyncio.CancelledError:
        await _finish(_cancel_request(store, asking))
        raise
    if handoff is None:
        yield Kept(request.platform, elsewhere=True)
        return
    async with contextlib.aclosing(_see_through(store, handoff, held, interrupt)) as steps:
        async for step in steps:
            yield step


async def ask(
    store: Store,
    session_id: str,
    request: HandoffRequest,
    *,
    lease: Lease | None = None,
    mid_turn: bool = False,
) -> Handoff:
    """Request the handoff, or raise the first problem at once: those of `destination`, and then
    those of `queries.request`. `lease` is the caller's lease, if it has one."""
    home = await destination(store, session_id, request)
    return await _made_once(
        functools.partial(
            handoffs.request,
            store,
            session_id,
            home.platform,
            lease=lease,
            home=home,
            message=request.message,
            new_thread=request.new_thread,
            mid_turn=mid_turn,
            key=secrets.token_hex(16),
            claim_seconds=CLAIM_TIMEOUT,
        )
    )


async def _grant(
    store: Store, held: HeldLease, request: ReleaseRequest, *, mid_turn: bool
) -> Handoff | None:
    """Request the handoff that another process asks for. Return None if it no longer does."""
    try:
        return await _made_once(
            functools.partial(
                handoffs.grant,
                store,
                request,
                held.lease,
                mid_turn=mid_turn,
                claim_seconds=CLAIM_TIMEOUT,
            )
        )
    finally:
        if held.release_request == request:
            held.note_release_request(None)


async def _made_once(make: Callable[[], Awaitable[T]]) -> T:
    """Make a request. If its commit is uncertain, make it again: it has the same key, so that it
    returns the first request if that exists."""
    try:
        return await make()
    except StoreUncertain:
        return await make()


async def _see_through(
    store: Store, handoff: Handoff, held: HeldLease | None, interrupt: asyncio.Event | None
) -> AsyncGenerator[Progress]:
    """Follow the handoff. Cancel it if the user interrupts it, the session is lost, or the caller
    stops."""
    over = False
    try:
        async with (
            _cancel_on_interrupt(store, handoff, held, interrupt),
            contextlib.aclosing(follow(store, handoff)) as steps,
        ):
            async for step in steps:
                over = isinstance(step, Completed | Failed)
                yield step
    finally:
        if not over:
            await _finish(_cancel(store, handoff))


@contextlib.asynccontextmanager
async def _cancel_on_interrupt(
    store: Store, handoff: Handoff, held: HeldLease | None, interrupt: asyncio.Event | None
) -> AsyncGenerator[None]:
    """While this context is open, cancel the handoff if the user interrupts it or another process
    takes the session over."""

    async def watch() -> None:
        stop = interrupt or asyncio.Event()
        with held.stopping(stop) if held else contextlib.nullcontext():
            await stop.wait()
        moved = held.moved if held else None
        while True:
            try:
                # If it was this handoff that took the session, this changes nothing.
                await handoffs.cancel(store, handoff.id, str(moved) if moved else None)
                return
            except StoreError as error:
                logger.warning("handoff not cancelled session=%s: %s", handoff.session_id, error)
                await asyncio.sleep(POLL_SECONDS)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def _cancel_request(
    store: Store, asking: asyncio.Task[Handoff] | asyncio.Task[Handoff | None]
) -> None:
    """Cancel the handoff, if the request succeeded."""
    await asyncio.wait({asking})
    if asking.exception() is None and (handoff := asking.result()) is not None:
        await _cancel(store, handoff)


async def _cancel(store: Store, handoff: Handoff) -> None:
    try:
        await handoffs.cancel(store, handoff.id)
    except StoreError as error:
        logger.warning("handoff not cancelled session=%s: %s", handoff.session_id, error)


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Wait for `work` to finish, however often this task is cancelled meanwhile."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled:
        raise cancelled


# For a process that does not hold the session


async def hand_off_session(
    store: Store,
    session_id: str,
    holder: str,
    request: HandoffRequest,
    *,
    interrupt: asyncio.Event | None = None,
) -> AsyncGenerator[Progress]:
    """Hand the session off, and yield the progress. If no other process holds it, hold it meanwhile
    as `holder`; otherwise do what `request.if_held` says. Raise the same errors as `ask` and
    `release_requests.create`, and SessionHeld if it may not wait.

    Set `interrupt` to cancel. A release request lasts until the handoff begins, and no longer than
    this generator.
    """
    home = await destination(store, session_id, request)
    stop = interrupt or asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        if request.if_held is IfHeld.REFUSE:
            held = await stack.enter_async_context(hold(store, session_id, holder))
            steps = hand_off(store, held, request, interrupt=stop)
        else:
            asked = await release_requests.create(
                store,
                session_id,
                home,
                message=request.message,
                new_thread=request.new_thread,
                now=request.if_held is IfHeld.STOP,
            )
            stack.push_async_callback(_finish, _withdraw(store, asked))
            steps = _wait_and_hand_off(store, asked, holder, stop)
        async for step in await stack.enter_async_context(contextlib.aclosing(steps)):
            yield step


async def _withdraw(store: Store, request: ReleaseRequest) -> None:
    """Withdraw the request, unless it was granted."""
    try:
        await release_requests.withdraw(store, request.session_id, request.key)
    except StoreError as error:  # it ends with this process
        logger.warning("release request not withdrawn session=%s: %s", request.session_id, error)


async def _wait_and_hand_off(
    store: Store, request: ReleaseRequest, holder: str, stop: asyncio.Event
) -> AsyncGenerator[Progress]:
    """Wait until the session's holder grants the request, and follow the handoff. If no process
    holds the session, hand it off from here."""
    session_id = request.session_id
    clock = asyncio.get_running_loop().time
    force_at = clock() + FORCE_SECONDS if request.now else math.inf
    shown: Held | None = None
    async with contextlib.AsyncExitStack() as stack:
        topics = (Topic.HANDOFFS, Topic.SESSIONS, Topic.LEASES)
        wake = await stack.enter_async_context(store.listen(*topics))
        stack.enter_context(_waking(wake, stop))
        while True:
            if stop.is_set():
                await release_requests.withdraw(store, session_id, request.key)
            state = await handoffs.release_state(store, request)
            if state.handoff is not None:
                steps = _see_through(store, state.handoff, None, stop)
                break
            if not state.is_open:
                yield Kept(request.platform, elsewhere=not stop.is_set())
                return
            is_overdue = clock() >= force_at
            if state.is_free or is_overdue:
                taking = hold(store, session_id, holder, take_over=is_overdue)
                with contextlib.suppress(SessionHeld):  # if it was taken meanwhile
                    held = await stack.enter_async_context(taking)
                    steps = hand_off(store, held, request, interrupt=stop)
                    break
            elif (held_by := Held(request.platform, state.holder, request.now)) != shown:
                shown = held_by
                yield shown
            await wake.wait(min(POLL_SECONDS, max(0.0, force_at - clock())))
        async for step in await stack.enter_async_context(contextlib.aclosing(steps)):
            yield step


@contextlib.contextmanager
def _waking(wake: Waiter, stop: asyncio.Event) -> Generator[None]:
    """While this context is open, wake the waiter when `stop` is set."""

    async def watch() -> None:
        await stop.wait()
        wake.wake()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


# Follow


async def follow(store: Store, handoff: Handoff) -> AsyncGenerator[Progress]:
    """Yield the current progress, then each change, until it is Completed or Failed.

    A poll that fails is repeated. After MAX_FAILED_POLLS in a row, the StoreError is raised.
    """
    last: Progress | None = None
    failed = 0
    while not isinstance(last, Completed | Failed):
        try:
            async with contextlib.aclosing(_poll(store, handoff)) as looks:
                async for seen in looks:
                    failed = 0
                    if seen != last:
                        last = seen
                        yield seen
        except StoreError as error:
            failed += 1
            if failed == MAX_FAILED_POLLS:
                raise
            logger.warning("handoff not polled session=%s: %s", handoff.session_id, error)
            await asyncio.sleep(POLL_SECONDS)


async def _poll(store: Store, handoff: Handoff) -> AsyncGenerator[Progress]:
    """Yield the progress whenever it may have changed, until the handoff is over."""
    async with store.listen(Topic.HANDOFFS) as wake:
        before: Handoff | None = None
        while True:
            now = await _current(store, handoff)
            # A gateway that has just changed it is alive; otherwise it may be gone.
            yield progress(now, at_work=now != before or await _is_alive(store, now.claimed_by))
            if not now.in_flight:
                return
            before = now
            await wake.wait(POLL_SECONDS)


async def _is_alive(store: Store, gateway: str | None) -> bool:
    return any(found.process == gateway for found in await gateways.alive(store))


async def _current(store: Store, handoff: Handoff) -> Handoff:
    """`handoff` as it is now. If no gateway claimed it in time, reading it here fails it."""
    latest = await handoffs.current(store, handoff.session_id)
    if latest is not None and latest.id == handoff.id:
        return latest
    for earlier in await handoffs.history(store, handoff.session_id):  # the session has a newer one
        if earlier.id == handoff.id:
            return earlier
    raise SessionNotFound(name=handoff.session_id)
