"""Holding a session: acquire its lease, keep it renewed, and release it at the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator

from segue.core.address import Address
from segue.core.errors import SessionHeld, StoreError
from segue.core.session import Lease, Origin
from segue.store import Store, Tx, bindings, leases, release_requests
from segue.store.lease_keeper import HeldLease as HeldLease
from segue.store.leases import LEASE_SECONDS
from segue.store.release_requests import ReleaseRequest

RETRY_SECONDS = 0.25
"""Seconds between two attempts to hold a session that another process has."""

logger = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def hold(
    store: Store,
    session_id: str,
    holder: str,
    *,
    take_over: bool = False,
    address: Address | None = None,
    seconds: float = LEASE_SECONDS,
    wait_seconds: float = 0.0,
    give_up: asyncio.Event | None = None,
) -> AsyncGenerator[HeldLease]:
    """Hold the session while this context is open, so that no other process can append to it. Raise
    SessionHeld if another still has it after `wait_seconds`, or once `give_up` is set, unless
    `take_over` is set. With `address`, bind it there."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_seconds
    take = store.write if address is not None else store.mark
    while True:
        try:
            lease, request = await take(_take, session_id, holder, take_over, address, seconds)
            break
        except SessionHeld:
            if loop.time() >= deadline or (give_up is not None and give_up.is_set()):
                raise
        await asyncio.sleep(RETRY_SECONDS)
    held = store.keeper.add(lease, seconds, request)
    try:
        yield held
    except BaseException:
        try:
            await _release(store, held)
        except StoreError as error:  # must not replace the error, which may be a cancellation
            logger.warning("lease not released session=%s: %s", session_id, error)
        raise
    await _release(store, held)


async def _release(store: Store, held: HeldLease) -> None:
    store.keeper.remove(held)
    if not held.lost.is_set():
        await leases.release(store, held.lease)


def _take(
    tx: Tx, session_id: str, holder: str, take_over: bool, address: Address | None, seconds: float
) -> tuple[Lease, ReleaseRequest | None]:
    lease = leases.acquire(tx, session_id, holder, seconds=seconds, take_over=take_over)
    if address is not None:
        bindings.rebind(tx, session_id, address, Origin.RESUME)
    return lease, release_requests.get(tx, session_id)
