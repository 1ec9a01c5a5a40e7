"""The Telegram adapter."""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, LinkPreviewOptions, Message

from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.errors import ConnectFailed
from segue.platforms import diagnostics, sending
from segue.platforms.adapter import BaseAdapter
from segue.platforms.base import (
    Attachment,
    Button,
    Capabilities,
    Dialect,
    Finding,
    Inbound,
    MenuEntry,
    Part,
    Receipt,
    Unit,
    Upload,
)  # fmt: skip
from segue.platforms.batches import Torn
from segue.platforms.connection import Connection
from segue.platforms.errors import Refused
from segue.platforms.spec import PlatformSettings
from segue.platforms.telegram import account, polling
from segue.platforms.telegram.client import FAILURES, FETCHED_BYTES, Client
from segue.platforms.telegram.parser import closed_topic, parse
from segue.platforms.telegram.topics import Topics, Where, number, where
from segue.platforms.telegram.wire import Me, Update

T = TypeVar("T")

logger = logging.getLogger(__name__)

CAPABILITIES = Capabilities(
    threads=True,
    edits=True,
    buttons=True,
    typing=True,
    files=True,
    length=4096,
    unit=Unit.UTF16,
    dialect=Dialect.TELEGRAM,
    per_second=30.0,
    chat_seconds=1.0,
    # A group takes 20 messages a minute, including edits. A small burst leaves room for the rest of
    # that minute, and a 429 says when to continue.
    chat_burst=3,
    # The limit in groups. Direct messages allow three times as many, but they have drafts.
    edit_seconds=3.0,
    typing_seconds=5.0,
    attachment_bytes=FETCHED_BYTES,
    upload_bytes=50 * 1000 * 1000,
    preview_seconds=20.0,  # a draft disappears after 30 seconds
)
_CAPTION = 1024
_PHOTO_BYTES = 10 * 1000 * 1000
_PHOTOS = frozenset({"image/jpeg", "image/png", "image/webp"})
_UPLOAD_SECONDS = 60.0
"""Telegram inspects a file before it answers."""
_UNDER_A_FILE = "caption:"
"""Prefix of a file's receipt. A caption is edited with a different call than a message."""
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


