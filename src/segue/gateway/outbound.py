"""Deliver outbox messages in order, at the platform's rate, without dropping any. A message that
may have arrived is sent again only where an idempotency key prevents a duplicate."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from segue.core.address import Address, Platform
from segue.core.errors import ConnectFailed, DeliveryFailed, UserError
from segue.core.events import NO_ANSWER
from segue.gateway import approvals, texts, uploads
from segue.gateway.containment import contain, error_text, only_log
from segue.gateway.pace import RateLimiter, pause
from segue.gateway.streaming import Bubble
from segue.platforms import markup
from segue.platforms.base import Adapter, Button, Capabilities, Part, Receipt, Upload
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
_LONG_BODY = 10_000
_NOTICE = "unsent:"
"""Key prefix of notices about messages that were set aside."""
_NOTHING = Part(text="", plain="")

Work = Callable[[], Awaitable[None]]
SetAside = Callable[[str], Awaitable[object]]

logger = logging.getLogger(__name__)


class Outbound:
    def __init__(
        self,
        store: Store,
        adapters: Mapping[Platform, Adapter],
        connected: Callable[[], Collection[Platform]],
    ) -> None:
        """`connected` returns the platforms that can be written to now."""
        self._store = store
        self._adapters = adapters
        self._connected = connected
        self._paces = {
            name: RateLimiter(adapter.capabilities) for name, adapter in adapters.items()
        }
        self._locks: WeakValueDictionary[Address, asyncio.Lock] = WeakValueDictionary()
        self._bubbles: dict[Address, Bubble] = {}
        self._sending: dict[asyncio.Task[None], Platform] = {}
        self._in_hand: set[int] = set()
        """Outbox numbers of the messages that are being sent."""
        self._woken: Waiter | None = None
        self._recovers = 0.0
        self._recovered: frozenset[Platform] = frozenset()

    # Streaming

    def lock(self, address: Address) -> asyncio.Lock:
        """The lock to hold while writing in a chat."""
        if (lock := self._locks.get(address)) is None:
            lock = self._locks[address] = asyncio.Lock()
        return lock

    def bubble(self, address: Address) -> Bubble:
        return self._bubbles.setdefault(address, Bubble())

    def release(self, address: Address) -> None:
        """End streaming in the chat. A bubble that was not replaced stays for the next message."""
        if address in self._bubbles and not self._bubbles[address]:
            del self._bubbles[address]

    def pace(self, platform: Platform) -> RateLimiter:
        if platform not in self._paces:
            self._paces[platform] = RateLimiter(self._adapters[platform].capabilities)
        return self._paces[platform]

    def settle(self, address: Address, key: str, outcome: str) -> None:
        """Add the outcome to the message sent under `key`, and remove its buttons. Best effort: a
        late button press is refused anyway."""
        able = self._adapters[address.platform].capabilities
        if able.buttons and able.edits:
            work = partial(self._settle, address, key, outcome)
            self._begin(f"settle {key}", address, work, only_log)

    async def _settle(self, address: Address, key: str, outcome: str) -> None:
        adapter = self._adapters[address.platform]
        able = adapter.capabilities
        async with self.lock(address):  # any send of this message has finished
            asked = await self._store.outbox.get(key)
            if asked is None or not asked.receipts:
                return
            parts = await _parts(f"{asked.body}\n\n{outcome}", able)
            if len(parts) > len(asked.receipts):  # no room for the outcome
                parts = await _parts(asked.body, able)
            try:
                await self.pace(adapter.platform).turn(address)
                await adapter.edit(address, Receipt(asked.receipts[-1]), parts[-1])
            except (DeliveryFailed, ConnectFailed) as error:
                logger.info("%s keeps its buttons: %s", key, error)

    # Delivering

    async def take_over(self, platforms: Collection[Platform]) -> None:
        """Take over these platforms, including bubbles that another gateway had not finished."""
        box = self._store.outbox
        found = {a: Bubble(Receipt(r)) for a, r in (await box.bubbles(platforms)).items()}
        begun = {a: Bubble(begun=b) for a, b in (await box.begun_bubbles(platforms)).items()}
        others = {a: b for a, b in self._bubbles.items() if a.platform not in platforms}
        self._bubbles = {**others, **found, **begun}

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

    async def give_up(self, platform: Platform, seconds: float) -> None:
        """Wait up to `seconds` for messages being sent on `platform`. No more are sent there."""
        if sending := [task for task, where in self._sending.items() if where is platform]:
            await asyncio.wait(sending, timeout=seconds)

    async def finish(self, seconds: float) -> None:
        """Wait up to `seconds` for messages being sent. The rest are sent after the restart."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=seconds)
        left = set(self._sending)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

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
            logger.warning("It is not known whether %s arrived: %s", lost.key, lost.error)

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
            logger.error("How %s went could not be kept: %s", task.get_name(), error)

    async def _set_aside(self, outgoing: Outgoing, reason: str) -> None:
        """Record the failure. Only the parts with a receipt were sent."""
        logger.error("%s was not delivered to %s: %s", outgoing.key, outgoing.address, reason)
        await retries.keep(
            f"failure of {outgoing.key}",
            lambda: self._store.write(_set_aside, outgoing, reason),
        )

    async def _deliver(self, outgoing: Outgoing) -> None:
        adapter = self._adapters[outgoing.address.platform]
        self._in_hand.add(outgoing.no)
        try:
            async with self.lock(outgoing.address):
                await self._send_all(adapter, outgoing)
        except (DeliveryFailed, ConnectFailed) as error:
            await self._failed(outgoing, _as_delivery(error), adapter)
        finally:
            self._in_hand.discard(outgoing.no)

    async def _send_all(self, adapter: Adapter, outgoing: Outgoing) -> None:
        """Send the parts that have no receipt yet, and record each receipt as it arrives."""
        buttons = [Button(label, data) for label, data in outgoing.buttons]
        body = outgoing.body
        if not adapter.capabilities.buttons:
            body, buttons = approvals.without_buttons(body, buttons), []
        file = await self._file(outgoing, adapter.capabilities)
        if isinstance(file, str):
            body = f"{body}\n\n`{file}`".strip()
        parts = await _parts(body, adapter.capabilities)
        if not parts:  # an invisible message does not count as sent
            able = adapter.capabilities
            parts = [_NOTHING] if isinstance(file, Upload) else await _parts(NO_ANSWER, able)
        box = self._store.outbox
        for number, part in enumerate(parts):
            if number < len(outgoing.receipts):
                continue
            is_last = number == len(parts) - 1
            await self.pace(adapter.platform).turn(outgoing.address)
            with _faults(adapter):
                if isinstance(file, Upload) and number == 0:
                    key = f"{outgoing.key}/{number}"
                    receipt = await adapter.send_file(outgoing.address, file, part, key=key)
                else:
                    pressed = buttons if is_last else []
                    receipt = await self._send(adapter, outgoing, number, part, pressed)
            note = partial(box.sent if is_last else box.progress, outgoing, receipt)
            if not await retries.keep(f"receipt of {outgoing.key}", note):
                logger.warning("message no longer ours key=%s part=%d", outgoing.key, number)
                return
            bubble = self._bubbles.get(outgoing.address)
            if bubble is not None and bubble.receipt == receipt:
                bubble.clear()  # the store deleted it in the same transaction
        if len(parts) <= len(outgoing.receipts):
            await retries.keep(f"end of {outgoing.key}", lambda: box.sent(outgoing))

    async def _file(self, outgoing: Outgoing, able: Capabilities) -> Upload | str | None:
        if outgoing.file is None:
            return None
        data = await self._store.outbox.data(outgoing)
        return uploads.upload(Path(outgoing.file), data, able)

    async def _send(
        self,
        adapter: Adapter,
        outgoing: Outgoing,
        number: int,
        part: Part,
        buttons: list[Button],
    ) -> Receipt:
        address = outgoing.address
        bubble = self._bubbles.get(address)
        if number == 0 and bubble:
            box = self._store.outbox
            # A retry finds the bubble that the first attempt sent.
            receipt = await retries.keep(
                f"bubble of {outgoing.key}", lambda: bubble.found(box, adapter, address)
            )
            if receipt and await _edit(adapter, address, receipt, part, buttons):
                return receipt
            if not receipt:
                await retries.keep("half a message", lambda: self._tell_half(outgoing))
            await retries.keep(f"end of a bubble at {address}", lambda: box.bubble(address, None))
            bubble.clear()
        return await adapter.send(address, part, key=f"{outgoing.key}/{number}", buttons=buttons)

    async def _tell_half(self, outgoing: Outgoing) -> None:
        """Queue one notice after the answer: an interrupted bubble may still be visible there."""
        logger.warning("Half a message may be left at %s", outgoing.address)
        draft = Draft(
            key=f"half:{outgoing.key}",
            address=outgoing.address,
            body=texts.HALF,
            session_id=outgoing.session_id,
        )
        await self._store.outbox.enqueue(draft)

    async def _failed(self, outgoing: Outgoing, error: DeliveryFailed, adapter: Adapter) -> None:
        box, what = self._store.outbox, f"failure of {outgoing.key}"
        repeatable = adapter.capabilities.keys or not error.arrived
        if error.retry and repeatable and outgoing.attempt < outbox.MAX_ATTEMPTS:
            asked = error.after is not None
            seconds = error.after
            if seconds is None:
                seconds = pause(outgoing.attempt, 0.5, MAX_PAUSE)
            logger.info("%s again in %.1f s: %s", outgoing.key, seconds, error.reason)
            retry = partial(box.retry, outgoing, error.reason, seconds=seconds, asked=asked)
            await retries.keep(what, retry)
            self._later(seconds)
        elif error.arrived:
            logger.warning("It is not known whether %s arrived: %s", outgoing.key, error.reason)
            await retries.keep(what, lambda: box.uncertain(outgoing, error.reason))
        else:
            logger.error("%s was not delivered to %s: %s", outgoing.key, outgoing.address, error)
            await retries.keep(what, lambda: box.failed(outgoing, error.reason))

    def _later(self, seconds: float) -> None:
        if self._woken is not None:
            asyncio.get_running_loop().call_later(seconds, self._woken.wake)


