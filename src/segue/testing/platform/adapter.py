"""An Adapter for the test platform, which can stand in for any platform.

To use it, set `segue.testing.platform.adapter:make` in the settings.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from typing import TypeVar

from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.core.text import one_line, whole
from segue.platforms.base import (
    Adapter,
    Attachment,
    Button,
    Capabilities,
    Dialect,
    Finding,
    Inbound,
    MenuEntry,
    Part,
    Receipt,
    Upload,
)
from segue.platforms.spec import PlatformSettings
from segue.testing.platform.client import Client, Lost, Refused
from segue.testing.platform.parser import address, parse
from segue.testing.platform.wire import (
    AskMe,
    AskUpdates,
    Batch,
    Edit,
    Format,
    GetFile,
    Me,
    Opened,
    OpenThread,
    Rules,
    Send,
    SendFile,
    Sent,
    SetMenu,
    ShowPreview,
    ShowTyping,
    WireButton,
    WireEntry,
)

_POLL_SECONDS = 20.0
_SILENCE = 10.0
_TITLE_LIMIT = 128

T = TypeVar("T")


def make(settings: PlatformSettings) -> Adapter:
    """Return an unconnected adapter that stands in for the platform of `settings`."""
    return PeerAdapter(settings.platform, settings.value("url"), settings.value("token"))


class PeerAdapter:
    """One account on the test platform."""

    def __init__(
        self, platform: Platform, url: str, token: str, *, silence: float = _SILENCE
    ) -> None:
        """`silence` is how many seconds a call waits for an answer before it counts as lost."""
        self._platform = platform
        self._url = url
        self._token = token
        self._silence = silence
        self._client: Client | None = None
        self._me = Me(id="", name="", rules=Rules())
        self._offset: int | None = None

    @property
    def platform(self) -> Platform:
        return self._platform

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities that `me` reported."""
        rules = self._me.rules
        return Capabilities(
            threads=rules.threads,
            edits=rules.edits,
            buttons=rules.buttons,
            typing=rules.typing,
            files=rules.files,
            keys=rules.keys,
            length=rules.length,
            unit=rules.unit,
            dialect=rules.dialect,
            per_second=rules.per_second,
            chat_seconds=rules.chat_seconds,
            chat_burst=rules.chat_burst,
            edit_seconds=rules.edit_seconds,
            typing_seconds=rules.typing_seconds,
            attachment_bytes=rules.attachment_bytes,
            upload_bytes=rules.upload_bytes,
        )

    @property
    def account(self) -> str:
        return self._me.id

    def pairing_link(self, code: str) -> str | None:
        link = self._me.rules.link
        return None if link is None else link.replace("{code}", code)

    async def connect(self) -> None:
        await self.close()
        with self._connecting():
            self._client = Client(self._url, self._token, silence=self._silence)
            self._me = await self._client.call("me", AskMe(), Me)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        while True:
            asked = AskUpdates(offset=self._offset, seconds=_POLL_SECONDS)
            with self._connecting():
                batch = await self._connected().call("updates", asked, Batch, seconds=_POLL_SECONDS)
            yield None
            for frame in batch.frames:
                if (inbound := parse(self._platform, frame)) is not None:
                    yield inbound
            # The next poll sends this offset and so confirms the batch, once all of it is recorded.
            self._offset = batch.next

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        async def send(text: str, form: Format) -> Sent:
            call = Send(
                chat=to.chat_id,
                thread=to.thread_id,
                text=whole(text),
                format=form,
                key=self._key(key),
                buttons=_wire(buttons),
            )
            return await self._connected().call("send", call, Sent)

        with self._delivering():
            return Receipt((await self._in_markup(part, send)).id)

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        async def edit(text: str, form: Format) -> None:
            call = Edit(
                chat=at.chat_id,
                message=receipt,
                text=whole(text),
                format=form,
                buttons=_wire(buttons),
            )
            await self._connected().call("edit", call, type(None))

        with self._delivering():
            try:
                await self._in_markup(part, edit)
            except Refused as refused:
                if refused.refusal.code != "not_changed":
                    raise

    def acknowledge(self, press: Inbound) -> None:
        """Do nothing: this platform's buttons need no acknowledgement."""

    async def send_file(self, to: Address, file: Upload, part: Part, *, key: str) -> Receipt:
        async def send(text: str, form: Format) -> Sent:
            call = SendFile(
                chat=to.chat_id,
                thread=to.thread_id,
                text=whole(text),
                format=form,
                name=whole(file.name),
                media_type=file.media_type,
                data=file.data,
                key=self._key(key),
            )
            return await self._connected().call("send_file", call, Sent)

        with self._delivering():
            return Receipt((await self._in_markup(part, send)).id)

    def how_to_address(self, at: Address) -> str:
        named = self._me.rules.mentions and at.thread_id is None
        return "Name @bot in this chat." if named and at.chat_type is not ChatType.DM else ""

    def previews(self, at: Address) -> bool:
        return self._me.rules.previews

    async def preview(self, at: Address, part: Part, *, key: str) -> None:
        async def show(text: str, form: Format) -> None:
            call = ShowPreview(
                chat=at.chat_id, thread=at.thread_id, text=whole(text), format=form, key=key
            )
            await self._connected().call("preview", call, type(None))

        with self._delivering():
            await self._in_markup(part, show)

    async def typing(self, at: Address) -> None:
        call = ShowTyping(chat=at.chat_id, thread=at.thread_id)
        with self._delivering():
            await self._connected().call("typing", call, type(None))

    async def fetch(self, attachment: Attachment) -> bytes:
        with self._delivering():
            return await self._connected().content("file", GetFile(file=attachment.id))

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        if not self.capabilities.threads:
            return None
        name = one_line(title, _TITLE_LIMIT) or "Handoff"
        call = OpenThread(chat=home.chat_id, title=name, key=self._key(key))
        with self._delivering():
            try:
                opened = await self._connected().call("open_thread", call, Opened)
            except Refused as refused:
                if refused.refusal.code in ("no_threads", "no_permission"):
                    return None
                raise
        return address(self._platform, opened.chat, opened.thread)

    async def offer(self, menu: Sequence[MenuEntry]) -> None:
        entries = tuple(WireEntry(entry.name, entry.help) for entry in menu)
        with self._delivering():
            await self._connected().call("menu", SetMenu(menu=entries), type(None))

    async def find_chat(self, chat_id: str) -> HomeChannel | None:
        return None

    async def examine(self, home: Address | None) -> Sequence[Finding]:
        return ()

    def _key(self, key: str) -> str | None:
        return key if self.capabilities.keys else None

    async def _in_markup(self, part: Part, deliver: Callable[[str, Format], Awaitable[T]]) -> T:
        """Deliver the part in the platform's markup, or as plain text if the markup is refused."""
        if self.capabilities.dialect is Dialect.PLAIN:
            return await deliver(part.plain, "plain")
        try:
            return await deliver(part.text, "markup")
        except Refused as refused:
            if refused.refusal.code != "bad_markup":
                raise
        return await deliver(part.plain, "plain")

    def _connected(self) -> Client:
        if self._client is None:
            raise ConnectFailed(platform=self._platform, reason="it is not connected")
        return self._client

    @contextlib.contextmanager
    def _connecting(self) -> Generator[None]:
        try:
            yield
        except Refused as refused:
            raise ConnectFailed(platform=self._platform, reason=_reason(refused)) from refused
        except Lost as lost:
            raise ConnectFailed(platform=self._platform, reason=lost.reason) from lost

    @contextlib.contextmanager
    def _delivering(self) -> Generator[None]:
        try:
            yield
        except Refused as refused:
            broken = refused.status >= 500
            raise DeliveryFailed(
                platform=self._platform,
                reason=_reason(refused),
                retry=broken or refused.status == 429,
                after=refused.refusal.retry_after,
                # A server error may happen after the effect.
                arrived=broken,
            ) from refused
        except Lost as lost:
            raise DeliveryFailed(
                platform=self._platform, reason=lost.reason, retry=True, arrived=lost.arrived
            ) from lost


def _reason(refused: Refused) -> str:
    return refused.refusal.reason.rstrip(".")


def _wire(buttons: Sequence[Button]) -> tuple[WireButton, ...]:
    return tuple(WireButton(button.label, button.data) for button in buttons)
