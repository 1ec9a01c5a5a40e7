"""The Telegram adapter."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import re
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar
from urllib.parse import urlencode

import msgspec
from telegram import Bot
from telegram.error import TelegramError

from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.errors import ConnectFailed
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
)
from segue.platforms.spec import Groups, PlatformSettings
from segue.platforms.telegram import (
    albums,
    chats,
    command_menu,
    diagnostics,
    files,
    polling,
    sending,
    topics,
)
from segue.platforms.telegram.errors import (
    NO_BOT,
    SENSELESS,
    UNKNOWN_BOT,
    connecting,
    delivering,
    failed_connection,
)
from segue.platforms.telegram.parser import closed_topic, parse
from segue.platforms.telegram.transport import TELEGRAM, Line, Refused
from segue.platforms.telegram.wire import ASKED_FOR, Me, Update

T = TypeVar("T")

logger = logging.getLogger(__name__)

_TOKEN = re.compile(r"[A-Za-z0-9:_-]+")
_POLL_SECONDS = 25
_ALBUM_SECONDS = 1.0
_SILENCE = 20.0
"""Sends cannot be repeated safely, so it pays to wait a little longer."""

CAPABILITIES = Capabilities(
    threads=True,
    edits=True,
    buttons=True,
    typing=True,
    files=True,
    keys=False,
    length=sending.LENGTH,
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
    attachment_bytes=files.FETCHED_BYTES,
    upload_bytes=files.SENT_BYTES,
    # A draft disappears after 30 seconds.
    preview_seconds=20.0,
)


class _Connection:
    """A bot with its HTTP transport."""

    def __init__(self, token: str, url: str | None, silence: float) -> None:
        base = (url or TELEGRAM).rstrip("/")
        self.line = Line(silence=silence, trust_env=url is None)
        self.files = f"{base}/file/bot{token}"
        self.bot = Bot(
            token,
            base_url=f"{base}/bot{{token}}",
            base_file_url=f"{base}/file/bot{{token}}",
            request=self.line,
            get_updates_request=self.line,
        )

    async def close(self) -> None:
        await self.line.shutdown()


class TelegramAdapter:
    """The adapter of one bot."""

    def __init__(
        self,
        token: str,
        url: str | None = None,
        *,
        groups: Groups = Groups.ADDRESSED,
        silence: float = _SILENCE,
        album_seconds: float = _ALBUM_SECONDS,
    ) -> None:
        """`url` is a self-hosted Bot API server. `silence` is the timeout in seconds after which a
        call counts as lost. `album_seconds` is how long to wait for more files of an album."""
        self._token = token
        self._url = url
        self._groups = groups
        self._silence = silence
        self._album_seconds = album_seconds
        self._albums = albums.Albums()
        self._connection: _Connection | None = None
        self._why = "it is not connected"
        """Why there is no connection."""
        self._me = Me(id=0, username="")
        self._offset: int | None = None
        self._skipped = 0
        """Updates that could not be parsed."""
        self._answers: set[asyncio.Task[None]] = set()
        """Pending answers to button presses."""
        self._album = ""
        """The last album that was addressed to the bot."""
        self._moved: dict[str, str] = {}
        """Group ids that changed when the group became a supergroup, with their new ids."""
        self._topics = topics.OpenTopics()
        self._drafts = True
        self._undrafted: set[str] = set()
        """Chats that do not support drafts."""

    @property
    def platform(self) -> Platform:
        return Platform.TELEGRAM

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def account(self) -> str:
        return str(self._me.id) if self._me.id else ""

    def pairing_link(self, code: str) -> str | None:
        return f"https://t.me/{self._me.username}?start={code}" if self._me.username else None

    # Connecting and closing

    async def connect(self) -> None:
        try:
            await self._connect()
        except ConnectFailed as error:
            self._why = str(error.fields["reason"])
            raise

    async def _connect(self) -> None:
        # Keep an open connection: messages may be on their way over it.
        connection = self._connection or self._open()
        try:
            with connecting():
                me = await connection.bot.get_me()
                # A webhook prevents polling. Pending updates are kept.
                if (await connection.bot.get_webhook_info()).url:
                    await connection.bot.delete_webhook(drop_pending_updates=False)
        except ConnectFailed:
            if connection is not self._connection:
                await connection.close()
            raise
        self._me = Me(id=me.id, username=me.username or "")
        self._connection = connection

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        if self._answers:  # they have just failed
            await asyncio.wait(self._answers)

    def _open(self) -> _Connection:
        if not self._token:
            raise failed_connection(NO_BOT)
        if not _TOKEN.fullmatch(self._token):
            raise failed_connection(UNKNOWN_BOT)
        return _Connection(self._token, self._url, self._silence)

    def _connected(self) -> _Connection:
        if self._connection is None:
            raise failed_connection(self._why)
        return self._connection

    @property
    def _bot(self) -> Bot:
        return self._connected().bot

    # Inbound

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        while True:
            with connecting():
                batch = await self._poll()
            yield None
            settled = self._albums.settled(batch.updates)
            for group in albums.gathered(batch.updates[:settled]):
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
            return polling.read(await self._ask(), self._offset)
        except polling.Torn:
            return polling.read_one(await self._ask(limit=1), self._offset)

    async def _ask(self, **more: int) -> bytes:
        connection = self._connected()
        asked = {"timeout": _POLL_SECONDS, "allowed_updates": json.dumps(ASKED_FOR), **more}
        if self._offset is not None:
            asked["offset"] = self._offset
        # Not the library's own method: there one bad update spoils the whole batch.
        return await connection.line.retrieve(
            f"{connection.bot.base_url}/getUpdates?{urlencode(asked)}",
            read_timeout=_POLL_SECONDS + self._silence,
        )

    def _note(self, skipped: Sequence[int | None]) -> None:
        """Log updates that are confirmed although they could not be parsed."""
        offset = self._offset or 0
        gone = [number for number in skipped if number is None or number < offset]
        if gone:
            self._skipped += len(gone)
            ids = ", ".join("unknown" if number is None else str(number) for number in gone)
            logger.warning("telegram updates skipped ids=%s total=%d", ids, self._skipped)

    def _heard(self, group: Sequence[Update]) -> Inbound | None:
        """The Inbound for an update, or for all updates of an album."""
        parsed = [parse(update, self._me, time.time()) for update in group]
        parts = [part for part in parsed if part is not None]
        if (closed := closed_topic(group[0])) is not None:
            self._topics.closed(closed)
        if not parts:
            return None
        inbound = albums.merged(parts)
        if inbound.moved_to is not None:
            self._moved[inbound.address.chat_id] = inbound.moved_to.chat_id
        # A file that arrives late counts as addressed if its album was.
        album = albums.name(group[0])
        if inbound.addressed:
            self._album = album
        late = bool(album) and album == self._album
        addressed = inbound.addressed or late or self._groups is Groups.ALL
        return msgspec.structs.replace(inbound, addressed=addressed)

    def acknowledge(self, press: Inbound) -> None:
        answer = asyncio.create_task(self._answer(press.press_id))
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)

    async def _answer(self, query: str) -> None:
        """Best effort: the answer may be late or repeated, and the user sees the outcome anyway."""
        try:
            await self._bot.answer_callback_query(query)
        except (TelegramError, ConnectFailed, *SENSELESS) as error:
            logger.info("telegram press not acknowledged reason=%s", error)

    # Outbound

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        with delivering():
            return await self._following(to, lambda at: sending.send(self._bot, at, part, buttons))

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        with delivering():
            await sending.edit(self._bot, at, receipt, part, buttons)

    async def send_file(self, to: Address, file: Upload, part: Part, *, key: str) -> Receipt:
        with delivering():
            return await self._following(to, lambda at: files.send_file(self._bot, at, file, part))

    def how_to_address(self, at: Address) -> str:
        in_group = at.chat_type is ChatType.GROUP and at.thread_id is None
        if not in_group or self._groups is Groups.ALL:
            return ""
        return (
            "In this group I answer what is meant for me: reply to a message of mine, or begin"
            f" yours with `@{self._me.username}`."
        )

    def previews(self, at: Address) -> bool:
        possible = self._drafts and at.chat_id not in self._undrafted
        return possible and at.chat_type is ChatType.DM

    async def preview(self, at: Address, part: Part, *, key: str) -> None:
        with delivering():
            try:
                await sending.draft(self._bot, at, part, _draft_number(key))
            except Refused as refused:
                if refused.status == 404:  # the server is too old for drafts
                    self._drafts = False
                elif refused.says("textdraft"):
                    self._undrafted.add(at.chat_id)
                raise

    async def typing(self, at: Address) -> None:
        with delivering():
            await self._bot.send_chat_action(
                sending.chat(at), "typing", message_thread_id=sending.thread(at)
            )

    async def fetch(self, attachment: Attachment) -> bytes:
        connection = self._connected()
        with delivering():
            return await files.fetch(connection.bot, connection.line, connection.files, attachment)

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        with delivering():
            opened = await self._following(home, lambda at: topics.open_topic(self._bot, at, title))
        if opened is not None:
            self._topics.opened(opened)
            return opened
        now = self._now(home)
        return None if now == home else now

    async def _following(self, to: Address, send: Callable[[Address], Awaitable[T]]) -> T:
        """Send to the chat's current id. Not for edits: after a move, message ids are gone or
        belong to other messages."""
        await self._topics.ensure(self._bot, self._now(to))
        try:
            return await send(self._now(to))
        except Refused as refused:  # it had no effect
            if refused.moved_to is None:
                raise
            self._moved[to.chat_id] = str(refused.moved_to)
        return await send(self._now(to))

    def _now(self, at: Address) -> Address:
        return dataclasses.replace(at, chat_id=self._moved.get(at.chat_id, at.chat_id))

    # Account

    async def offer(self, menu: Sequence[MenuEntry]) -> None:
        with delivering():
            await command_menu.offer(self._bot, menu)

    async def find_chat(self, chat_id: str) -> HomeChannel | None:
        with connecting():
            return await chats.find(self._bot, self._me, chat_id.strip())

    async def examine(self, home: Address | None) -> Sequence[Finding]:
        if not _TOKEN.fullmatch(self._token):
            return [diagnostics.no_token()]
        connection = self._open()
        try:
            return await diagnostics.examine(connection.bot, home)
        finally:
            await connection.close()


def _draft_number(key: str) -> int:
    """The same number for the same key; never 0, which Telegram rejects."""
    return zlib.crc32(key.encode("utf-8", "surrogatepass")) & 0x7FFFFFFF or 1


def make(settings: PlatformSettings) -> TelegramAdapter:
    """Return an unconnected adapter for the bot in `settings`."""
    url = settings.value("url") or None
    return TelegramAdapter(settings.value("token"), url, groups=settings.groups)
