"""Carry out handoffs concurrently, so that a slow one does not delay the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from segue.core.address import Platform
from segue.core.errors import StoreError
from segue.gateway import texts
from segue.gateway.containment import cancel, contained, finish
from segue.gateway.context import GatewayContext
from segue.handoffs import queries as handoffs
from segue.handoffs.delivery import DeliveryContext, claims, deliver
from segue.handoffs.values import Handoff

logger = logging.getLogger(__name__)


class Handoffs:
    def __init__(
        self, context: GatewayContext, continue_turn: Callable[[str], Awaitable[None]]
    ) -> None:
        """`continue_turn` continues the turn that the session with this id has brought along, if it
        has."""
        self._context = context
        self._continue_turn = continue_turn
        self._running: dict[asyncio.Task[None], Handoff] = {}

    async def run(self) -> None:
        """Claim and deliver handoffs until cancelled."""
        async for claim in claims(self._context.store, self._context.tried, self._in_hand):
            task = asyncio.create_task(self._deliver(claim), name=f"handoff {claim.id}")
            self._running[task] = claim
            task.add_done_callback(self._running.pop)

    def _in_hand(self) -> Collection[int]:
        return [claim.id for claim in self._running.values()]

    async def release(self, platform: Platform) -> None:
        """Release the handoffs to `platform`, for the gateway that now serves it."""
        left = {task: claim for task, claim in self._running.items() if claim.platform is platform}
        await cancel(*left)
        for claim in left.values():
            await handoffs.heartbeat(self._context.store, claim, seconds=0)

    async def finish(self, seconds: float) -> None:
        """Wait up to `seconds` for running handoffs. The next gateway resumes the rest."""
        await finish(self._running, seconds)

    async def _deliver(self, claim: Handoff) -> None:
        context = self._context
        delivery = DeliveryContext(
            store=context.store,
            turns=context.turns,
            adapter=context.adapters[claim.platform],
            place=context.place,
            how_to_address=context.how_to_address,
            check_audience=context.audiences.check,
        )
        try:
            async with contained(f"handoff {claim.id}", partial(self._fail, claim)):
                await deliver(delivery, claim)
                if claim.mid_turn:
                    await self._continue_turn(claim.session_id)
        except StoreError as error:  # the claim expires, and the next claim resumes
            logger.error("handoff waits for the store session=%s: %s", claim.session_id, error)  # noqa: TRY400

    async def _fail(self, claim: Handoff, reason: str) -> None:
        await handoffs.fail(self._context.store, claim, texts.not_handed_off(reason))
