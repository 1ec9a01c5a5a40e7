"""The adapter for the test platform, and the example of docs/adapters.md.

In the settings it is `segue.testing.platform.adapter:make`, and can stand in for any platform. A
`Client` makes the calls. `PeerAdapter` begins with what every adapter has: connecting, receiving,
sending, threads. `parse` turns the platform's updates into values.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TypeVar

import msgspec

from segue.core.address import Address, Audience, ChatType, Platform, Sender, listed_audience
from segue.core.text import whole
from segue.platforms import content
from segue.platforms.adapter import RemoteAdapter
from segue.platforms.base import (
    Adapter,
    Attachment,
    Button,
    Capabilities,
    Inbound,
    InboundKind,
    MenuEntry,
    Quote,
    Receipt,
    Upload,
)
from segue.platforms.connection import PollPace
from segue.platforms.errors import UNREADABLE, FailureRule, Failures, Refused, parsed
from segue.platforms.http import HttpClient, bearer, decode, encode
from segue.platforms.spec import PlatformSettings
from segue.testing.platform import wire

_POLL_SECONDS = 20.0
_SILENCE = 10.0

T = TypeVar("T")


def make(settings: PlatformSettings) -> Adapter:
    """Return an unconnected adapter that stands in for the platform of `settings`."""
    return PeerAdapter(settings.platform, settings.value("url"), settings.value("token"))


class Client:
    """Calls the platform with one token. Raises only Refused and Lost."""

    def __init__(self, url: str, token: str, *, silence: float) -> None:
        headers = {"Content-Type": "application/json", **bearer(token)}
        self._url = f"{url.rstrip('/')}/v1/"
        self._http = HttpClient(silence=silence, secret=token, headers=headers, refusal=_refused)
        self.close = self._http.close

    async def call(
        self, method: str, call: wire.Call, answer: type[T], *, seconds: float = 0.0
    ) -> T:
        """Return the answer. The platform may take up to `seconds` longer than usual for it."""
        return decode(await self.content(method, call, seconds=seconds), answer)

    async def content(self, method: str, call: wire.Call, *, seconds: float = 0.0) -> bytes:
        """Return the body of the answer."""
        return await self._http.request(
            "POST",
            self._url + method,
            content=encode(call),
            seconds=seconds + self._http.silence,
        )


def _refused(status: int, body: bytes) -> Refused:
    found = parsed(body, wire.Refusal) or wire.Refusal(code="unknown", reason=f"HTTP {status}")
    return Refused(status, found.reason.rstrip("."), code=found.code, after=found.retry_after)


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
        self._url = url
        self._token = token
        self._silence = silence
        self._rules = wire.Rules()
        self.capabilities = _capabilities(self._rules)
        self._offset: int | None = None
        self._polls = PollPace()
        self._is_behind = True

    def _make(self) -> Client:
        return Client(self._url, self._token, silence=self._silence)

    async def _greet(self, client: Client) -> None:
        me = await client.call("me", wire.AskMe(), wire.Me)
        self.account = me.id
        self._rules = me.rules
        self.capabilities = _capabilities(me.rules)
        self._is_behind = True

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

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        if not self.capabilities.threads:
            return None
        call = wire.OpenThread(chat=home.chat_id, title=title, key=self._key(key))
        opened = await self.client.call("open_thread", call, wire.Opened)
        return address(self.platform, opened.chat, opened.thread)

    # What not every platform has

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

    async def _fetch(self, attachment: Attachment) -> bytes:
        return await self.client.content("file", wire.GetFile(file=attachment.id))

    async def _preview(self, at: Address, text: str, *, markup: bool, key: str) -> None:
        call = wire.ShowPreview(
            chat=at.chat_id, thread=at.thread_id, text=text, format=_format(markup), key=key
        )
        await self.client.call("preview", call, type(None))

    def previews(self, at: Address) -> bool:
        return self._rules.previews

    async def typing(self, at: Address) -> None:
        call = wire.ShowTyping(chat=at.chat_id, thread=at.thread_id)
        with self.failures.delivering():
            await self.client.call("typing", call, type(None))

    async def _audience(self, chat: Address, users: Sequence[str]) -> Audience | None:
        if chat.chat_type is ChatType.DM:
            return None
        ask = wire.AskReaders(chat=chat.chat_id)
        found = await self.client.call("readers", ask, wire.ChatReaders)
        has_owner = not set(found.members).isdisjoint(users)
        return listed_audience(found.members, has_owner=has_owner, is_public=found.public)

    async def offer(self, menu: Sequence[MenuEntry]) -> None:
        entries = tuple(wire.WireEntry(entry.name, entry.help) for entry in menu)
        with self.failures.delivering():
            await self.client.call("menu", wire.SetMenu(menu=entries), type(None))

    def how_to_address(self, at: Address) -> str:
        named = self._rules.mentions and at.thread_id is None
        return "Name @bot in this chat." if named and at.chat_type is not ChatType.DM else ""

    def pairing_link(self, code: str) -> str | None:
        link = self._rules.link
        return None if link is None else link.replace("{code}", code)

    @property
    def is_caught_up(self) -> bool:
        return not self._is_behind

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


_KINDS: dict[type[wire.Update], InboundKind] = {
    wire.Said: InboundKind.MESSAGE,
    wire.Changed: InboundKind.EDIT,
    wire.Commanded: InboundKind.COMMAND,
    wire.Pressed: InboundKind.BUTTON,
    wire.Removed: InboundKind.DELETED,
    wire.Joined: InboundKind.JOINED,
}
_decoder = msgspec.json.Decoder(wire.Update)


def parse(platform: Platform, frame: str) -> Inbound | None:
    """Return the update as an Inbound, or None.

    Malformed updates, unknown kinds, and updates caused by bots, including ours, are ignored.
    """
    try:
        update = _decoder.decode(frame)
    except UNREADABLE:
        return None
    return None if update.user.bot else _inbound(platform, update)


def address(platform: Platform, chat: wire.WireChat, thread: str | None) -> Address:
    return Address(
        platform=platform, chat_type=ChatType(chat.type), chat_id=chat.id, thread_id=thread
    )


def _inbound(platform: Platform, update: wire.Update) -> Inbound:
    message = _message(update)
    return Inbound(
        kind=_KINDS[type(update)],
        update_id=update.id,
        address=address(platform, update.chat, update.thread),
        sender=Sender(platform=platform, user_id=update.user.id, name=update.user.name),
        text=message.text,
        message_id=message.id,
        attachments=tuple(map(_attachment, message.files)),
        addressed=message.addressed or isinstance(update, wire.Commanded),
        chat_name=update.chat.name,
        topic=update.chat.topic,
        readers=_readers(update.chat),
        forwarded_from=message.forwarded_from,
        quote=_quote(message.quote),
    )


def _message(update: wire.Update) -> wire.WireMessage:
    """The message of the update, or the one whose button was pressed."""
    match update:
        case (
            wire.Said(message=message)
            | wire.Changed(message=message)
            | wire.Commanded(message=message)
        ):
            return message
        case wire.Pressed():
            return wire.WireMessage(id=update.message, text=update.data)
        case wire.Removed():
            return wire.WireMessage(id=update.message, text="")
        case wire.Joined():
            return wire.WireMessage(id="", text="")


def _quote(quote: wire.WireQuote | None) -> Quote | None:
    if quote is None:
        return None
    return Quote(
        author=quote.author.name,
        text=quote.text,
        ours=quote.author.bot,
        message_id=quote.id,
    )


def _attachment(file: wire.WireFile) -> Attachment:
    return Attachment(id=file.id, name=file.name, media_type=file.media_type, size=file.size)


def _readers(chat: wire.WireChat) -> str:
    return "" if chat.members <= 1 else content.members(chat.name, chat.members)