def _set_aside(tx: Tx, outgoing: Outgoing, reason: str) -> None:
    outbox.finish(tx, outgoing, OutgoingState.FAILED, error=reason)
    if outgoing.key.startswith(_NOTICE) or outgoing.address.platform is Platform.LOCAL:
        return  # avoids endless notices; a LOCAL address means that it cannot be decoded
    outbox.enqueue(
        tx,
        Draft(key=f"{_NOTICE}{outgoing.key}", address=outgoing.address, body=texts.UNSENT),
    )


@contextlib.contextmanager
def _faults(adapter: Adapter) -> Generator[None]:
    """Treat an unexpected adapter exception as a message that may have arrived."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        logger.exception("%s failed while it was sending", adapter.platform)
        raise DeliveryFailed(
            platform=adapter.platform, reason=error_text(error), arrived=True
        ) from error


async def _parts(body: str, able: Capabilities) -> list[Part]:
    """Split and render `body`, in a thread if it is long, so that other chats are not held up."""
    if len(body) < _LONG_BODY:
        return markup.parts(body, able)
    return await asyncio.to_thread(markup.parts, body, able)


async def _edit(
    adapter: Adapter, address: Address, receipt: Receipt, part: Part, buttons: list[Button]
) -> bool:
    """Edit the message. Return False if it can no longer be edited."""
    try:
        await adapter.edit(address, receipt, part, buttons=buttons)
    except DeliveryFailed as error:
        if error.retry:  # repeating an edit is harmless, whether or not it arrived
            raise DeliveryFailed(
                platform=address.platform, reason=error.reason, retry=True, after=error.after
            ) from error
        logger.info("A message at %s is said anew: %s", address, error)
        return False
    return True


def _as_delivery(error: DeliveryFailed | ConnectFailed) -> DeliveryFailed:
    """Convert ConnectFailed: an unreachable platform got nothing, so the message can be retried."""
    if isinstance(error, DeliveryFailed):
        return error
    return DeliveryFailed(
        platform=error.fields.get("platform", ""),
        reason=str(error.fields.get("reason", error)),
        retry=True,
    )
