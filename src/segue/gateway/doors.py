"""Messages at a door whose session is elsewhere. The chat asks the owner what to do, and the
message waits in the inbox until the session is there or the owner has chosen another one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from msgspec.structs import replace

from segue.approvals.questions import Settle
from segue.core.address import Address
from segue.core.errors import SessionElsewhere
from segue.gateway import messages
from segue.gateway.messages import PendingMessage
from segue.store import Store, Topic, bindings, outbox
from segue.store.bindings import RESUME
from segue.store.outbox import Draft
from segue.store.wake import Waiter

POLL_SECONDS = 1.0
"""Seconds between two looks at the session: its holder releases it without a wake-up."""
NEW = "n:new"
"""The data of the button that starts a new conversation."""

Choose = Callable[[], Awaitable[bool]]
"""Run the owner's choice, if they have typed one. Return False if they have not."""


@dataclass(slots=True)
class _Waiting:
    pending: PendingMessage
    wake: Waiter
    stopped: bool = False


class DoorQuestions:
    """The messages that wait, at most one per chat. Those behind it wait in its queue."""

    def __init__(self, store: Store, settle: Settle) -> None:
        self._store = store
        self._settle = settle
        self._waiting: dict[Address, _Waiting] = {}

    async def wait(
        self, pending: PendingMessage, elsewhere: SessionElsewhere, choose: Choose
    ) -> PendingMessage | None:
        """Ask once, and wait until a session is there. Return the message, which may have been
        edited meanwhile, or None if the owner stopped it."""
        address, asking = pending.address, question(pending, elsewhere)
        topics = (Topic.INBOX, Topic.LEASES, Topic.HANDOFFS)
        async with self._store.listen(*topics) as wake:
            waiting = self._waiting[address] = _Waiting(pending, wake)
            try:
                await outbox.enqueue(self._store, asking)
                while not waiting.stopped:
                    if await bindings.enter(self._store, address, pending.owner) is None:
                        break
                    if not await choose():
                        await wake.wait(POLL_SECONDS)
            finally:
                del self._waiting[address]
        self._settle(address, asking.key, await self._outcome(waiting, elsewhere))
        return None if waiting.stopped else waiting.pending

    async def _outcome(self, waiting: _Waiting, elsewhere: SessionElsewhere) -> str:
        if waiting.stopped:
            return "✗ Stopped"
        there = await bindings.get(self._store, waiting.pending.address)
        is_here = there is not None and there.session_id == elsewhere.fields["session"]
        return "✓ It is here" if is_here else "✓ A new conversation"

    def addresses(self) -> Collection[Address]:
        return self._waiting.keys()

    def stop(self, address: Address) -> bool:
        """Give up the message that waits there. Return False if none does."""
        if (waiting := self._waiting.get(address)) is None:
            return False
        waiting.stopped = True
        waiting.wake.wake()
        return True

    def find(
        self, address: Address, wanted: Callable[[PendingMessage], bool]
    ) -> PendingMessage | None:
        """The message that waits there, if it matches."""
        waiting = self._waiting.get(address)
        return waiting.pending if waiting and wanted(waiting.pending) else None

    def replace(self, address: Address, item: PendingMessage, other: PendingMessage) -> bool:
        """Replace a message. Return False if it no longer waits."""
        waiting = self._waiting.get(address)
        if waiting is None or waiting.pending != item:
            return False
        waiting.pending = other
        return True


def question(pending: PendingMessage, elsewhere: SessionElsewhere) -> Draft:
    """The message that asks. A restarted gateway asks with the same key, so it is sent once."""
    body = f"{elsewhere} Your message waits until then."
    draft = messages.notice(pending.inbox_id, pending.address, body, "elsewhere")
    bring = f"{RESUME}:{elsewhere.fields['session']}"
    return replace(draft, buttons=(("Bring it here", bring), ("Start a new conversation", NEW)))
