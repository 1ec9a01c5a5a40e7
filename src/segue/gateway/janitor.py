"""Report undelivered replies in their sessions, and prune old inbox and outbox entries."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from segue.core import provenance
from segue.core.errors import SessionError
from segue.core.session import Lease
from segue.core.text import one_line
from segue.core.transcript import Kind, Message, Role
from segue.gateway import texts
from segue.gateway.containment import contained
from segue.jobs.queries import runs
from segue.store import Store, Tx, inbox, outbox, transcripts
from segue.store.outbox import Draft, Outgoing, OutgoingState
from segue.turns import hold

POLL_SECONDS = 15.0
RETENTION = timedelta(days=7)
"""How long finished entries are kept. No platform redelivers an update after that."""
RUN_RETENTION = timedelta(days=30)
"""How long the runs of jobs are kept."""
_HOLDER = "a gateway, for a moment"
_LENGTH = 200

logger = logging.getLogger(__name__)


class Janitor:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._pruned: datetime | None = None
        self._set_aside: set[int] = set()
        """Undelivered messages that could not be reported. The store lists them all the same."""

    async def run(self) -> None:
        """Clean up until cancelled."""
        while True:
            await self.clean_up()
            await asyncio.sleep(POLL_SECONDS)

    async def clean_up(self) -> None:
        for trouble in await outbox.troubled(self._store, reported=False):
            if trouble.session_id is not None and trouble.no not in self._set_aside:
                async with contained(trouble.key, partial(self._skip, trouble.no)):
                    await self._report(trouble, trouble.session_id)
        now = datetime.now(UTC)
        if self._pruned is None or now - self._pruned > timedelta(hours=1):
            self._pruned = now
            await inbox.prune(self._store, now - RETENTION)
            await outbox.prune(self._store, now - RETENTION)
            await runs.prune(self._store, now - RUN_RETENTION)

    async def _skip(self, no: int, reason: str) -> None:
        self._set_aside.add(no)

    async def _report(self, trouble: Outgoing, session_id: str) -> None:
        """Report the failed delivery in the session, later if another process holds it. That of a
        file is also reported in its chat, once and at once: the owner allowed it, and a text is
        still in the session."""
        if trouble.file is not None:
            await outbox.enqueue(self._store, _file_notice(trouble, Path(trouble.file).name))
        try:
            async with hold(self._store, session_id, _HOLDER) as held:
                await self._store.write(_append_report, held.lease, trouble, _undelivered(trouble))
        except SessionError as error:
            logger.debug("failed delivery reported later key=%s: %s", trouble.key, error)


def _append_report(tx: Tx, lease: Lease, trouble: Outgoing, message: Message) -> None:
    transcripts.append(tx, lease, [message])
    outbox.report(tx, trouble.no)


def _file_notice(trouble: Outgoing, name: str) -> Draft:
    uncertain = trouble.state is OutgoingState.UNCERTAIN
    reason = trouble.error or "the reason is unknown"
    body = texts.file_not_sent(name, reason, uncertain=uncertain)
    return Draft(key=f"unsent:{trouble.key}", address=trouble.address, body=body)


def _undelivered(trouble: Outgoing) -> Message:
    how = "may not have arrived" if trouble.state is OutgoingState.UNCERTAIN else "did not arrive"
    said = one_line(trouble.body, _LENGTH)
    if trouble.file is not None:
        said = f"{one_line(trouble.file, _LENGTH)} {said}".strip()
    text = f"[This {how} at {trouble.address}: {said!r}. The reason: {trouble.error}]"
    # The reason is the platform's.
    by = provenance.PROGRAM | provenance.UNKNOWN
    return Message(Role.SYSTEM, text, datetime.now(UTC), kind=Kind.SYNTHETIC, provenance=by)
