"""An Adapter for the test platform, which can stand in for any platform.

To use it, set `segue.testing.platform.adapter:make` in the settings.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from segue.core.address import Address, ChatType, Platform
from segue.core.audience import Audience, listed
from segue.core.text import whole
from segue.platforms.adapter import RemoteAdapter
from segue.platforms.backoff import PollPace
from segue.platforms.base import (
    Adapter,
    Attachment,
    Button,
    Capabilities,
    Inbound,
    MenuEntry,
    Receipt,
    Upload,
)
from segue.platforms.errors import FailureRule, Failures
from segue.platforms.spec import PlatformSettings
from segue.testing.platform import wire
from segue.testing.platform.client import Client
from segue.testing.platform.parser import address, parse

_POLL_SECONDS = 20.0
_SILENCE = 10.0


def make(settings: PlatformSettings) -> Adapter:
    """Return an unconnected adapter that stands in for the platform of `settings`."""
    return PeerAdapter(settings.platform, settings.value("url"), settings.value("token"))


class PeerAdapter(RemoteAdapter[Client]):
    """One account on the test platform."""

    def __init__(
        self, platform: Platform, url: str, token: str, *, silence: float = _SILENCE
    ) -> None:
        """`silence` is how many seconds a call waits for an answer before it counts as lost."""
        no_threads = FailureRule(says=("no_threads", "no_permission"))
        super().__init__(
            Failures(
                platform,
                no_threads=(no_threads,),
                bad_markup="bad_markup",
                unchanged="not_changed",
            )
        )
        self.platform = platform
        self._url, self._token, self._silence = url, token, silence
        self._rules = wire.Rules()
        self.capabilities = _capabilities(self._rules)
        self._offset: int | None = None
        self._polls = PollPace()
        self._is_behind = True

    def pairing_link(self, code: str) -> str | None:
        link = self._rules.link
        return None if link is None else link.replace("{code}", code)

    def _make(self) -> Client:
        return Client(self._url, self._token, silence=self._silence)

    async def _greet(self, client: Client) -> None:
        me = await client.call("me", wire.AskMe(), wire.Me)
        self.account, self._rules = me.id, me.rules
        self.capabilities = _capabilities(me.rules)
        self._is_behind = True

    @property
    def is_caught_up(self) -> bool:
        return not self._is_behind

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        while True:
            self._polls.begin()
            seconds = 0.0 if self._is_behind else _POLL_SECONDS  # what waits comes at once
            ask = wire.AskUpdates(offset=self._offset, seconds=seconds)
            with self.failures.connecting():
                batch = await self.client.call("updates", ask, wire.Batch, seconds=seconds)
            yield None
            for frame in batch.frames:
                if (inbound := parse(self.platform, frame)) is not None:
                    yield inbound
            # The next poll sends this offset and so confirms the batch, once all of it is recorded.
            self._offset = batch.next
            await self._polls.end(seconds, is_empty=not batch.frames)
            if len(batch.frames) < ask.limit:  # no others are left of those that waited
                self._is_behind = False

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        call = wire.Send(
            chat=to.chat_id,
            thread=to.thread_id,
            text=text,
            format=_format(markup),
            key=self._key(key),
            buttons=_wire(buttons),
        )
        return Receipt((await self.client.call("send", call, wire.Sent)).id)

    async def _edit(
        self, at: Address, receipt: Receipt, text: str, *, markup: bool, buttons: Sequence[Button]
    ) -> None:
        call = wire.Edit(
            chat=at.chat_id,
            message=receipt,
            text=text,
            format=_format(markup),
            buttons=_wire(buttons),
        )
        await self.client.call("edit", call, type(None))

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        call = wire.SendFile(
            chat=to.chat_id,
            thread=to.thread_id,
            text=caption,
            format=_format(markup),
            name=whole(file.name),
            media_type=file.media_type,
            data=file.data,
            key=self._key(key),
        )
        return Receipt((await self.client.call("send_file", call, wire.Sent)).id)

    async def _preview(self, at: Address, text: str, *, markup: bool, key: str) -> None:
        call = wire.ShowPreview(
            chat=at.chat_id, thread=at.thread_id, text=text, format=_format(markup), key=key
        )
        await self.client.call("preview", call, type(None))

    def how_to_address(self, at: Address) -> str:
        named = self._rules.mentions and at.thread_id is None
        return "Name @bot in this chat." if named and at.chat_type is not ChatType.DM else ""

    def previews(self, at: Address) -> bool:
        return self._rules.previews

    async def typing(self, at: Address) -> None:
        call = wire.ShowTyping(chat=at.chat_id, thread=at.thread_id)
        with self.failures.delivering():
            await self.client.call("typing", call, type(None))

    async def _fetch(self, attachment: Attachment) -> bytes:
        return await self.client.content("file", wire.GetFile(file=attachment.id))

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        if not self.capabilities.threads:
            return None
        call = wire.OpenThread(chat=home.chat_id, title=title, key=self._key(key))
        opened = await self.client.call("open_thread", call, wire.Opened)
        return address(self.platform, opened.chat, opened.thread)

    async def _audience(self, chat: Address, users: Sequence[str]) -> Audience | None:
        if chat.chat_type is ChatType.DM:
            return None
        ask = wire.AskReaders(chat=chat.chat_id)
        found = await self.client.call("readers", ask, wire.ChatReaders)
        has_owner = not set(found.members).isdisjoint(users)
        return listed(found.members, has_owner=has_owner, is_public=found.public)

    async def offer(self, menu: Sequence[MenuEntry]) -> None:
        entries = tuple(wire.WireEntry(entry.name, entry.help) for entry in menu)
        with self.failures.delivering():
            await self.client.call("menu", wire.SetMenu(menu=entries), type(None))

    def _key(self, key: str) -> str | None:
        return key if self.capabilities.keys else None


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


def _format(markup: bool) -> wire.Format:
    return "markup" if markup else "plain"


def _wire(buttons: Sequence[Button]) -> tuple[wire.WireButton, ...]:
    return tuple(wire.WireButton(button.label, button.data) for button in buttons)
