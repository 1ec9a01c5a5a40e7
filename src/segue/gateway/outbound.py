"""Deliver outbox messages in order, at the platform's rate, without dropping any. A message that
may have arrived is sent again only where an idempotency key prevents a duplicate."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from segue.approvals import queries as approvals
from segue.core.address import Address, Platform
from segue.core.errors import AudienceChanged, ConnectFailed, DeliveryFailed
from segue.gateway import texts, writer
from segue.gateway.containment import contained, finish
from segue.gateway.context import GatewayContext
from segue.gateway.writer import ChatWriter
from segue.platforms.base import Capabilities
from segue.store import Topic, Tx, deliveries, doors, gateways, outbox, owners, retries, sessions
from segue.store.outbox import Draft, Outgoing, OutgoingState
from segue.store.wake import Waiter
from segue.system.backoff import pause

POLL_SECONDS = 5.0
"""Seconds between two checks when no wake-up arrives."""
RECOVER_SECONDS = 15.0
"""Seconds between two checks for messages that were interrupted while being sent."""
MAX_CONCURRENT = 32
"""Messages sent concurrently on one platform, each in a different chat. A slow platform does not
take the room of another."""
MAX_PAUSE = 300.0
PROBE_SECONDS = 60.0
"""Seconds between two attempts while the user can end the platform's pause."""
_NOTICE = "unsent:"
"""Key prefix of notices about messages that were set aside."""

logger = logging.getLogger(__name__)


class Outbound:
    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._store = context.store
        self._adapters = context.adapters
        self.writer = ChatWriter(context.store, context.adapters)
        self._sending: dict[asyncio.Task[None], Platform] = {}
        self._in_hand: set[int] = set()
        """Outbox numbers of the messages that are being sent."""
        self._served: dict[Platform, str] = {}
        """See `outbox.claim`."""
        self._woken: Waiter | None = None
        self._recovers = 0.0
        self._recovered: frozenset[Platform] = frozenset()

    def show_outcome(self, address: Address, key: str, outcome: str) -> None:
        """Add the outcome to the message sent under `key`, and remove its buttons. Best effort: a
        late button press is refused anyway."""
        able = self._adapters[address.platform].capabilities
        if able.edits and (able.buttons or able.reactions):
            work = self.writer.show_outcome(address, key, outcome)
            self._begin(f"outcome of {key}", address.platform, work)

    async def run(self) -> None:
        """Deliver queued messages until cancelled."""
        await writer.warm_up()
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
                while await outbox.is_due(self._store, self._context.connected()):
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
        connected = frozenset(self._context.connected())
        if now < self._recovers and connected <= self._recovered:
            return
        self._recovers = now + RECOVER_SECONDS
        self._recovered = connected
        await deliveries.release(self._store)
        keyed = [name for name in connected if self._adapters[name].capabilities.keys]
        ages = self._key_ages(keyed)
        alive = {gateway.process for gateway in await gateways.alive(self._store)}
        alive.add(self._store.process)
        for lost in await deliveries.recover(
            self._store,
            keyed,
            platforms=connected,
            alive=alive,
            exclude=self._in_hand,
            key_ages=ages,
        ):
            logger.warning("delivery uncertain key=%s: %s", lost.key, lost.error)

    def _key_ages(self, platforms: Iterable[Platform]) -> dict[Platform, timedelta]:
        """How long the platforms remember keys, without those that remember all."""
        ages = {name: self._adapters[name].capabilities.key_age for name in platforms}
        return {name: age for name, age in ages.items() if age is not None}

    async def _claim(self) -> bool:
        """Start sending queued messages. Return False if no more are queued."""
        rooms = {name: self._room(name) for name in self._context.connected()}
        # Room for two: one for a new message, one for those that have waited.
        open_ = [name for name, room in rooms.items() if room > 1]
        if not open_:
            return False
        limit = min(rooms[name] for name in open_)
        ages = self._key_ages(open_)
        claimed = await deliveries.claim(
            self._store, open_, limit=limit, served=self._served, key_ages=ages
        )
        for outgoing in claimed:
            if outgoing.state is OutgoingState.FAILED:  # the entry cannot be decoded
                await self._set_aside(outgoing, outgoing.error or "")
            elif outgoing.state is OutgoingState.UNCERTAIN:
                logger.warning("delivery uncertain key=%s: %s", outgoing.key, outgoing.error)
            else:
                name = f"send {outgoing.key}"
                self._begin(name, outgoing.address.platform, self._deliver(name, outgoing))
        return len(claimed) == limit

    def _room(self, platform: Platform) -> int:
        """How many more messages can be sent there now."""
        return MAX_CONCURRENT - sum(where is platform for where in self._sending.values())

    def _begin(self, name: str, platform: Platform, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=name)
        self._sending[task] = platform
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        platform = self._sending.pop(task)
        if self._woken is not None and self._room(platform) == 2:  # there was no room before
            self._woken.wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            # The journal still says "sending", so _recover will find it.
            logger.error("delivery state not stored task=%s: %s", task.get_name(), error)

    async def _set_aside(self, outgoing: Outgoing, reason: str) -> None:
        """Record the failure. Only the parts with a receipt were sent."""
        logger.error("not delivered key=%s address=%s: %s", outgoing.key, outgoing.address, reason)
        await retries.until_stored(
            f"failure of {outgoing.key}", lambda: self._store.write(_set_aside, outgoing, reason)
        )

    async def _deliver(self, name: str, outgoing: Outgoing) -> None:
        self._in_hand.add(outgoing.no)
        async with contained(name, partial(self._set_aside, outgoing)):
            try:
                if approvals.is_question(outgoing.key) and outgoing.session_id is not None:
                    await self._check_audience(outgoing, outgoing.session_id)
                await self.writer.write(outgoing)
            except DeliveryFailed as error:
                await self._failed(outgoing, error)
            except AudienceChanged as error:
                reason = str(error).rstrip(".")
                logger.warning("question held key=%s: %s", outgoing.key, reason)
                await retries.until_stored(
                    f"wait of {outgoing.key}", lambda: self._store.write(_hold, outgoing, reason)
                )
            finally:
                self._in_hand.discard(outgoing.no)

    async def _check_audience(self, outgoing: Outgoing, session_id: str) -> None:
        """Raise AudienceChanged if the chat is not as private as the owner believes, and
        DeliveryFailed if the platform cannot be asked."""
        session = await sessions.get(self._store, session_id)
        if session is None:
            return
        try:
            await self._context.audiences.check(session.owner, outgoing.address)
        except ConnectFailed as error:
            platform = outgoing.address.platform
            reason = str(error).rstrip(".")
            raise DeliveryFailed(
                platform=platform, reason=reason, retry=True, after=error.after
            ) from error

    async def _failed(self, outgoing: Outgoing, error: DeliveryFailed) -> None:
        what = f"failure of {outgoing.key}"
        able = self._adapters[outgoing.address.platform].capabilities
        seconds = _pause(outgoing, error)
        is_unconfirmed = error.arrived or outgoing.unconfirmed is not None
        repeatable = not is_unconfirmed or (able.keys and _is_known(outgoing, able, seconds))
        if (
            error.retry
            and repeatable
            and (error.ends_early or outgoing.attempt < deliveries.MAX_ATTEMPTS)
        ):
            logger.info(
                "delivery retried key=%s seconds=%.1f: %s", outgoing.key, seconds, error.reason
            )
            await retries.until_stored(
                what, lambda: self._store.write(_retry, outgoing, error, seconds)
            )
            self._later(seconds)
            return
        if is_unconfirmed:
            logger.warning("delivery uncertain key=%s: %s", outgoing.key, error.reason)
            await retries.until_stored(
                what, lambda: deliveries.uncertain(self._store, outgoing, error.reason)
            )
        else:
            logger.error(
                "not delivered key=%s address=%s: %s", outgoing.key, outgoing.address, error
            )
            await retries.until_stored(
                what, lambda: deliveries.failed(self._store, outgoing, error.reason)
            )

    def _later(self, seconds: float) -> None:
        if self._woken is not None:
            asyncio.get_running_loop().call_later(seconds, self._woken.wake)