class TelegramAdapter(BaseAdapter):
    """The adapter of one bot."""

    platform = Platform.TELEGRAM
    capabilities = CAPABILITIES

    def __init__(
        self,
        token: str,
        url: str | None = None,
        *,
        silence: float = 20.0,
        album_seconds: float = 1.0,
    ) -> None:
        """`url` is a self-hosted Bot API server. `silence` is the timeout in seconds after which a
        call counts as lost: sends cannot be repeated safely, so it pays to wait a little longer.
        `album_seconds` is how long to wait for more files of an album."""
        self._client = lambda: Client(token, url, silence)
        self._connection = Connection[Client](FAILURES)
        self._me = Me(id=0, username="")
        self._offset: int | None = None
        self._skipped = 0
        """Updates that could not be parsed."""
        self._album_seconds = album_seconds
        self._albums = polling.Albums()
        self._album = ""
        """The last album that was addressed to the bot."""
        self._topics = Topics()
        self._drafts = True
        self._undrafted: set[str] = set()
        """Chats that do not support drafts."""

    # Connecting and closing

    async def connect(self) -> None:
        await self._connection.connect(self._client, self._greet)

    async def _greet(self, client: Client) -> None:
        me = await client.bot.get_me()
        # A webhook prevents polling. Pending updates are kept.
        if (await client.bot.get_webhook_info()).url:
            await client.bot.delete_webhook(drop_pending_updates=False)
        self._me = Me(id=me.id, username=me.username or "")
        self.account = str(me.id)

    async def close(self) -> None:
        await self._connection.close()

    @property
    def _bot(self) -> Bot:
        return self._connection.client.bot

    # Inbound

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        while True:
            with FAILURES.connecting():
                batch = await self._poll()
            yield None
            settled = self._albums.settled(batch.updates)
            for group in polling.gathered(batch.updates[:settled]):
                if (inbound := self._heard(group)) is not None:
                    yield inbound
            # Confirms the batch: it is sent with the next poll, after the last update is recorded.
            rest = [update.update_id for update in batch.updates[settled:]]
            self._offset = min(rest, default=batch.next)
            self._note(batch.skipped)
            if rest:
                await asyncio.sleep(self._album_seconds)

    async def _poll(self) -> polling.Batch:
        client = self._connection.client
        try:
            return polling.read(await client.poll(self._offset), self._offset)
        except Torn:
            return polling.read_one(await client.poll(self._offset, limit=1), self._offset)

    def _note(self, skipped: Sequence[int | None]) -> None:
        """Log updates that are confirmed although they could not be parsed."""
        offset = self._offset or 0
        gone = [id_ or "unknown" for id_ in skipped if id_ is None or id_ < offset]
        if gone:
            self._skipped += len(gone)
            ids = ", ".join(map(str, gone))
            logger.warning("telegram updates skipped ids=%s total=%d", ids, self._skipped)

    def _heard(self, group: Sequence[Update]) -> Inbound | None:
        """The Inbound for an update, or for all updates of an album."""
        if (closed := closed_topic(group[0])) is not None:
            self._topics.closed(closed)
        parsed = (parse(update, self._me, time.time()) for update in group)
        if not (parts := [part for part in parsed if part is not None]):
            return None
        inbound = polling.merged(parts)
        if inbound.moved_to is not None:
            self._topics.moved(inbound.address, inbound.moved_to.chat_id)
        # A file that arrives late counts as addressed if its album was.
        album = polling.album(group[0])
        if inbound.addressed:
            self._album = album
        late = bool(album) and album == self._album
        return msgspec.structs.replace(inbound, addressed=inbound.addressed or late)

    def acknowledge(self, press: Inbound) -> None:
        self._connection.in_background(self._acknowledge(press))

    async def _acknowledge(self, press: Inbound) -> None:
        await self._bot.answer_callback_query(press.press_id)

    async def fetch(self, attachment: Attachment) -> bytes:
        with FAILURES.delivering():
            return await self._connection.client.fetch(attachment)

    # Outbound

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        with FAILURES.delivering():
            return await self._send(to, part, buttons)

    async def _send(self, to: Address, part: Part, buttons: Sequence[Button] = ()) -> Receipt:
        sending.check(part, CAPABILITIES, buttons)
        bot, keyboard = self._bot, _keyboard(buttons)

        async def send(at: Where, text: str, mode: str | None) -> Message:
            return await bot.send_message(
                **at,
                text=text,
                parse_mode=mode,
                link_preview_options=_NO_PREVIEW,
                reply_markup=keyboard,
            )

        sent = await self._topics.deliver(
            bot, to, lambda at: _in_markup(part, lambda text, mode: send(at, text, mode))
        )
        return Receipt(str(sent.message_id))

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        async def edit(text: str, mode: str | None) -> object:
            message = number(receipt.removeprefix(_UNDER_A_FILE), "message to edit not found")
            chat, keyboard = where(at)["chat_id"], _keyboard(buttons)
            if receipt.startswith(_UNDER_A_FILE):
                return await self._bot.edit_message_caption(
                    chat, message, caption=text, parse_mode=mode, reply_markup=keyboard
                )
            return await self._bot.edit_message_text(
                text,
                chat,
                message,
                parse_mode=mode,
                link_preview_options=_NO_PREVIEW,
                reply_markup=keyboard,
            )

        with FAILURES.delivering():
            sending.check(part, CAPABILITIES, buttons)
            try:
                await _in_markup(part, edit)
            except Refused as refused:
                if not refused.says("message is not modified"):
                    raise

    async def send_file(self, to: Address, file: Upload, part: Part, *, key: str) -> Receipt:
        async def send(caption: Part) -> Receipt:
            return await self._send_file(to, file, caption)

        async def follow(text: Part) -> Receipt:
            return await self._send(to, text)

        with FAILURES.delivering():
            sending.check_file(file, part, CAPABILITIES)
            return await sending.with_caption(part, _CAPTION, Unit.UTF16, send, follow, FAILURES)

    async def _send_file(self, to: Address, file: Upload, caption: Part) -> Receipt:
        if file.media_type in _PHOTOS and len(file.data) <= _PHOTO_BYTES:
            try:
                return await self._upload(to, file, caption, self._bot.send_photo)
            except Refused as refused:
                # The aspect ratio is too extreme, or Telegram cannot decode the image.
                if not refused.says("photo", "image"):
                    raise
        return await self._upload(to, file, caption, self._bot.send_document)

    async def _upload(
        self, to: Address, file: Upload, caption: Part, send: Callable[..., Awaitable[Message]]
    ) -> Receipt:
        async def upload(at: Where, text: str, mode: str | None) -> Message:
            return await send(
                at["chat_id"],
                file.data,
                message_thread_id=at["message_thread_id"],
                filename=sending.file_name(file),
                caption=text.strip() or None,
                parse_mode=mode,
                read_timeout=_UPLOAD_SECONDS,
            )

        sent = await self._topics.deliver(
            self._bot, to, lambda at: _in_markup(caption, lambda text, mode: upload(at, text, mode))
        )
        return Receipt(f"{_UNDER_A_FILE}{sent.message_id}")

    def previews(self, at: Address) -> bool:
        possible = self._drafts and at.chat_id not in self._undrafted
        return possible and at.chat_type is ChatType.DM

    async def preview(self, at: Address, part: Part, *, key: str) -> None:
        # The same number for the same key; never 0, which Telegram rejects.
        draft = zlib.crc32(key.encode("utf-8", "surrogatepass")) & 0x7FFFFFFF or 1

        async def show(text: str, mode: str | None) -> bool:
            return await self._bot.send_message_draft(
                **where(at), draft_id=draft, text=text, parse_mode=mode
            )

        with FAILURES.delivering():
            sending.check(part, CAPABILITIES)
            try:
                await _in_markup(part, show)
            except Refused as refused:
                if refused.status == 404:  # the server is too old for drafts
                    self._drafts = False
                elif refused.says("textdraft"):
                    self._undrafted.add(at.chat_id)
                raise

    async def typing(self, at: Address) -> None:
        with FAILURES.delivering():
            await self._bot.send_chat_action(**where(at), action="typing")

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        with FAILURES.delivering():
            return await self._topics.create(self._bot, home, title)

    # Account

    def how_to_address(self, at: Address) -> str:
        if at.chat_type is not ChatType.GROUP or at.thread_id is not None:
            return ""
        return (
            "In this group I answer what is meant for me: reply to a message of mine, or begin"
            f" yours with `@{self._me.username}`."
        )

    def pairing_link(self, code: str) -> str | None:
        return f"https://t.me/{self._me.username}?start={code}" if self._me.username else None

    async def offer(self, menu: Sequence[MenuEntry]) -> None:
        with FAILURES.delivering():
            await account.offer(self._bot, menu)

    async def find_chat(self, chat_id: str) -> HomeChannel | None:
        with FAILURES.connecting():
            return await account.find(self._bot, chat_id.strip(), self._me.id)

    async def examine(self, home: Address | None) -> Sequence[Finding]:
        try:
            client = self._client()
        except ConnectFailed:
            return [account.NO_TOKEN]
        try:
            checks = account.checks(client.bot, home)
            return await diagnostics.examine(checks, FAILURES, self.platform, account.NO_TOKEN)
        finally:
            await client.close()


async def _in_markup(part: Part, deliver: Callable[[str, str | None], Awaitable[T]]) -> T:
    return await sending.in_markup(
        part,
        lambda text, markup: deliver(text, "HTML" if markup else None),
        rejected=lambda refused: refused.says("can't parse entities"),
    )


def _keyboard(buttons: Sequence[Button]) -> InlineKeyboardMarkup | None:
    rows = [
        [InlineKeyboardButton(button.label, callback_data=button.data) for button in row]
        for row in sending.rows(buttons)
    ]
    return InlineKeyboardMarkup(rows) if rows else None


def make(settings: PlatformSettings) -> TelegramAdapter:
    """Return an unconnected adapter for the bot in `settings`."""
    return TelegramAdapter(settings.value("token"), settings.value("url") or None)
