"""End sessions that are stale by their chat's reset policy. The agent saves notes about a session
before it ends, and the next message in the chat starts a new one."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from functools import partial

from segue.core.address import Address
from segue.core.errors import SessionError, StoreError, UserError
from segue.core.reset import ResetMode
from segue.core.session import Session
from segue.gateway import texts
from segue.gateway.containment import contained
from segue.gateway.context import GatewayContext
from segue.store import bindings, outbox, sessions
from segue.store.outbox import Draft
from segue.turns import hold

POLL_SECONDS = 30.0
NOTE_TIMEOUT = 120.0
"""Time limit for the agent to save its notes."""
_AT_ONCE = 20

PROMPT = (
    "[This conversation is about to end, because nothing was said in it for long. If something in"
    " it will matter later (what your person wants, likes or decided), keep it with the tool"
    " `remember`, in short notes, and only what is not among your notes already. Then answer with"
    " one word: done.]"
)

logger = logging.getLogger(__name__)


class Expiry:
    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._set_aside: set[str] = set()
        """Sessions that could not be ended; retried after a restart."""

    async def run(self) -> None:
        """End stale sessions until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                if self._has_policy():
                    await self.end_stale()
            except StoreError as error:
                logger.error("sessions not ended, the store failed: %s", error)  # noqa: TRY400

    def _has_policy(self) -> bool:
        resets = self._context.settings.resets
        policies = (resets.default, *resets.overrides.values())
        return any(policy.mode is not ResetMode.NONE for policy in policies)

    async def end_stale(self) -> None:
        """End the sessions that are stale now."""
        context = self._context
        settings = context.settings
        stale = await bindings.stale(
            context.store, settings.resets, settings.zone, context.serving, limit=_AT_ONCE
        )
        for session in stale:
            if session.id not in self._set_aside:
                async with contained(session.id, partial(self._not_ended, session)):
                    await self._end(session)

    async def _not_ended(self, session: Session, reason: str) -> None:
        self._set_aside.add(session.id)
        if session.address is not None:
            body = texts.not_ended(session.label)
            draft = Draft(key=f"expiry:{session.id}", address=session.address, body=body)
            await outbox.enqueue(self._context.store, draft)

    async def _end(self, session: Session) -> None:
        if (address := session.address) is None:
            return
        context = self._context
        settings = context.settings
        reason = settings.resets.for_address(address).expired(
            active=session.active, now=datetime.now(UTC), zone=settings.zone
        )
        if reason is None:
            return
        try:
            async with hold(context.store, session.id, context.name) as held:
                await self.note(session, address)
                await sessions.close(context.store, session.id, held.lease, reason)
        except SessionError as error:  # it is in use again
            logger.info("session not ended session=%s: %s", session.id, error)

    async def note(self, session: Session, address: Address) -> None:
        """Let the agent save notes about a session that was at `address`."""
        turns = self._context.turns
        place = self._context.place(address)
        async with contained(f"note {session.id}"):
            try:
                async with asyncio.timeout(NOTE_TIMEOUT):
                    await turns.take_synthetic_turn(session.id, place, PROMPT, only=("remember",))
            except StoreError:
                raise
            except (UserError, TimeoutError) as error:  # the session ends anyway
                logger.warning("no notes saved session=%s: %s", session.id, error)
