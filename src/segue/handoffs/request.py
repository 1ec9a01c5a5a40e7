"""The sending side of a handoff: ask, follow and cancel, which `hand_off` does, and the farewell.
`hand_off_session` does the same for a session that another process may hold, which lets it go with
`grant`.

Nothing here moves the session: a gateway does, in one transaction, and the store records it. This
side makes the request, watches it, and may cancel it, which the store allows only while nothing has
moved. So a terminal never has to guess the outcome, and never ends, closes or rewrites a session
that it gave away.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import enum
import functools
import logging
import math
import secrets
import shlex
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any

from segue import config
from segue.core.address import TARGETS, Address, Platform
from segue.core.errors import (
    HandoffError,
    NoGateway,
    SessionError,
    SessionHeld,
    SessionNotFound,
    StoreError,
    StoreUncertain,
    no_home_channel,
)
from segue.core.session import Lease, Session
from segue.core.text import one_line
from segue.handoffs import queries as handoffs
from segue.handoffs.progress import Completed, Failed, Held, Kept, Progress, progress
from segue.handoffs.values import Handoff
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

logger = logging.getLogger(__name__)


# Ask


async def ask(
    store: Store,
    session_id: str,
    lease: Lease | None,
    platform: str,
    *,
    chat_id: str | None = None,
    message: str | None = None,
    mid_turn: bool = False,
    new_thread: bool = False,
    patience: float = CLAIM_TIMEOUT,
) -> Handoff:
    """Request that the session moves to `platform`, or raise the first problem at once: those of
    `destination`, and then those of `Store.request_handoff`. `mid_turn`: its turn is paused, and
    continues there."""
    home = await destination(store, session_id, platform, chat_id=chat_id)
    request = functools.partial(
        handoffs.request,
        store,
        session_id,
        home.platform,
        lease=lease,
        home=home,
        message=message,
        mid_turn=mid_turn,
        new_thread=new_thread,
        key=secrets.token_hex(16),
        claim_seconds=patience,
    )
    try:
        return await request()
    except StoreUncertain:
        return await request()  # with the same key, this returns the first request if it exists


async def destination(
    store: Store, session_id: str, platform: str, *, chat_id: str | None = None
) -> Address:
    """The chat that the session would move to, or the first problem, in the order in which the user
    can fix them: no such platform, NoGateway, a platform that the gateway does not serve, no home
    channel, or a chat that is not the owner's."""
    target = _target(platform)
    session, alive = await asyncio.gather(sessions.get(store, session_id), gateways.alive(store))
    if session is None:
        raise SessionNotFound(name=session_id)
    if not alive:
        raise NoGateway(platform=target)
    if not any(target in gateway.platforms for gateway in alive):
        raise _not_served(target)
    return await _home(store, session.owner, target, chat_id)


def _not_served(platform: Platform) -> HandoffError:
    if platform is Platform.WEB:
        return HandoffError(
            "The running gateway does not serve the web page. Type `segue config set web.enabled"
            " true`, then `segue gateway stop` and `segue gateway start`."
        )
    return HandoffError(
        f"The running gateway does not serve {platform}. Type `segue setup {platform}`."
    )


def _target(name: str) -> Platform:
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


async def _home(store: Store, owner: str, target: Platform, chat_id: str | None) -> Address:
    """The chat to open the thread in: the home channel, or the chat of the owner with this id."""
    homes = [home.address for home in await owners.homes(store, owner) if home.platform is target]
    if chat_id is None:
        if not homes:
            raise no_home_channel(target)
        return homes[0]
    bound = [
        binding.address for binding in await bindings.list_bindings(store, owner, limit=_MAX_CHATS)
    ]
    wanted = (target, chat_id)
    known = [found for found in (*homes, *bound) if (found.platform, found.chat_id) == wanted]
    if not known:
        raise HandoffError(
            f"{one_line(chat_id, 80)!r} is not one of your chats on {target}. Send a message to the"
            " bot there first, or leave out the chat to use your home channel."
        )
    return min(known, key=lambda address: address.thread_id is not None)  # the chat, not a thread


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


# Ask, follow and cancel, for a terminal


