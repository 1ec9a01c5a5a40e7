"""The sending side of a handoff: ask, follow and cancel, which `hand_off` does, and the farewell.

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
import secrets
import shlex
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from segue.core.address import Address, Platform
from segue.core.errors import (
    NoGateway,
    NoHomeChannel,
    PageNotServed,
    PlatformNotEnabled,
    PlatformNotSetUp,
    SessionError,
    SessionNotFound,
    StoreError,
    StoreUncertain,
    UnknownChat,
    UnknownPlatform,
)
from segue.core.handoff import TARGETS, Handoff
from segue.core.lease import Lease
from segue.core.session import Session
from segue.core.text import one_line
from segue.handoff.progress import Completed, Failed, Progress, progress
from segue.platforms import registry
from segue.platforms.spec import TOKEN
from segue.store import Store, Topic
from segue.turns import HeldLease

CLAIM_TIMEOUT = 5.0
"""Seconds for a gateway to claim a request. After that it is void, even if a gateway starts
later."""
POLL_SECONDS = 1.0
"""Seconds between polls when there is no wake-up: a gateway that dies does not send one."""
MAX_FAILED_POLLS = 5
"""How many polls in a row must fail before the store counts as broken."""
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
    patience: float = CLAIM_TIMEOUT,
) -> Handoff:
    """Request that the session moves to `platform`, or raise the first problem at once.

    Problems are checked in the order in which the user can fix them: UnknownPlatform, NoGateway,
    PlatformNotSetUp (or PlatformNotEnabled, PageNotServed), NoHomeChannel or UnknownChat, and then
    those of `Store.request_handoff`.
    """
    target = _target(platform)
    session, gateways = await asyncio.gather(store.sessions.get(session_id), store.gateways.alive())
    if session is None:
        raise SessionNotFound(name=session_id)
    if not gateways:
        raise NoGateway(platform=target)
    if not any(target in gateway.platforms for gateway in gateways):
        spec = registry.SPECS[target]
        refused = PlatformNotSetUp if spec.make else PlatformNotEnabled
        refused = PageNotServed if target is Platform.WEB else refused
        raise refused(platform=target, setting=spec.setting(TOKEN))
    request = functools.partial(
        store.request_handoff,
        session_id,
        target,
        lease=lease,
        home=await _home(store, session.owner, target, chat_id),
        message=message,
        key=secrets.token_hex(16),
        claim_seconds=patience,
    )
    try:
        return await request()
    except StoreUncertain:
        return await request()  # with the same key, this returns the first request if it exists


def _target(name: str) -> Platform:
    """The platform that the user means by `name`. Raise UnknownPlatform, with a suggestion, if
    there is none."""
    wanted = one_line(name, 40).casefold()
    if wanted in TARGETS:
        return Platform(wanted)
    near = difflib.get_close_matches(wanted, TARGETS, n=1)
    others = "one of " + ", ".join(target for target in TARGETS if target not in near)
    suggestion = f"{near[0]}, or else {others}" if near else others
    raise UnknownPlatform(platform=one_line(name, 40), suggestion=suggestion)


async def _home(store: Store, owner: str, target: Platform, chat_id: str | None) -> Address:
    """The chat to open the thread in: the home channel, or the chat of the owner with this id."""
    homes = [home.address for home in await store.owners.homes(owner) if home.platform is target]
    if chat_id is None:
        if not homes:
            raise NoHomeChannel(platform=target)
        return homes[0]
    bound = [binding.address for binding in await store.bindings.list(owner, limit=_MAX_CHATS)]
    wanted = (target, chat_id)
    known = [found for found in (*homes, *bound) if (found.platform, found.chat_id) == wanted]
    if not known:
        raise UnknownChat(chat=one_line(chat_id, 80), platform=target)
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
    return any(found.process == gateway for found in await store.gateways.alive())


async def _current(store: Store, handoff: Handoff) -> Handoff:
    """`handoff` as it is now. If no gateway claimed it in time, reading it here fails it."""
    latest = await store.get_handoff_state(handoff.session_id)
    if latest is not None and latest.id == handoff.id:
        return latest
    for earlier in await store.list_handoffs(handoff.session_id):  # the session has a newer one
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
    interrupt: asyncio.Event | None = None,
    patience: float = CLAIM_TIMEOUT,
) -> AsyncGenerator[Progress]:
    """Hand the held session off to `platform`, and yield the progress. Raise the same errors as
    `ask`.

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
        patience=patience,
    )
    asking = asyncio.create_task(request)
    over = False
    try:
        handoff = await asyncio.shield(asking)
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
    store: Store, handoff: Handoff, held: HeldLease, interrupt: asyncio.Event | None
) -> AsyncGenerator[None]:
    """While this context is open, cancel the handoff if the user interrupts it or another process
    takes the session over."""

    async def watch() -> None:
        stop = interrupt or asyncio.Event()
        with held.stopping(stop):
            await stop.wait()
        while True:
            try:
                # If it was this handoff that took the session, this changes nothing.
                await store.cancel_handoff(handoff.id, str(held.moved) if held.moved else None)
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


async def _cancel_request(store: Store, asking: asyncio.Task[Handoff]) -> None:
    """Cancel the handoff, if the request succeeded."""
    await asyncio.wait({asking})
    if asking.exception():
        return
    handoff = asking.result()
    try:
        await store.cancel_handoff(handoff.id)
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


# The farewell: where the session is, and how to come back to it


async def handed_over(store: Store, done: Completed) -> str:
    """The text for the terminal that handed the session off."""
    handoff = done.handoff
    if (session := await store.sessions.get(handoff.session_id)) is None:
        raise SessionNotFound(name=handoff.session_id)
    homes = await store.owners.homes(session.owner)
    names = [one_line(home.name) for home in homes if home.address == handoff.home]
    where = f"{handoff.thread} ({names[0]})" if any(names) else f"{handoff.thread}"
    lines = [f"{session.name} continues at {where}."]
    if handoff.thread == handoff.home:
        lines.append("No thread could be opened there, so it continues in the chat itself.")
    if handoff.warning:
        lines.append(handoff.warning)
    return "\n".join([*lines, f"To come back: {await way_back(store, session)}"])


async def way_back(store: Store, session: Session) -> str:
    """The shell command to come back: with the title, or with the id if the title now means another
    session."""
    with contextlib.suppress(SessionError):
        meant = await store.sessions.find(session.owner, session.name)
        if meant.id == session.id and not session.name.startswith("-"):
            return f"segue resume {shlex.quote(session.name)}"
    return f"segue resume {session.id}"
