"""The Telegram adapter."""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import msgspec
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, LinkPreviewOptions, Message
from telegram.constants import ParseMode

from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.text import is_empty
from segue.platforms import base, sending
from segue.platforms.adapter import RemoteAdapter
from segue.platforms.base import Button, Inbound, Receipt, Upload
from segue.platforms.batches import Torn
from segue.platforms.errors import Refused
from segue.platforms.spec import PlatformSettings
from segue.platforms.telegram import account, polling
from segue.platforms.telegram.client import FAILURES, Client
from segue.platforms.telegram.parser import closed_topic, parse
from segue.platforms.telegram.topics import Topics, number, where
from segue.platforms.telegram.wire import Me, Update

logger = logging.getLogger(__name__)

CAPABILITIES = base.Capabilities(
    threads=True,
    edits=True,
    buttons=True,
    typing=True,
    files=True,
    length=4096,
    unit=base.Unit.UTF16,
    dialect=base.Dialect.TELEGRAM,
    # A group takes 20 messages a minute, including edits. A small burst leaves room for the rest of
    # that minute, and a 429 says when to continue.
    chat_burst=3,
    # The limit in groups. Direct messages allow three times as many, but they have drafts.
    edit_seconds=3.0,
    attachment_bytes=20 * 1024 * 1024,
    upload_bytes=50 * 1000 * 1000,
    preview_seconds=20.0,  # a draft disappears after 30 seconds
)
_PHOTO_BYTES = 10 * 1000 * 1000
_PHOTOS = frozenset({"image/jpeg", "image/png", "image/webp"})
_UPLOAD_SECONDS = 60.0
"""Telegram inspects a file before it answers."""
_UNDER_A_FILE = "caption:"
"""Prefix of a file's receipt. A caption is edited with a different call than a message."""
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