async def hand_off(
    store: Store,
    held: HeldLease,
    platform: str,
    *,
    chat_id: str | None = None,
    message: str | None = None,
    mid_turn: bool = False,
    new_thread: bool = False,
    interrupt: asyncio.Event | None = None,
    patience: float = CLAIM_TIMEOUT,
) -> AsyncGenerator[Progress]:
    """Hand the held session off to `platform`, and yield the progress. Raise the same errors as
    `ask`. `mid_turn`: its turn is paused, and continues there.

    Set `interrupt` to cancel. The last Progress is the actual outcome: Completed, if the cancel
    came too late. A caller that is cancelled, or closes this generator early, leaves nothing in
    flight either, and finds the outcome in the store.
    """
    lease = held.lease
    request = ask(
        store,
        lease.session_id,
        lease,
        platform,
        chat_id=chat_id,
        message=message,
        mid_turn=mid_turn,
        new_thread=new_thread,
        patience=patience,
    )
    async with contextlib.aclosing(_see_through(store, held, request, interrupt)) as steps:
        async for step in steps:
            yield step


async def grant(
    store: Store,
    held: HeldLease,
    release_request: ReleaseRequest,
    *,
    mid_turn: bool = False,
    interrupt: asyncio.Event | None = None,
) -> AsyncGenerator[Progress]:
    """Hand the held session off as another process asks, like `hand_off`. The only Progress is
    Kept if the request was withdrawn."""
    ask = functools.partial(
        handoffs.grant,
        store,
        release_request,
        held.lease,
        mid_turn=mid_turn,
        claim_seconds=CLAIM_TIMEOUT,
    )

    async def request() -> Handoff | None:
        try:
            return await ask()
        except StoreUncertain:
            return await ask()
        finally:
            if held.release_request == release_request:
                held.note_release_request(None)

    async with contextlib.aclosing(_see_through(store, held, request(), interrupt)) as steps:
        granted = False
        async for step in steps:
            granted = True
            yield step
    if not granted:
        yield Kept(release_request.home.platform, elsewhere=True)


async def _see_through(
    store: Store,
    held: HeldLease | None,
    request: Coroutine[Any, Any, Handoff | None],
    interrupt: asyncio.Event | None,
) -> AsyncGenerator[Progress]:
    """Follow the handoff that is requested, if it is, and cancel it if the user interrupts it, the
    session is lost, or the caller stops."""
    asking = asyncio.create_task(request)
    over = False
    try:
        if (handoff := await asyncio.shield(asking)) is None:
            over = True
            return
        async with (
            _cancel_on_interrupt(store, handoff, held, interrupt),
            contextlib.aclosing(follow(store, handoff)) as steps,
        ):
            async for step in steps:
                over = isinstance(step, Completed | Failed)
                yield step
    finally:
        if not over:
            await _finish(_cancel_request(store, asking))


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


async def _cancel_request(store: Store, asking: asyncio.Task[Handoff | None]) -> None:
    """Cancel the handoff, if the request succeeded."""
    await asyncio.wait({asking})
    if asking.exception() or (handoff := asking.result()) is None:
        return
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


# Ask, follow and cancel, for a session that another process may hold


class IfHeld(enum.Enum):
    """What to do if another process holds the session."""

    REFUSE = enum.auto()
    WAIT = enum.auto()
    """Ask the holder to let it go, and wait until its turn reaches a safe point or is over."""
    STOP = enum.auto()
    """Ask the holder to stop the turn and let it go. Take it from a holder that does not."""


async def hand_off_session(
    store: Store,
    session_id: str,
    holder: str,
    platform: str,
    *,
    chat_id: str | None = None,
    message: str | None = None,
    new_thread: bool = False,
    if_held: IfHeld = IfHeld.REFUSE,
    interrupt: asyncio.Event | None = None,
) -> AsyncGenerator[Progress]:
    """Hand the session off to `platform`, and yield the progress. It is held as `holder` meanwhile.
    Raise the same errors as `ask` and `release_requests.create`, and SessionHeld if it may not
    wait.

    Set `interrupt` to cancel. A release request lasts until the handoff begins, and no longer than
    this generator.
    """
    home = await destination(store, session_id, platform, chat_id=chat_id)
    stop = interrupt or asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        if if_held is IfHeld.REFUSE:
            held = await stack.enter_async_context(hold(store, session_id, holder))
            steps = hand_off(
                store,
                held,
                platform,
                chat_id=chat_id,
                message=message,
                new_thread=new_thread,
                interrupt=stop,
            )
        else:
            now = if_held is IfHeld.STOP
            release_request = await release_requests.create(
                store, session_id, home, message=message, new_thread=new_thread, now=now
            )
            await stack.enter_async_context(_withdrawn(store, release_request))
            steps = _wait_and_hand_off(store, release_request, holder, stop)
        async for step in await stack.enter_async_context(contextlib.aclosing(steps)):
            yield step


