"""The sending side of a handoff: ask, follow and cancel. `hand_off` does all three.

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
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from segue.core.address import Address, Platform
from segue.core.errors import (
    NoGateway,
    NoHomeChannel,
    PageNotServed,
    PlatformNotEnabled,
    PlatformNotSetUp,
    SessionNotFound,
    StoreError,
    StoreUncertain,
    UnknownChat,
    UnknownPlatform,
)
from segue.core.handoff import TARGETS, Handoff
from segue.core.lease import Lease
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
    known = [
        address
        for address in (*homes, *bound)
        if (address.platform, address.chat_id) == (target, chat_id)
    ]
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


# Cancel


async def cancel(store: Store, handoff: Handoff, reason: str | None = None) -> bool:
    """Cancel the handoff. Return False if it was already over: its outcome then stands."""
    return await store.cancel_handoff(handoff.id, reason)


# All three, for a terminal


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
    asking = asyncio.create_task(
        ask(
            store,
            lease.session_id,
            lease,
            platform,
            chat_id=chat_id,
            message=message,
            patience=patience,
        )
    )
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
                await cancel(store, handoff, str(held.moved) if held.moved else None)
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
        await cancel(store, handoff)
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
