"""End sessions that are stale by their chat's reset policy. The agent saves notes about a session
before it ends, and the next message in the chat starts a new one."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from functools import partial

from segue.config import Settings
from segue.core.address import Address
from segue.core.errors import SessionError, StoreError, UserError
from segue.core.reset import ResetMode
from segue.core.session import Session
from segue.gateway import texts
from segue.gateway.containment import contain, only_log
from segue.gateway.places import Places, PlatformsNow
from segue.store import Store, bindings, outbox, sessions
from segue.store.outbox import Draft
from segue.turns import Turns, hold

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
    def __init__(
        self, store: Store, turns: Turns, settings: Settings, places: Places, serving: PlatformsNow
    ) -> None:
        self._store = store
        self._turns = turns
        self.settings = settings
        self._places = places
        self._serving = serving
        self._set_aside: set[str] = set()
        """Sessions that could not be ended; retried after a restart."""

    async def run(self) -> None:
        """End stale sessions until cancelled. The settings may change meanwhile."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                if self._has_policy():
                    await self.look()
            except StoreError as error:
                logger.error("sessions not ended, the store failed: %s", error)  # noqa: TRY400

    def _has_policy(self) -> bool:
        resets = self.settings.resets
        policies = (resets.default, *resets.overrides.values())
        return any(policy.mode is not ResetMode.NONE for policy in policies)

    async def look(self) -> None:
        """End the sessions that are stale now."""
        stale = await bindings.stale(
            self._store, self.settings.resets, self.settings.zone, self._serving(), limit=_AT_ONCE
        )
        for session in stale:
            if session.id not in self._set_aside:
                set_aside = partial(self._not_ended, session)
                await contain(session.id, partial(self._end, session), set_aside)

    async def _not_ended(self, session: Session, reason: str) -> None:
        self._set_aside.add(session.id)
        if session.address is not None:
            body = texts.not_ended(session.label)
            draft = Draft(key=f"expiry:{session.id}", address=session.address, body=body)
            await outbox.enqueue(self._store, draft)

    async def _end(self, session: Session) -> None:
        if (address := session.address) is None:
            return
        reason = self.settings.resets.for_address(address).expired(
            active=session.active, now=datetime.now(UTC), zone=self.settings.zone
        )
        if reason is None:
            return
        try:
            async with hold(self._store, session.id, self._places.name) as held:
                await self.note(session, address)
                await sessions.close(self._store, session.id, held.lease, reason)
        except SessionError as error:  # it is in use again
            logger.info("session not ended session=%s: %s", session.id, error)

    async def note(self, session: Session, address: Address) -> None:
        """Let the agent save notes about a session that was at `address`."""
        work = partial(self._note, session, address)
        await contain(f"note {session.id}", work, only_log)

    async def _note(self, session: Session, address: Address) -> None:
        place = self._places.place(address)
        try:
            async with asyncio.timeout(NOTE_TIMEOUT):
                await self._turns.take_synthetic_turn(session.id, place, PROMPT, only=("remember",))
        except StoreError:
            raise
        except (UserError, TimeoutError) as error:  # the session ends anyway
            logger.warning("no notes saved session=%s: %s", session.id, error)
