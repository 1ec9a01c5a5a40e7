"""The Telegram adapter: receiving, sending, topics, chats, and the checks of the setup."""

from __future__ import annotations

import asyncio
import dataclasses
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from telegram import (
    Bot,
    ChatMember,
    ChatMemberAdministrator,
    ChatMemberRestricted,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    Message,
)

from segue.core.address import Address, Audience, ChatType, HomeChannel, Platform
from segue.core.text import is_empty
from segue.platforms import base, sending
from segue.platforms.adapter import RemoteAdapter
from segue.platforms.base import Button, Finding, Inbound, MenuEntry, Receipt, Upload
from segue.platforms.connection import PollPace, check
from segue.platforms.errors import Refused, tolerating_absence
from segue.platforms.spec import PlatformSettings
from segue.platforms.telegram.client import BATCH, FAILURES, POLL_SECONDS, Client, target
from segue.platforms.telegram.polling import Albums
from segue.platforms.telegram.spec import UPLOADS
from segue.platforms.telegram.updates import Chat, Update, User, address, parse

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
    upload_bytes=UPLOADS.most,
    preview_seconds=20.0,  # a draft disappears after 30 seconds
    keeps=timedelta(hours=24),
)
_PHOTO_BYTES = 10 * 1000 * 1000
_PHOTOS = frozenset({"image/jpeg", "image/png", "image/webp"})
_UPLOAD_SECONDS = 60.0  # Telegram inspects a file before it answers
_UNDER_A_FILE = "caption:"
"""Prefix of a file's receipt. A caption is edited with a different call than a message."""
_NO_TOKEN = Finding(
    False,
    "Telegram does not accept the token.",
    "Send /mybots to @BotFather, choose the bot and API Token, and give that token to "
    "`segue setup telegram`.",
    vital=True,
)
_THREADED = (
    "Open @BotFather, press Open there (the menu of /mybots does not have it), choose the bot, "
    "then Bot Settings, and turn Threaded Mode on."
)
_TOPICS = "Turn Topics on in the settings of the group."
_MANAGER = "Make the bot an administrator of the group, with the right to manage topics."
_PRIVACY = (
    "Make the bot an administrator of the group, or send /setprivacy to @BotFather and turn it off."
)
_WEBHOOK = (
    "Type `segue gateway start`, which removes it; if it comes back, another program uses the bot, "
    "so get one of your own from @BotFather."
)
_HIDDEN = ("member list is inaccessible", "chat_admin_required")
"""Why Telegram does not say who is in a group of which the bot is no administrator."""
_UNREACHED = "Write something to the bot there, adding it to the chat first, and send /sethome."


