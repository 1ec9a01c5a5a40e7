"""Deliver outbox messages in order, at the platform's rate, without dropping any. A message that
may have arrived is sent again only where an idempotency key prevents a duplicate."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from segue.core.address import Address, Platform
from segue.core.errors import DeliveryFailed
from segue.gateway import texts
from segue.gateway.containment import contain, finish, only_log
from segue.gateway.pace import pause
from segue.gateway.places import PlatformsNow
from segue.gateway.writer import ChatWriter
from segue.platforms.base import Adapter
from segue.store import Store, Topic, outbox, retries
from segue.store.base import Tx
from segue.store.outbox import Draft, Outgoing, OutgoingState
from segue.store.wake import Waiter

POLL_SECONDS = 5.0
"""Seconds between two checks when no wake-up arrives."""
RECOVER_SECONDS = 15.0
"""Seconds between two checks for messages that were interrupted while being sent."""
MAX_CONCURRENT = 64
"""Messages sent concurrently, each in a different chat."""
MAX_PAUSE = 300.0
_NOTICE = "unsent:"
"""Key prefix of notices about messages that were set aside."""

Work = Callable[[], Awaitable[None]]
SetAside = Callable[[str], Awaitable[object]]

logger = logging.getLogger(__name__)


class Outbound:
    def __init__(
        self, store: Store, adapters: Mapping[Platform, Adapter], connected: PlatformsNow
    ) -> None:
        """`connected` returns the platforms that can be written to now."""
        self._store = store
        self._adapters = adapters
        self._connected = connected
        self.writer = ChatWriter(store, adapters)
        self._sending: dict[asyncio.Task[None], Platform] = {}
        self._in_hand: set[int] = set()
        """Outbox numbers of the messages that are being sent."""
        self._woken: Waiter | None = None
        self._recovers = 0.0
        self._recovered: frozenset[Platform] = frozenset()

    def settle(self, address: Address, key: str, outcome: str) -> None:
        """Add the outcome to the message sent under `key`, and remove its buttons. Best effort: a
        late button press is refused anyway."""
        able = self._adapters[address.platform].capabilities
        if able.edits and (able.buttons or able.reactions):
            work = partial(self.writer.show_outcome, address, key, outcome)
            self._begin(f"settle {key}", address, work, only_log)

    async def run(self) -> None:
        """Deliver queued messages until cancelled."""
        async with self._store.listen(Topic.OUTBOX) as wake:
            self._woken = wake
            while True:
                await self._recover()
                if not await self._claim():
                    await wake.wait(POLL_SECONDS)

    async def flush(self, seconds: float) -> None:
        """Wait up to `seconds` until no queued message can be sent."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._store.listen(Topic.SENT) as wake:
                while await self._store.outbox.due(self._connected()):
                    await wake.wait(POLL_SECONDS)

    async def release(self, platform: Platform, seconds: float) -> None:
        """Wait up to `seconds` for messages being sent on `platform`. No more are sent there."""
        if sending := [task for task, where in self._sending.items() if where is platform]:
            await asyncio.wait(sending, timeout=seconds)

    async def finish(self, seconds: float) -> None:
        """Wait up to `seconds` for messages being sent. The rest are sent after the restart."""
        await finish(self._sending, seconds)

    async def _recover(self) -> None:
        """Recover messages that a dead gateway was sending, and messages that we sent but could not
        record. Runs when a platform connects, because its capabilities are certain only then, and
        every RECOVER_SECONDS."""
        now = asyncio.get_running_loop().time()
        connected = frozenset(self._connected())
        if now < self._recovers and connected <= self._recovered:
            return
        self._recovers, self._recovered = now + RECOVER_SECONDS, connected
        keyed = [name for name in connected if self._adapters[name].capabilities.keys]
        alive = {gateway.process for gateway in await self._store.gateways.alive()}
        alive.add(self._store.process)
        for lost in await self._store.outbox.recover(
            keyed, platforms=connected, alive=alive, besides=self._in_hand
        ):
            logger.warning("delivery uncertain key=%s: %s", lost.key, lost.error)

    async def _claim(self) -> bool:
        """Start sending queued messages. Return False if no more are queued."""
        room = MAX_CONCURRENT - len(self._sending)
        if room <= 0:
            await asyncio.wait(self._sending, return_when=asyncio.FIRST_COMPLETED)
            return True
        claimed = await self._store.outbox.claim(self._connected(), limit=room)
        for outgoing in claimed:
            set_aside = partial(self._set_aside, outgoing)
            if outgoing.state is OutgoingState.FAILED:  # the entry cannot be decoded
                await set_aside(outgoing.error or "")
            else:
                work = partial(self._deliver, outgoing)
                self._begin(f"send {outgoing.key}", outgoing.address, work, set_aside)
        return len(claimed) == room

    def _begin(self, name: str, address: Address, work: Work, set_aside: SetAside) -> None:
        task = asyncio.create_task(contain(name, work, set_aside), name=name)
        self._sending[task] = address.platform
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        del self._sending[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            # The journal still says "sending", so _recover will find it.
            logger.error("delivery state not stored task=%s: %s", task.get_name(), error)

    async def _set_aside(self, outgoing: Outgoing, reason: str) -> None:
        """Record the failure. Only the parts with a receipt were sent."""
        logger.error("not delivered key=%s address=%s: %s", outgoing.key, outgoing.address, reason)
        await retries.keep(
            f"failure of {outgoing.key}", lambda: self._store.write(_set_aside, outgoing, reason)
        )

    async def _deliver(self, outgoing: Outgoing) -> None:
        self._in_hand.add(outgoing.no)
        try:
            await self.writer.write(outgoing)
        except DeliveryFailed as error:
            await self._failed(outgoing, error)
        finally:
            self._in_hand.discard(outgoing.no)

    async def _failed(self, outgoing: Outgoing, error: DeliveryFailed) -> None:
        box, what = self._store.outbox, f"failure of {outgoing.key}"
        able = self._adapters[outgoing.address.platform].capabilities
        repeatable = able.keys or not error.arrived
        if error.retry and repeatable and outgoing.attempt < outbox.MAX_ATTEMPTS:
            asked, reason = error.after is not None, error.reason
            seconds = (
                pause(outgoing.attempt, 0.5, MAX_PAUSE) if error.after is None else error.after
            )
            logger.info("delivery retried key=%s seconds=%.1f: %s", outgoing.key, seconds, reason)
            retry = partial(box.retry, outgoing, reason, seconds=seconds, asked=asked)
            await retries.keep(what, retry)
            self._later(seconds)
        elif error.arrived:
            logger.warning("delivery uncertain key=%s: %s", outgoing.key, error.reason)
            await retries.keep(what, lambda: box.uncertain(outgoing, error.reason))
        else:
            logger.error(
                "not delivered key=%s address=%s: %s", outgoing.key, outgoing.address, error
            )
            await retries.keep(what, lambda: box.failed(outgoing, error.reason))

    def _later(self, seconds: float) -> None:
        if self._woken is not None:
            asyncio.get_running_loop().call_later(seconds, self._woken.wake)


def _set_aside(tx: Tx, outgoing: Outgoing, reason: str) -> None:
    outbox.finish(tx, outgoing, OutgoingState.FAILED, error=reason)
    if outgoing.key.startswith(_NOTICE) or outgoing.address.platform is Platform.LOCAL:
        return  # avoids endless notices; a LOCAL address means that it cannot be decoded
    outbox.enqueue(
        tx, Draft(key=f"{_NOTICE}{outgoing.key}", address=outgoing.address, body=texts.UNSENT)
    )