async def _wait_and_hand_off(
    store: Store, release_request: ReleaseRequest, holder: str, stop: asyncio.Event
) -> AsyncGenerator[Progress]:
    """Wait until the session's holder grants the request, and follow the handoff. If no process
    holds the session, hand it off from here."""
    session_id, platform = release_request.session_id, release_request.home.platform
    clock = asyncio.get_running_loop().time
    force_at = clock() + FORCE_SECONDS if release_request.now else math.inf
    shown: Held | None = None
    async with contextlib.AsyncExitStack() as stack:
        topics = (Topic.HANDOFFS, Topic.SESSIONS, Topic.LEASES)
        wake = await stack.enter_async_context(store.listen(*topics))
        stack.enter_context(_waking(wake, stop))
        while True:
            if stop.is_set():
                await release_requests.withdraw(store, session_id, release_request.key)
            state = await handoffs.release_state(store, release_request)
            if state.handoff is not None:
                steps = _see_through(store, None, _same(state.handoff), stop)
                break
            if not state.is_open:
                yield Kept(platform, elsewhere=not stop.is_set())
                return
            is_overdue = clock() >= force_at
            if state.is_free or is_overdue:
                taking = hold(store, session_id, holder, take_over=is_overdue)
                with contextlib.suppress(SessionHeld):  # if it was taken meanwhile
                    held = await stack.enter_async_context(taking)
                    steps = grant(store, held, release_request, interrupt=stop)
                    break
            elif (held_by := Held(platform, state.holder, release_request.now)) != shown:
                shown = held_by
                yield shown
            await wake.wait(min(POLL_SECONDS, max(0.0, force_at - clock())))
        async for step in await stack.enter_async_context(contextlib.aclosing(steps)):
            yield step


async def _same(handoff: Handoff) -> Handoff:
    return handoff


@contextlib.asynccontextmanager
async def _withdrawn(store: Store, release_request: ReleaseRequest) -> AsyncGenerator[None]:
    """Withdraw the request when this context ends, unless it was granted."""

    async def withdraw() -> None:
        try:
            await release_requests.withdraw(store, release_request.session_id, release_request.key)
        except StoreError as error:  # it ends with this process
            logger.warning(
                "release request not withdrawn session=%s: %s", release_request.session_id, error
            )

    try:
        yield
    finally:
        await _finish(withdraw())


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


# The farewell: where the session is, and how to come back to it


async def handed_over(store: Store, done: Completed) -> str:
    """The text for the terminal that handed the session off: where it is, and how to come back."""
    session = await _session(store, done)
    return f"{await arrived(store, done)}\nTo come back: {await way_back(store, session)}"


async def arrived(store: Store, done: Completed) -> str:
    """The text that says where the session is now."""
    handoff, session = done.handoff, await _session(store, done)
    homes = await owners.homes(store, session.owner)
    names = [one_line(home.name) for home in homes if home.address == handoff.home]
    where = f"{handoff.thread} ({names[0]})" if any(names) else f"{handoff.thread}"
    lines = [f"{session.label} continues at {where}."]
    if handoff.thread == handoff.home:
        lines.append("No thread could be opened there, so it continues in the chat itself.")
    elif handoff.replaced:
        lines.append("The thread that it had there could not be used, so a new one was opened.")
    if handoff.mid_turn:
        lines.append("The agent goes on with its work there.")
    if handoff.warning:
        lines.append(handoff.warning)
    return "\n".join(lines)


async def _session(store: Store, done: Completed) -> Session:
    if (session := await sessions.get(store, done.handoff.session_id)) is None:
        raise SessionNotFound(name=done.handoff.session_id)
    return session


async def way_back(store: Store, session: Session) -> str:
    """The shell command to come back: with the title, or with the id if the title now means another
    session."""
    with contextlib.suppress(SessionError):
        meant = await sessions.find(store, session.owner, session.name)
        if meant.id == session.id and not session.name.startswith("-"):
            return f"{config.command_name()} resume {shlex.quote(session.name)}"
    return f"{config.command_name()} resume {session.id}"
