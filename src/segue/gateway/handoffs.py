"""Carrying out handoffs, several at once: a slow one holds up none of the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial

from segue.core.address import Platform
from segue.core.errors import StoreError
from segue.core.handoff import Handoff
from segue.gateway import texts
from segue.gateway.containment import contained
from segue.gateway.places import Places
from segue.handoff.deliver import Desk, deliver
from segue.handoff.recover import claims
from segue.platforms.base import Adapter
from segue.store import Store
from segue.turns import Turns

logger = logging.getLogger(__name__)


class Handoffs:
    def __init__(
        self,
        store: Store,
        turns: Turns,
        places: Places,
        adapters: Mapping[Platform, Adapter],
        platforms: Callable[[], Collection[Platform]],
    ) -> None:
        """`platforms`: those that handoffs are taken up for, now."""
        self._store = store
        self._turns = turns
        self._places = places
        self._adapters = adapters
        self._platforms = platforms
        self._running: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Take up what is asked for, for ever."""
        async for claim in claims(self._store, self._platforms):
            task = asyncio.create_task(self._deliver(claim), name=f"handoff {claim.id}")
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def finish(self, seconds: float) -> None:
        """What is under way gets so long; then it is left to the next gateway."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
        left = set(self._running)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    async def _deliver(self, claim: Handoff) -> None:
        try:
            await contained(
                f"handoff {claim.id}", partial(self._carry_out, claim), partial(self._fail, claim)
            )
        except StoreError as error:  # the claim lapses, and the next one goes on
            logger.error("The handoff of %s waits: %s", claim.session_id, error)  # noqa: TRY400

    async def _carry_out(self, claim: Handoff) -> None:
        desk = Desk(
            store=self._store,
            turns=self._turns,
            adapter=self._adapters[claim.platform],
            place=self._places.place,
        )
        await deliver(desk, claim)

    async def _fail(self, claim: Handoff, reason: str) -> None:
        await self._store.fail_handoff(claim, texts.not_handed_off(reason))