class TelegramAdapter(RemoteAdapter[Client]):
    """The adapter of one bot."""

    platform = Platform.TELEGRAM
    capabilities = CAPABILITIES
    caption = 1024
    no_account = _NO_TOKEN
    help_length = 256

    def __init__(
        self, token: str, url: str = "", *, silence: float = 20.0, album_seconds: float = 1.0
    ) -> None:
        """`url` is a self-hosted Bot API server. `silence` is the timeout in seconds after which a
        call counts as lost: sends cannot be repeated safely, so it pays to wait a little longer.
        `album_seconds` is how long to wait for more files of an album."""
        super().__init__(FAILURES)
        self._make = partial(Client, token, url, silence)
        self._me = User(id=0, is_bot=True, first_name="")
        self._offset: int | None = None
        self._is_behind = True
        self._polls = PollPace()
        self._albums = Albums()
        self._album_seconds = album_seconds
        self._open: set[Address | None] = set()
        """Topics that are not closed, as far as we know."""
        self._undrafted: set[str] = set()
        """Chats that do not support drafts. "" is in it if the server does not."""

    async def _greet(self, client: Client) -> None:
        me = await client.bot.get_me()
        # A webhook prevents polling. Pending updates are kept.
        if (await client.bot.get_webhook_info()).url:
            await client.bot.delete_webhook(drop_pending_updates=False)
        self._me = User(me.id, me.is_bot, me.first_name, username=me.username or "")
        self.account = str(me.id)
        self.mention = f"@{self._me.username}"
        self._is_behind = True

    # Inbound

    @property
    def is_caught_up(self) -> bool:
        return not self._is_behind

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        while True:
            self._polls.begin()
            seconds = 0 if self._is_behind else POLL_SECONDS  # waiting updates come at once
            with FAILURES.connecting():
                batch = await self.client.poll(self._offset, seconds)
            yield None
            await self._polls.end(seconds, is_empty=not batch.updates and not batch.skipped)
            ready = self._albums.count_ready(batch.updates)
            for group in self._albums.group(batch.updates[:ready]):
                item = str(group[0].update_id)
                inbound = self.containment.parse(item, partial(self._inbound, group))
                if inbound is not None:
                    yield inbound
            # The next poll sends this offset and so confirms the batch, once all of it is recorded.
            rest = [update.update_id for update in batch.updates[ready:]]
            self._offset = min(rest, default=batch.next)
            end = self._offset or 0
            self._skip([it or "unknown" for it in batch.skipped if it is None or it < end])
            if rest:
                await asyncio.sleep(self._album_seconds)
            elif len(batch.updates) < BATCH:  # no more updates of the absence are left
                self._is_behind = False

    def _inbound(self, group: Sequence[Update]) -> Inbound | None:
        """The Inbound for an update, or for all updates of an album."""
        message = group[0].message
        if message is not None and message.forum_topic_closed is not None:
            self._open.discard(address(message.chat, message))
        found = [parse(update, self._me, time.time()) for update in group]
        parts = [part for part in found if part is not None]
        if not parts:
            return None
        inbound = self._albums.merge(group[0], parts)
        if inbound.moved_to is not None:
            self.moves.add(inbound.address, inbound.moved_to.chat_id)
        return inbound

    def acknowledge(self, press: Inbound) -> None:
        self.connection.in_background(lambda it: it.bot.answer_callback_query(press.press_id))

    async def _fetch(self, attachment: base.Attachment) -> bytes:
        return await self.client.fetch(attachment.id, self.capabilities.attachment_bytes)

    # Outbound

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        given = _options(markup, buttons, text=text, disable_web_page_preview=True)
        return Receipt(await self._deliver(to, partial(self.client.bot.send_message, **given)))

    async def _edit(
        self, at: Address, receipt: Receipt, text: str, *, markup: bool, buttons: Sequence[Button]
    ) -> None:
        bot = self.client.bot
        is_caption = receipt.startswith(_UNDER_A_FILE)
        message = sending.number(receipt.removeprefix(_UNDER_A_FILE), "message to edit not found")
        given = _options(markup, buttons, chat_id=target(at)["chat_id"], message_id=message)
        if is_caption:
            await bot.edit_message_caption(caption=text, **given)
        else:
            await bot.edit_message_text(text, disable_web_page_preview=True, **given)

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        bot = self.client.bot
        given = _options(
            markup,
            filename=sending.file_name(file),
            caption=None if is_empty(caption) else caption,
            read_timeout=_UPLOAD_SECONDS,
        )
        if file.media_type in _PHOTOS and len(file.data) <= _PHOTO_BYTES:
            photo = partial(bot.send_photo, photo=file.data, **given)
            try:
                sent = await self._deliver(to, photo)
            except Refused as refused:
                # The aspect ratio is too extreme, or Telegram cannot decode the image.
                if not refused.says("photo", "image"):
                    raise
            else:
                return Receipt(f"{_UNDER_A_FILE}{sent}")
        document = partial(bot.send_document, document=file.data, **given)
        sent = await self._deliver(to, document)
        return Receipt(f"{_UNDER_A_FILE}{sent}")

    def previews(self, at: Address) -> bool:
        has_drafts = self._undrafted.isdisjoint({"", at.chat_id})
        return has_drafts and at.chat_type is ChatType.DM

    async def _preview(self, at: Address, text: str, *, markup: bool, key: str) -> None:
        # The same number for the same key; never 0, which Telegram rejects.
        draft = zlib.crc32(key.encode("utf-8", "surrogatepass")) & 0x7FFFFFFF or 1
        given = _options(markup, draft_id=draft, text=text, **target(at))
        try:
            await self.client.bot.send_message_draft(**given)
        except Refused as refused:
            if refused.status == 404:
                self._undrafted.add("")
            elif refused.says("textdraft"):
                self._undrafted.add(at.chat_id)
            raise

    async def _typing(self, at: Address) -> None:
        await self.client.bot.send_chat_action(**target(at), action="typing")

    # Topics

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address:
        made = await self.client.bot.create_forum_topic(target(home)["chat_id"], title)
        topic = dataclasses.replace(home, thread_id=str(made.message_thread_id))
        self._open.add(topic)
        return topic

    async def _deliver(self, to: Address, send: Callable[..., Awaitable[Message]]) -> str:
        """Send to the right topic only. Return the message's id."""
        await self._reopen(to)
        sent = await send(**target(to))
        await sending.check_thread(to, sent.message_thread_id, sent.delete, FAILURES)
        return str(sent.message_id)

    async def _reopen(self, at: Address) -> None:
        """Reopen a group's topic, if needed and possible. If it fails, sending reports why.

        A bot that opened a topic, or manages topics, can write to it while it is closed. That
        neither fails nor reopens it, and the bot cannot ask whether it is closed. So each topic is
        reopened before the first message from this process, and after it was closed.
        """
        if at.thread_id is None or at.chat_type is not ChatType.GROUP or at in self._open:
            return
        try:
            await self.client.bot.reopen_forum_topic(**target(at))
        except FAILURES.all as error:
            # With 400 it is open, deleted or not ours to reopen. Trying again changes nothing.
            if not isinstance(error, Refused) or error.status != 400:
                return
        self._open.add(at)

    # Account

    def pairing_link(self, code: str) -> str | None:
        return f"https://t.me/{self._me.username}?start={code}" if self._me.username else None

    async def _set_menu(self, menu: Sequence[MenuEntry]) -> None:
        bot = self.client.bot
        shown = [MenuEntry(it.command, it.description) for it in await bot.get_my_commands()]
        if shown != menu:
            await bot.set_my_commands([(entry.name, entry.help) for entry in menu])

    async def _has_user(self, client: Client, user_id: str) -> bool | None:
        """True if the user has written to the bot. Telegram does not say whether there are
        others."""
        with tolerating_absence():
            await client.bot.get_chat(user_id)
            return True
        return None

    async def _find(self, chat_id: str) -> HomeChannel | None:
        """The chat with that id or @name, if the bot is in it and can write there."""
        bot = self.client.bot
        with tolerating_absence():
            found = await bot.get_chat(chat_id)
            if found.type != "private":  # public groups can be looked up by any bot
                member = await bot.get_chat_member(found.id, bot.id)
                if member.status in (ChatMember.LEFT, ChatMember.BANNED):
                    return None
            at = address(Chat(id=found.id, type=found.type))
            if at is not None:
                return HomeChannel(address=at, name=found.title or found.first_name or "")
        return None

    async def _audience(self, chat: Address, users: Sequence[str]) -> Audience | None:
        """Who can read a group. Telegram gives their number."""
        if chat.chat_type is ChatType.DM:
            return None
        bot = self.client.bot
        number = target(chat)["chat_id"]
        found = await bot.get_chat(number)
        owners = [user for user in users if await _is_member(bot, number, user)]
        return Audience(
            has_owner=bool(owners),
            is_public=bool(found.username),
            readers=await bot.get_chat_member_count(number),
        )

    # Setup

    async def _checks(self, client: Client, home: Address | None) -> AsyncGenerator[Finding]:
        """Check the bot and its home channel. Never asks for updates, so a running gateway is not
        disturbed."""
        bot = client.bot
        me = await bot.get_me()
        yield Finding(True, f"The token is good: the bot is @{me.username}.")
        good = "No webhook is set."
        bad = "A webhook is set, so nothing can be received."
        yield check(not (await bot.get_webhook_info()).url, good, bad, _WEBHOOK)
        if home is None or home.chat_type is ChatType.DM:
            good = "Direct messages with the bot can have topics."
            bad = "Direct messages with the bot have no topics, so handoffs share one chat."
            yield check(me.has_topics_enabled, good, bad, _THREADED)
        if home is None:
            return
        try:
            chat = await bot.get_chat(target(home)["chat_id"])
        except Refused as refused:
            if refused.status not in (400, 403):
                raise
            text = f"The home channel cannot be reached: {refused.reason}."
            yield Finding(False, text, _UNREACHED, vital=True)
            return
        yield Finding(True, f"The home channel is {chat.title or chat.first_name or chat.id}.")
        if home.chat_type is ChatType.GROUP:
            bad = "The group has no topics, so handoffs share one chat."
            yield check(chat.is_forum, "The group has topics.", bad, _TOPICS)
            member = await bot.get_chat_member(chat.id, me.id)
            admin = isinstance(member, ChatMemberAdministrator)
            good = "The bot may manage topics there."
            bad = "The bot may not manage topics there."
            yield check(admin and member.can_manage_topics, good, bad, _MANAGER)
            good = "The bot hears all that is said in the group."
            bad = "Privacy mode is on: the bot hears only commands, replies to it, and its name."
            yield check(admin or me.can_read_all_group_messages, good, bad, _PRIVACY)


def _options(markup: bool, buttons: Sequence[Button] = (), **more: Any) -> dict[str, Any]:
    rows = [
        [InlineKeyboardButton(button.label, callback_data=button.data) for button in row]
        for row in sending.rows(buttons)
    ]
    options: dict[str, Any] = {"parse_mode": "HTML" if markup else None, **more}
    if rows:
        options["reply_markup"] = InlineKeyboardMarkup(rows)
    return options


async def _is_member(bot: Bot, chat: int, user: str) -> bool:
    try:
        member = await bot.get_chat_member(chat, int(user))
    except Refused as refused:
        if refused.status != 400:
            raise
        return refused.says(*_HIDDEN)
    if isinstance(member, ChatMemberRestricted):
        return member.is_member
    return member.status not in (ChatMember.LEFT, ChatMember.BANNED)


def make(settings: PlatformSettings) -> TelegramAdapter:
    """Return an unconnected adapter for the bot in `settings`."""
    return TelegramAdapter(settings.value("token"), settings.value("url"))
