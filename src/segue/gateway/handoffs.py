"""Carry out handoffs concurrently, so that a slow one does not delay the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

from segue.core.address import Address, Platform
from segue.core.errors import StoreError
from segue.gateway import texts
from segue.gateway.containment import cancel, contain, finish
from segue.gateway.places import Audiences, Places, PlatformsNow
from segue.handoffs import queries as handoffs
from segue.handoffs.delivery import DeliveryContext, claims, deliver
from segue.handoffs.values import Handoff
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
        platforms: PlatformsNow,
        how_to_address: Callable[[Address], str],
        audiences: Audiences,
        continue_turn: Callable[[str], Awaitable[None]],
    ) -> None:
        """`platforms` returns the platforms for which handoffs can be claimed now. `continue_turn`
        continues the turn that the session with this id has brought along, if it has."""
        self._store = store
        self._turns = turns
        self._places = places
        self._adapters = adapters
        self._platforms = platforms
        self._how_to_address = how_to_address
        self._audiences = audiences
        self._continue_turn = continue_turn
        self._running: dict[asyncio.Task[None], Handoff] = {}

    async def run(self) -> None:
        """Claim and deliver handoffs until cancelled."""
        async for claim in claims(self._store, self._platforms, self._in_hand):
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
            await handoffs.heartbeat(self._store, claim, seconds=0)

    async def finish(self, seconds: float) -> None:
        """Wait up to `seconds` for running handoffs. The next gateway resumes the rest."""
        await finish(self._running, seconds)

    async def _deliver(self, claim: Handoff) -> None:
        try:
            await contain(
                f"handoff {claim.id}", partial(self._carry_out, claim), partial(self._fail, claim)
            )
        except StoreError as error:  # the claim expires, and the next claim resumes
            logger.error("handoff waits for the store session=%s: %s", claim.session_id, error)  # noqa: TRY400

    async def _carry_out(self, claim: Handoff) -> None:
        context = DeliveryContext(
            store=self._store,
            turns=self._turns,
            adapter=self._adapters[claim.platform],
            place=self._places.place,
            how_to_address=self._how_to_address,
            check_audience=self._audiences.check,
        )
        await deliver(context, claim)
        if claim.mid_turn:
            await self._continue_turn(claim.session_id)

    async def _fail(self, claim: Handoff, reason: str) -> None:
        await handoffs.fail(self._store, claim, texts.not_handed_off(reason))