class TelegramAdapter(RemoteAdapter[Client]):
    """The adapter of one bot."""

    platform = Platform.TELEGRAM
    capabilities = CAPABILITIES
    caption = 1024
    no_account = account.NO_TOKEN

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
        super().__init__(FAILURES)
        self._access = (token, url, silence)
        self._me = Me(id=0, username="")
        self._offset: int | None = None
        self._skipped = 0
        """Updates that could not be parsed."""
        self._albums = polling.Albums()
        self._album_seconds = album_seconds
        self._topics = Topics()
        self._undrafted: set[str] = set()
        """Chats that do not support drafts. "" is in it if the server does not."""

    def _make(self) -> Client:
        return Client(*self._access)

    async def _greet(self, client: Client) -> None:
        me = await client.bot.get_me()
        # A webhook prevents polling. Pending updates are kept.
        if (await client.bot.get_webhook_info()).url:
            await client.bot.delete_webhook(drop_pending_updates=False)
        self._me = Me(id=me.id, username=me.username or "")
        self.account = str(me.id)

    @property
    def _bot(self) -> Bot:
        return self.client.bot

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
        try:
            return polling.read(await self.client.poll(self._offset), self._offset)
        except Torn:
            one = await self.client.poll(self._offset, limit=1)
            return polling.read(one, self._offset, alone=True)

    def _note(self, skipped: Sequence[int | None]) -> None:
        """Log updates that are confirmed although they could not be parsed."""
        gone = [it or "unknown" for it in skipped if it is None or it < (self._offset or 0)]
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
            self._topics.moves.add(inbound.address, inbound.moved_to.chat_id)
        addressed = self._albums.is_addressed(group[0], inbound)
        return msgspec.structs.replace(inbound, addressed=addressed)

    def acknowledge(self, press: Inbound) -> None:
        answer = press.press_id
        self.connection.in_background(lambda client: client.bot.answer_callback_query(answer))

    async def _fetch(self, attachment: base.Attachment) -> bytes:
        return await self.client.fetch(attachment.id, self.capabilities.attachment_bytes)

    # Outbound

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        sent = await self._topics.deliver(
            self._bot,
            to,
            lambda at: self._bot.send_message(
                **at,
                text=text,
                parse_mode=_mode(markup),
                link_preview_options=_NO_PREVIEW,
                reply_markup=_keyboard(buttons),
            ),
        )
        return Receipt(str(sent.message_id))

    async def _edit(
        self, at: Address, receipt: Receipt, text: str, *, markup: bool, buttons: Sequence[Button]
    ) -> None:
        message = number(receipt.removeprefix(_UNDER_A_FILE), "message to edit not found")
        chat, mode, keyboard = where(at)["chat_id"], _mode(markup), _keyboard(buttons)
        if receipt.startswith(_UNDER_A_FILE):
            await self._bot.edit_message_caption(
                chat, message, caption=text, parse_mode=mode, reply_markup=keyboard
            )
        else:
            await self._bot.edit_message_text(
                text,
                chat,
                message,
                parse_mode=mode,
                link_preview_options=_NO_PREVIEW,
                reply_markup=keyboard,
            )

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        async def upload(send: Callable[..., Awaitable[Message]]) -> Receipt:
            sent = await self._topics.deliver(
                self._bot,
                to,
                lambda at: send(
                    at["chat_id"],
                    file.data,
                    message_thread_id=at["message_thread_id"],
                    filename=sending.file_name(file),
                    caption=None if is_empty(caption) else caption,
                    parse_mode=_mode(markup),
                    read_timeout=_UPLOAD_SECONDS,
                ),
            )
            return Receipt(f"{_UNDER_A_FILE}{sent.message_id}")

        if file.media_type in _PHOTOS and len(file.data) <= _PHOTO_BYTES:
            try:
                return await upload(self._bot.send_photo)
            except Refused as refused:
                # The aspect ratio is too extreme, or Telegram cannot decode the image.
                if not refused.says("photo", "image"):
                    raise
        return await upload(self._bot.send_document)

    def previews(self, at: Address) -> bool:
        return at.chat_type is ChatType.DM and self._undrafted.isdisjoint({"", at.chat_id})

    async def _preview(self, at: Address, text: str, *, markup: bool, key: str) -> None:
        # The same number for the same key; never 0, which Telegram rejects.
        draft = zlib.crc32(key.encode("utf-8", "surrogatepass")) & 0x7FFFFFFF or 1
        try:
            await self._bot.send_message_draft(
                **where(at), draft_id=draft, text=text, parse_mode=_mode(markup)
            )
        except Refused as refused:
            if refused.status == 404 or refused.says("textdraft"):
                self._undrafted.add("" if refused.status == 404 else at.chat_id)
            raise

    def _is_bad_markup(self, refused: Refused) -> bool:
        return refused.says("can't parse entities")

    def _is_unchanged(self, refused: Refused) -> bool:
        return refused.says("message is not modified")

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

    async def offer(self, menu: Sequence[base.MenuEntry]) -> None:
        with FAILURES.delivering():
            await account.offer(self._bot, menu)

    async def find_chat(self, chat_id: str) -> HomeChannel | None:
        with FAILURES.connecting():
            return await account.find(self._bot, chat_id.strip(), self._me.id)

    def _checks(self, client: Client, home: Address | None) -> AsyncGenerator[base.Finding]:
        return account.checks(client.bot, home)


def _mode(markup: bool) -> str | None:
    return ParseMode.HTML if markup else None


def _keyboard(buttons: Sequence[Button]) -> InlineKeyboardMarkup | None:
    rows = [
        [InlineKeyboardButton(button.label, callback_data=button.data) for button in row]
        for row in sending.rows(buttons)
    ]
    return InlineKeyboardMarkup(rows) if rows else None


def make(settings: PlatformSettings) -> TelegramAdapter:
    """Return an unconnected adapter for the bot in `settings`."""
    return TelegramAdapter(settings.value("token"), settings.value("url") or None)