def _is_known(outgoing: Outgoing, able: Capabilities, seconds: float) -> bool:
    """Whether the platform still knows the message's key in so many seconds. When it is claimed
    again, the store checks that again."""
    if able.key_age is None:
        return True
    now = datetime.now(UTC)
    age = now - (outgoing.unconfirmed or now)
    return age + timedelta(seconds=seconds) < able.key_age


def _pause(outgoing: Outgoing, error: DeliveryFailed) -> float:
    """Seconds until the next attempt."""
    if error.after is None:
        return pause(outgoing.attempt, 0.5, MAX_PAUSE)
    return min(error.after, PROBE_SECONDS) if error.ends_early else error.after


def _retry(tx: Tx, outgoing: Outgoing, error: DeliveryFailed, seconds: float) -> bool:
    retried = deliveries.retry(
        tx, outgoing, error.reason, seconds=seconds, asked=error.after, arrived=error.arrived
    )
    if retried and (error.after or 0) > outbox.LONG_PAUSE:
        _report_pause(tx, outgoing, error.reason)
    return retried


def _hold(tx: Tx, outgoing: Outgoing, reason: str) -> None:
    if deliveries.hold(tx, outgoing, reason, seconds=PROBE_SECONDS):
        _report_pause(tx, outgoing, reason)


def _report_pause(tx: Tx, outgoing: Outgoing, reason: str) -> None:
    """Say in the other places of the session, or else in the owner's home channels, that its
    answer waits. Each place gets one notice for a message."""
    session = outgoing.session_id and sessions.get(tx, outgoing.session_id)
    if not session:
        return
    platform = outgoing.address.platform
    places = doors.elsewhere(tx, session.id, platform) or [
        home.address for home in owners.homes(tx, session.owner) if home.platform is not platform
    ]
    body = texts.PAUSED.format(
        label=session.label, platform=platform, reason=reason, name=session.name
    )
    for place in places:
        key = f"paused:{outgoing.key}:{place.platform}"
        outbox.enqueue(tx, Draft(key=key, address=place, body=body))


def _set_aside(tx: Tx, outgoing: Outgoing, reason: str) -> None:
    deliveries.failed(tx, outgoing, reason)
    if outgoing.key.startswith(_NOTICE) or outgoing.address.platform is Platform.LOCAL:
        return  # avoids endless notices; a LOCAL address means that it cannot be decoded
    outbox.enqueue(
        tx, Draft(key=f"{_NOTICE}{outgoing.key}", address=outgoing.address, body=texts.UNSENT)
    )
