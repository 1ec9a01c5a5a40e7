"""Writes messages in chats: one at a time per chat, in parts, at the platform's rate.

The first part of an answer replaces the bubble that streaming left in the chat. A long text is
rendered in a thread, so that the other chats are not held up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from segue.approvals import questions
from segue.core.address import Address, Platform
from segue.core.errors import ConnectFailed, DeliveryFailed, UserError
from segue.core.events import NO_ANSWER
from segue.gateway import reactions, texts
from segue.gateway.containment import contained, error_text
from segue.platforms import markup
from segue.platforms.base import Adapter, Button, Capabilities, Part, Receipt, Upload
from segue.platforms.spec import media_type
from segue.store import Store, bubbles, deliveries, outbox, retries
from segue.store.bindings import MOVED
from segue.store.bubbles import UnconfirmedBubble
from segue.store.outbox import Draft, Outgoing

RENDERED_AT_ONCE = 2_000
"""Characters that are rendered on the event loop. The slowest text of this length takes half of the
50 ms for which the loop may be held."""
_MAX_CHATS = 4096
_NOTHING = Part(text="", plain="")
# Each busy thread can delay the event loop by Python's switch interval at every step.
_threads = ThreadPoolExecutor(2, thread_name_prefix="render")
T = TypeVar("T")
logger = logging.getLogger(__name__)


class ChatWriter:
    def __init__(self, store: Store, adapters: Mapping[Platform, Adapter]) -> None:
        self._store = store
        self._adapters = adapters
        self._rate_limiters: dict[Platform, RateLimiter] = {}
        self._locks: WeakValueDictionary[Address, asyncio.Lock] = WeakValueDictionary()
        self._bubbles: dict[Address, Bubble] = {}

    def lock(self, address: Address) -> asyncio.Lock:
        """The lock to hold while writing in a chat."""
        if (lock := self._locks.get(address)) is None:
            lock = self._locks[address] = asyncio.Lock()
        return lock

    def bubble(self, address: Address) -> Bubble:
        return self._bubbles.setdefault(address, Bubble())

    def release(self, address: Address) -> None:
        """End streaming in the chat. What was not replaced stays for the next message."""
        bubble = self._bubbles.get(address)
        if bubble is not None and not (bubble or bubble.words):
            del self._bubbles[address]

    def rate_limiter(self, platform: Platform) -> RateLimiter:
        if platform not in self._rate_limiters:
            self._rate_limiters[platform] = RateLimiter(self._adapters[platform].capabilities)
        return self._rate_limiters[platform]

    async def take_over(self, platforms: Collection[Platform]) -> None:
        """Load the bubbles on these platforms that another gateway had not finished."""
        found = {
            a: Bubble(Receipt(r)) for a, r in (await bubbles.shown(self._store, platforms)).items()
        }
        begun = {
            a: Bubble(begun=b) for a, b in (await bubbles.begun(self._store, platforms)).items()
        }
        others = {a: b for a, b in self._bubbles.items() if a.platform not in platforms}
        self._bubbles = {**others, **found, **begun}

    async def write(self, outgoing: Outgoing) -> None:
        """Send the parts that have no receipt yet, and record each receipt as it arrives."""
        async with self.lock(outgoing.address):
            await self._write(self._adapters[outgoing.address.platform], outgoing)

    async def _write(self, adapter: Adapter, outgoing: Outgoing) -> None:
        able = adapter.capabilities
        buttons = [Button(label, data, questions.typed(data)) for label, data in outgoing.buttons]
        asks = bool(buttons)
        body = outgoing.body
        file = None
        if not able.buttons:
            if able.reactions and adapter.trusts_reactions(outgoing.address):
                body = reactions.offer(body, buttons)
            body = questions.without_buttons(body, buttons)
            buttons = []
        if outgoing.file is not None:
            file = upload(Path(outgoing.file), await outbox.data(self._store, outgoing), able)
        if isinstance(file, str):
            body = f"{body}\n\n`{file}`".strip()
        parts = await _messages(body, file, able, asks=asks)
        for number, (attached, part) in list(enumerate(parts))[len(outgoing.receipts) :]:
            is_last = number == len(parts) - 1
            await self.rate_limiter(adapter.platform).wait(outgoing.address)
            with _faults(adapter):
                if attached is not None:
                    key = f"{outgoing.key}/{number}"
                    receipt = await adapter.send_file(outgoing.address, attached, part, key=key)
                else:
                    pressed = buttons if is_last else []
                    receipt = await self._send(adapter, outgoing, number, part, pressed)
            note = partial(
                deliveries.sent if is_last else deliveries.progress, self._store, outgoing, receipt
            )
            if not await retries.until_stored(f"receipt of {outgoing.key}", note):
                logger.warning("message no longer ours key=%s part=%d", outgoing.key, number)
                return
            bubble = self._bubbles.get(outgoing.address)
            if bubble is not None and bubble.receipt == receipt:
                bubble.clear()  # the store deleted it in the same transaction
        if len(parts) <= len(outgoing.receipts):
            await retries.until_stored(
                f"end of {outgoing.key}", lambda: deliveries.sent(self._store, outgoing)
            )

    async def _send(
        self, adapter: Adapter, outgoing: Outgoing, number: int, part: Part, buttons: list[Button]
    ) -> Receipt:
        address = outgoing.address
        if outgoing.key.startswith(MOVED):
            await self._mark_interrupted(adapter, outgoing)
        bubble = self._bubbles.get(address)
        if number == 0 and bubble:
            # A retry finds the bubble that the first attempt sent.
            receipt = await retries.until_stored(
                f"bubble of {outgoing.key}", lambda: bubble.found(self._store, adapter, address)
            )
            if receipt and await _edit(adapter, address, receipt, part, buttons):
                return receipt
            if not (receipt and adapter.capabilities.edits_later):
                await retries.until_stored("half a message", lambda: self._warn_of_half(outgoing))
            await retries.until_stored(
                f"end of a bubble at {address}", lambda: bubbles.put(self._store, address, None)
            )
            bubble.clear()
        return await adapter.send(address, part, key=f"{outgoing.key}/{number}", buttons=buttons)

    async def _mark_interrupted(self, adapter: Adapter, outgoing: Outgoing) -> None:
        """Leave the words of an unfinished answer there, marked as interrupted: the session left
        with its turn."""
        address = outgoing.address
        bubble = self._bubbles.get(address)
        if bubble is None or not bubble.words:
            return
        parts = await rendered_parts(f"{bubble.words}{texts.INTERRUPTED}", adapter.capabilities)
        if bubble.receipt:
            await _edit(adapter, address, bubble.receipt, parts.pop(0), [])
        for number, part in enumerate(parts):
            await adapter.send(address, part, key=f"interrupted:{outgoing.key}/{number}")
        await retries.until_stored(
            f"end of a bubble at {address}", lambda: bubbles.put(self._store, address, None)
        )
        self._bubbles.pop(address).clear()  # the turn may not know yet that it is over

    async def _warn_of_half(self, outgoing: Outgoing) -> None:
        """Queue one notice after the answer: an interrupted bubble may still be visible there."""
        logger.warning("half a message may be left address=%s", outgoing.address)
        draft = Draft(
            key=f"half:{outgoing.key}",
            address=outgoing.address,
            body=texts.HALF,
            session_id=outgoing.session_id,
        )
        await outbox.enqueue(self._store, draft)

    async def show_outcome(self, address: Address, key: str, outcome: str) -> None:
        """Add the outcome of a question to each of its messages, and remove the buttons."""
        adapter = self._adapters[address.platform]
        able = adapter.capabilities
        # With the lock, any send of these messages has finished.
        async with contained(f"outcome of {key}"), self.lock(address):
            for asked in await outbox.asking(self._store, key):
                if not asked.receipts:
                    continue
                # Cut as they were sent, so that the last part is that of the last receipt.
                parts = await rendered_parts(f"{asked.body}\n\n{outcome}", able, buttons=True)
                if len(parts) > len(asked.receipts):  # no room for the outcome
                    parts = await rendered_parts(asked.body, able, buttons=True)
                try:
                    await self.rate_limiter(adapter.platform).wait(address)
                    await adapter.edit(address, Receipt(asked.receipts[-1]), parts[-1])
                except (DeliveryFailed, ConnectFailed) as error:
                    logger.info("buttons not removed key=%s: %s", asked.key, error)


def upload(path: Path, data: bytes, able: Capabilities) -> Upload | str:
    """The file to send, or a sentence for the user that explains why it cannot be sent. Its content
    was read when sending it was approved."""
    if not able.files:
        return f"{path} (it stays on the machine: no files can be sent here)"
    if not data:
        return f"{path} (what was in it is no longer known; ask for it again)"
    if len(data) > able.upload_bytes:
        megabytes = able.upload_bytes // 1024**2
        return f"{path} (it stays on the machine: only {megabytes} MB can be sent here)"
    return Upload(path.name, media_type(path.name), data)


@contextlib.contextmanager
def _faults(adapter: Adapter) -> Generator[None]:
    """Raise DeliveryFailed for every failure. An unreachable platform got nothing. After an
    unexpected exception, the message may have arrived."""
    try:
        yield
    except ConnectFailed as error:
        reason = str(error.fields.get("reason", error))
        raise DeliveryFailed(platform=adapter.platform, reason=reason, retry=True) from error
    except UserError:
        raise
    except Exception as error:
        logger.exception("adapter failed while sending platform=%s", adapter.platform)
        raise DeliveryFailed(
            platform=adapter.platform, reason=error_text(error), arrived=True
        ) from error


async def _messages(
    body: str, file: Upload | str | None, able: Capabilities, *, asks: bool
) -> list[tuple[Upload | None, Part]]:
    """The messages of a body, each with its file, if it has one. If it `asks` the user to choose,
    the last one can have buttons, and long code in it is not sent as a file. A message that shows
    nothing does not count as sent."""
    parts = partial(rendered_parts, body, able, buttons=asks)
    if isinstance(file, Upload):
        first, *rest = await parts() or [_NOTHING]
        return [(file, first), *((None, part) for part in rest)]
    pieces = await (parts() if asks else rendered(markup.pieces, body, able))
    found = pieces or await rendered_parts(NO_ANSWER, able)
    return [(it, _NOTHING) if isinstance(it, Upload) else (None, it) for it in found]


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
        logger.info("message sent again address=%s: %s", address, error)
        return False
    return True


class Bubble:
    """The message in a chat that is still being edited."""

    def __init__(
        self, receipt: Receipt | None = None, begun: UnconfirmedBubble | None = None
    ) -> None:
        self.receipt = receipt
        """None if there is no bubble, or if its receipt is unknown."""
        self.begun = begun
        """How the bubble was first sent, while it is unknown whether it arrived."""
        self.shown = ""
        self.words = ""
        """The words of an unfinished answer that the user sees, in the bubble or in a preview."""

    def __bool__(self) -> bool:
        """Whether there is a bubble, or may be one."""
        return self.receipt is not None or self.begun is not None

    async def found(self, store: Store, adapter: Adapter, address: Address) -> Receipt | None:
        """Return the bubble's receipt, or None if it is lost. On a platform with idempotency keys
        the bubble is sent again under its key, which creates no second message."""
        if self.receipt is None and self.begun is not None and adapter.capabilities.keys:
            parts = await rendered_parts(self.begun.body, adapter.capabilities)
            try:
                self.receipt = await adapter.send(address, parts[0], key=self.begun.key)
            except DeliveryFailed as error:
                if error.retry:
                    raise
                logger.info("message sent again address=%s: %s", address, error)
                return None
            await bubbles.put(store, address, self.receipt)
        return self.receipt

    def clear(self) -> None:
        """Forget the bubble."""
        self.receipt = None
        self.begun = None
        self.shown = ""
        self.words = ""


class RateLimiter:
    """Limits of a platform: a burst per chat, then a steady rate, and a rate for all chats."""

    def __init__(
        self, capabilities: Capabilities, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._capabilities = capabilities
        self._clock = clock
        self._all = 0.0
        self._chats: OrderedDict[str, float] = OrderedDict()

    async def wait(self, address: Address) -> None:
        """Wait until a message may be sent at `address`."""
        if (seconds := self.due(address)) > 0:
            await asyncio.sleep(seconds)

    def due(self, address: Address) -> float:
        """Reserve a slot for one message, and return the seconds until it may be sent."""
        able = self._capabilities
        now = self._clock()
        # Each message reserves its share of time. Time in the past is the available burst.
        self._all = max(self._all, now - 1.0) + 1 / able.per_second
        chat = max(self._chats.pop(address.chat_id, 0.0), now - able.chat_burst * able.chat_seconds)
        self._chats[address.chat_id] = chat + able.chat_seconds
        while len(self._chats) > _MAX_CHATS:
            self._chats.popitem(last=False)
        return max(self._all, self._chats[address.chat_id]) - now


async def warm_up() -> None:
    """Import in a thread what rendering needs, so that the first message does not hold the loop."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(_threads, markup.parts, "*words*", Capabilities())


async def rendered_parts(body: str, able: Capabilities, *, buttons: bool = False) -> list[Part]:
    """Return `body` as messages for the platform, as `markup.parts` does."""
    return await rendered(partial(markup.parts, buttons=buttons), body, able)


async def rendered(render: Callable[[str, Capabilities], T], body: str, able: Capabilities) -> T:
    """Return what `render` makes of `body`."""
    if len(body) <= RENDERED_AT_ONCE:
        return render(body, able)
    return await asyncio.get_running_loop().run_in_executor(_threads, render, body, able)
