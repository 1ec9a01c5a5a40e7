"""Claims handoffs for a gateway: new ones as soon as they are requested, and those of a dead
gateway, from the step that it recorded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection

from segue.core.address import Platform
from segue.core.handoff import Handoff
from segue.store import Store, Topic

POLL_SECONDS = 1.0
"""Seconds between polls when there is no wake-up: a gateway that dies does not send one."""


async def claims(
    store: Store,
    platforms: Callable[[], Collection[Platform]],
    in_hand: Callable[[], Collection[int]] = tuple,
) -> AsyncGenerator[Handoff]:
    """Claim and yield every handoff to one of `platforms` that this gateway should carry out,
    forever.

    Those `in_hand` are skipped: this gateway is carrying them out, even if their claim lapsed while
    the store was unavailable. Void handoffs are failed along the way, so that their sessions can
    continue.
    """
    async with store.listen(Topic.HANDOFFS) as wake:
        woken = True
        while True:
            if woken or await store.in_flight():
                while claim := await store.claim_next_handoff(platforms(), besides=in_hand()):
                    yield claim
                in_flight = await store.in_flight()
                if any(handoff.claimed_by != store.process for handoff in in_flight):
                    await store.expire_handoffs()
            woken = await wake.wait(POLL_SECONDS)
