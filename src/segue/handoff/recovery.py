"""Which handoffs a gateway carries out: new ones the moment they are asked for, and those whose
gateway died, from the step that it recorded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection

from segue.core.address import Platform
from segue.core.handoff import Handoff
from segue.store import Store, Topic

LOOK = 1.0
"""Seconds between two looks when nothing is heard: a gateway that dies says nothing."""


async def claims(
    store: Store,
    platforms: Callable[[], Collection[Platform]],
    in_hand: Callable[[], Collection[int]] = tuple,
) -> AsyncGenerator[Handoff]:
    """Every handoff to one of `platforms` that is this gateway's to carry out, claimed; for ever.
    Those `in_hand` are carried out already, even if their claim ran out while the store was away.

    What nobody may carry out any more is failed on the way, so that its session can go on.
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
            woken = await wake.wait(LOOK)
