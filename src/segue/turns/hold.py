"""Holding a session: its lease, kept for as long as it is needed, and let go at the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator

from segue.core.address import Address
from segue.core.errors import SessionError, StoreError
from segue.core.lease import Lease
from segue.core.session import Origin
from segue.store import Store, bindings, leases
from segue.store.base import Topic, Tx
from segue.store.leases import SECONDS

logger = logging.getLogger(__name__)


class Held:
    """A session in hand. `lost` is set as soon as it is known to be in another."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.lost = asyncio.Event()
        self.moved: SessionError | None = None
        """Where it is instead, once it is lost."""

    def lose(self, moved: SessionError) -> None:
        self.moved = moved
        self.lost.set()


@contextlib.asynccontextmanager
async def hold(
    store: Store,
    session_id: str,
    holder: str,
    *,
    take_over: bool = False,
    address: Address | None = None,
    seconds: float = SECONDS,
) -> AsyncGenerator[Held]:
    """Nobody else can append to the session while this is open; SessionHeld when somebody else
    has it, unless it is to be taken over. With an `address`, it is there from now on."""
    lease = await store.write(
        _take, session_id, holder, take_over=take_over, address=address, seconds=seconds
    )
    held = Held(lease)
    keeping = asyncio.create_task(_keep(store, held, seconds))
    try:
        yield held
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})
        if not held.lost.is_set():
            await store.leases.release(held.lease)


def _take(
    tx: Tx,
    session_id: str,
    holder: str,
    *,
    take_over: bool,
    address: Address | None,
    seconds: float,
) -> Lease:
    lease = leases.acquire(tx, session_id, holder, seconds=seconds, take_over=take_over)
    if address is not None:
        bindings.rebind(tx, session_id, address, Origin.RESUME)
    return lease


async def _keep(store: Store, held: Held, seconds: float) -> None:
    """Renew the lease in time, and look after it whenever somebody takes one over."""
    async with store.listen(Topic.LEASES) as wake:
        while not held.lost.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds / 3):
                    await wake.wait()
            try:
                held.lease = await store.leases.renew(held.lease, seconds=seconds)
            except SessionError as error:
                held.lose(error)
            except StoreError as error:
                # The epoch keeps everybody else's writing apart from ours, whatever comes of this.
                logger.warning("The lease of %s was not renewed: %s", held.lease.session_id, error)
