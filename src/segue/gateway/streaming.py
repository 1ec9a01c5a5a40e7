"""What the user sees while the agent works: the typing indicator, and a message, the bubble, with
the tools in use and the answer as it is written. The first part of the answer replaces the bubble.
On platforms with previews there is no bubble: the answer replaces the preview."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Generator

from segue.core import events
from segue.core.address import Address
from segue.core.errors import ConnectFailed, DeliveryFailed, StoreError
from segue.core.text import is_empty, one_line
from segue.core.transcript import Role
from segue.gateway import writer
from segue.gateway.containment import cancel, contained
from segue.gateway.context import GatewayContext
from segue.gateway.writer import ChatWriter
from segue.platforms.base import Part
from segue.platforms.markup.growing import GrowingText
from segue.store import bubbles
from segue.store.bubbles import UnconfirmedBubble

TYPING_DELAY = 0.2
"""Seconds before the typing indicator appears. An immediate answer needs none."""
BUBBLE_DELAY = 0.7
"""Seconds before the bubble is sent. A quick answer needs none."""
LIVE_LENGTH = 16_000
"""Characters of an unfinished answer that are rendered for a redraw."""
_MORE = " …"
_TOOL_LENGTH = 60

logger = logging.getLogger(__name__)


class LiveAnswer:
    """Shows one turn in one chat while it runs."""

    def __init__(
        self,
        context: GatewayContext,
        chats: ChatWriter,
        address: Address,
        session_id: str,
        inbox_id: int,
    ) -> None:
        """`inbox_id` is the entry that the turn answers."""
        self._store = context.store
        self._adapter = context.adapters[address.platform]
        self._address = address
        self._session_id = session_id
        self._inbox_id = inbox_id
        self._chat_lock = chats.lock(address)
        self._limiter = chats.rate_limiter(address.platform)
        self._bubble = chats.bubble(address)
        self._bubble.words = ""
        self._text = GrowingText(LIVE_LENGTH)
        self._activity = ""
        self._tools: Counter[str] = Counter()
        self._dirty = asyncio.Event()
        self._drawing = asyncio.Lock()
        self._preview: str | None = None
        """The key of the preview of the current answer."""
        self._is_full = False
        """Whether the bubble shows all that fits into one message."""
        self._is_refused = False
        """Whether the platform refused a bubble. Another might still reach other members of a
        group, again and again."""

    def handle(self, event: events.Event) -> None:
        match event:
            case events.TextDelta(text):
                self._text.add(text)
            case events.ToolStarted(call):
                self._tools[call.name] += 1
                self._activity = _activity(self._tools)
            case events.Compressing():
                self._activity = "Summarising the conversation…"
            case events.ApprovalNeeded():
                self._activity = "Waiting for your answer…"
            case events.MessageAdded(message) if message.role is Role.ASSISTANT:
                # This text is already queued for delivery.
                self._text = GrowingText(LIVE_LENGTH)
                self._bubble.words = ""
                self._preview = None
                self._is_full = False
            case _:
                return
        self._dirty.set()

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Show the turn while this context is open."""
        tasks: list[asyncio.Task[None]] = []

        def begin() -> None:
            tasks.append(asyncio.create_task(self._type()))
            if self._adapter.capabilities.edits or self._adapter.previews(self._address):
                tasks.append(asyncio.create_task(self._draw()))

        beginning = asyncio.get_running_loop().call_later(TYPING_DELAY, begin)
        try:
            yield
        finally:
            beginning.cancel()
            try:
                await self._drawing.acquire()  # a bubble being sent gets its receipt first
            finally:
                await cancel(*tasks)

    async def _type(self) -> None:
        able = self._adapter.capabilities
        async with contained(f"typing at {self._address}"):
            while able.typing:
                with _unimportant():
                    await self._adapter.typing(self._address)
                await asyncio.sleep(able.typing_seconds * 0.8)

    async def _draw(self) -> None:
        await asyncio.sleep(BUBBLE_DELAY - TYPING_DELAY)
        stays = self._adapter.capabilities.preview_seconds
        async with contained(f"live answer at {self._address}"):
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(stays):
                        await self._dirty.wait()
                self._dirty.clear()
                async with self._chat_lock, self._drawing:  # deliveries come first
                    with _unimportant():
                        await self._update()
                await asyncio.sleep(self._adapter.capabilities.edit_seconds)

    async def _update(self) -> None:
        bubble = self._bubble
        # The caller holds the chat's lock: what is sent after this replaces the bubble.
        last = await bubbles.progress_after(
            self._store, self._address, self._session_id, self._inbox_id
        )
        if last is None:
            self._dirty.set()
            return
        if not bubble and self._adapter.previews(self._address):
            await self._show_preview(f"{self._session_id}/{last}")
        elif not (self._is_refused or (self._is_full and bubble.receipt)):
            await self._show_bubble()

    async def _show_preview(self, key: str) -> None:
        """Show the end of the text, as much as fits into one message."""
        able = self._adapter.capabilities
        if able.preview_dialect is not None:
            able = dataclasses.replace(able, dialect=able.preview_dialect)
        text = self._text
        words = _words(text.tail)
        parts = await writer.rendered_parts(words + _MORE if words else self._activity, able)
        if not parts or text is not self._text:  # it was queued for delivery meanwhile
            return
        self._preview = self._preview or key
        await self._adapter.preview(self._address, parts[-1], key=self._preview)
        if text is self._text:
            self._bubble.words = text.whole.rstrip() if words else ""

    async def _show_bubble(self) -> None:
        """Show the beginning of the text, as much as fits into one message."""
        bubble = self._bubble
        text = self._text
        words = _words(text.head)
        shown = words + _MORE if words else self._activity
        if shown == bubble.shown:
            return
        parts = await writer.rendered_parts(shown, self._adapter.capabilities)
        if not parts or text is not self._text:  # it was queued for delivery meanwhile
            return
        self._is_full = len(parts) > 1
        if self._is_full and bubble.receipt:
            return
        await self._limiter.wait(self._address)
        if not bubble:
            await self._begin(shown, parts[0])
        elif receipt := await bubble.found(self._store, self._adapter, self._address):
            await self._adapter.edit(self._address, receipt, parts[0])
        bubble.shown = shown
        bubble.words = words if text is self._text else ""

    async def _begin(self, text: str, part: Part) -> None:
        """Send the bubble. The store records it first, so that it is found again after a crash."""
        bubble = self._bubble
        bubble.begun = UnconfirmedBubble(f"bubble:{secrets.token_hex(12)}", text)
        key = bubble.begun.key
        body = bubble.begun.body
        await bubbles.begin(self._store, self._address, key, body, self._session_id)
        try:
            bubble.receipt = await self._adapter.send(self._address, part, key=key)
        except (DeliveryFailed, ConnectFailed) as error:
            self._is_refused = isinstance(error, DeliveryFailed) and not error.retry
            if isinstance(error, ConnectFailed) or not error.arrived:
                bubble.clear()
                await bubbles.put(self._store, self._address, None)
            raise
        await bubbles.put(self._store, self._address, bubble.receipt, self._session_id)


def _words(text: str) -> str:
    """`text` without trailing whitespace, or "" if it shows nothing."""
    return "" if is_empty(text) else text.rstrip()


def _activity(tools: Counter[str]) -> str:
    """One line that lists the tools used so far."""
    names = ", ".join(name if n == 1 else f"{name} ×{n}" for name, n in tools.items())
    return f"`{one_line(names, _TOOL_LENGTH)}` …"


@contextlib.contextmanager
def _unimportant() -> Generator[None]:
    """Suppress errors of the live display: the answer itself is delivered separately."""
    try:
        yield
    except (DeliveryFailed, ConnectFailed, StoreError) as error:
        logger.debug("live display failed: %s", error)
