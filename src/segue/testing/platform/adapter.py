"""An Adapter for the test platform, which can stand in for any platform.

To use it, set `segue.testing.platform.adapter:make` in the settings.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

from segue.core.address import Address, ChatType, Platform
from segue.core.text import whole
from segue.platforms import sending
from segue.platforms.adapter import BaseAdapter
from segue.platforms.base import (
    Adapter,
    Attachment,
    Button,
    Capabilities,
    Dialect,
    Inbound,
    MenuEntry,
    Part,
    Receipt,
    Upload,
)
from segue.platforms.connection import Connection
from segue.platforms.errors import Failures, Refused
from segue.platforms.spec import PlatformSettings
from segue.testing.platform import wire
from segue.testing.platform.client import Client
from segue.testing.platform.parser import address, parse

_POLL_SECONDS = 20.0
_SILENCE = 10.0
_TITLE_LIMIT = 128

T = TypeVar("T")


def make(settings: PlatformSettings) -> Adapter:
    """Return an unconnected adapter that stands in for the platform of `settings`."""
    return PeerAdapter(settings.platform, settings.value("url"), settings.value("token"))


class PeerAdapter(BaseAdapter):
    """One account on the test platform."""

    def __init__(
        self, platform: Platform, url: str, token: str, *, silence: float = _SILENCE
    ) -> None:
        """`silence` is how many seconds a call waits for an answer before it counts as lost."""
        self.platform = platform
        self._failures = Failures(platform)
        self._connection = Connection[Client](self._failures)
        self._client = lambda: Client(url, token, silence=silence)
        self._rules = wire.Rules()
        self.capabilities = _capabilities(self._rules)
        self._offset: int | None = None

    def pairing_link(self, code: str) -> str | None:
        link = self._rules.link
        return None if link is None else link.replace("{code}", code)

    async def connect(self) -> None:
        await self._connection.connect(self._client, self._greet)

    async def _greet(self, client: Client) -> None:
        me = await client.call("me", wire.AskMe(), wire.Me)
        self.account, self._rules = me.id, me.rules
        self.capabilities = _capabilities(me.rules)

    async def close(self) -> None:
        await self._connection.close()

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        while True:
            ask = wire.AskUpdates(offset=self._offset, seconds=_POLL_SECONDS)
            with self._failures.connecting():
                client = self._connection.client
                batch = await client.call("updates", ask, wire.Batch, seconds=_POLL_SECONDS)
            yield None
            for frame in batch.frames:
                if (inbound := parse(self.platform, frame)) is not None:
                    yield inbound
            # The next poll sends this offset and so confirms the batch, once all of it is recorded.
            self._offset = batch.next

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        async def send(text: str, form: wire.Format) -> wire.Sent:
            call = wire.Send(
                chat=to.chat_id,
                thread=to.thread_id,
                text=text,
                format=form,
                key=self._key(key),
                buttons=_wire(buttons),
            )
            return await self._call("send", call, wire.Sent)

        with self._failures.delivering():
            sending.check(part, self.capabilities, buttons)
            return Receipt((await self._in_markup(part, send)).id)

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        async def edit(text: str, form: wire.Format) -> None:
            call = wire.Edit(
                chat=at.chat_id, message=receipt, text=text, format=form, buttons=_wire(buttons)
            )
            await self._call("edit", call, type(None))

        with self._failures.delivering():
            try:
                await self._in_markup(part, edit)
            except Refused as refused:
                if refused.code != "not_changed":
                    raise

    async def send_file(self, to: Address, file: Upload, part: Part, *, key: str) -> Receipt:
        async def send(text: str, form: wire.Format) -> wire.Sent:
            call = wire.SendFile(
                chat=to.chat_id,
                thread=to.thread_id,
                text=text,
                format=form,
                name=whole(file.name),
                media_type=file.media_type,
                data=file.data,
                key=self._key(key),
            )
            return await self._call("send_file", call, wire.Sent)

        with self._failures.delivering():
            sending.check_file(file, part, self.capabilities)
            return Receipt((await self._in_markup(part, send)).id)

    def how_to_address(self, at: Address) -> str:
        named = self._rules.mentions and at.thread_id is None
        return "Name @bot in this chat." if named and at.chat_type is not ChatType.DM else ""

    def previews(self, at: Address) -> bool:
        return self._rules.previews

    async def preview(self, at: Address, part: Part, *, key: str) -> None:
        async def show(text: str, form: wire.Format) -> None:
            call = wire.ShowPreview(
                chat=at.chat_id, thread=at.thread_id, text=text, format=form, key=key
            )
            await self._call("preview", call, type(None))

        with self._failures.delivering():
            await self._in_markup(part, show)

    async def typing(self, at: Address) -> None:
        call = wire.ShowTyping(chat=at.chat_id, thread=at.thread_id)
        with self._failures.delivering():
            await self._call("typing", call, type(None))

    async def fetch(self, attachment: Attachment) -> bytes:
        call = wire.GetFile(file=attachment.id)
        with self._failures.delivering():
            return await self._connection.client.content("file", call)

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        if not self.capabilities.threads:
            return None
        name = sending.title(title, _TITLE_LIMIT)
        call = wire.OpenThread(chat=home.chat_id, title=name, key=self._key(key))
        with self._failures.delivering():
            try:
                opened = await self._call("open_thread", call, wire.Opened)
            except Refused as refused:
                if refused.code in ("no_threads", "no_permission"):
                    return None
                raise
        return address(self.platform, opened.chat, opened.thread)

    async def offer(self, menu: Sequence[MenuEntry]) -> None:
        entries = tuple(wire.WireEntry(entry.name, entry.help) for entry in menu)
        with self._failures.delivering():
            await self._call("menu", wire.SetMenu(menu=entries), type(None))

    async def _call(self, method: str, call: wire.Call, answer: type[T]) -> T:
        return await self._connection.client.call(method, call, answer)

    def _key(self, key: str) -> str | None:
        return key if self.capabilities.keys else None

    async def _in_markup(
        self, part: Part, deliver: Callable[[str, wire.Format], Awaitable[T]]
    ) -> T:
        if self.capabilities.dialect is Dialect.PLAIN:
            return await deliver(whole(part.plain), "plain")
        return await sending.in_markup(
            part,
            lambda text, markup: deliver(text, "markup" if markup else "plain"),
            rejected=lambda refused: refused.code == "bad_markup",
        )


def _capabilities(rules: wire.Rules) -> Capabilities:
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


def _wire(buttons: Sequence[Button]) -> tuple[wire.WireButton, ...]:
    return tuple(wire.WireButton(button.label, button.data) for button in buttons)
