"""Send messages, and only to the place they are meant for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, LinkPreviewOptions, Message
from telegram.constants import ParseMode

from segue.core.address import Address
from segue.core.text import whole
from segue.platforms.base import Button, Part, Receipt, Unit
from segue.platforms.markup import size
from segue.platforms.telegram.errors import TOPIC_GONE, failed_delivery
from segue.platforms.telegram.transport import Lost, Refused

T = TypeVar("T")

LENGTH = 4096
CAPTION = 1024
"""In UTF-16 units, without markup."""

_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
_ROW = 32
"""Buttons whose labels have at most this many characters in total fit side by side on a phone."""
_UNDER_A_FILE = "caption:"
"""Prefix of a file's receipt. A caption is edited with a different call than a message."""


async def send(bot: Bot, to: Address, part: Part, buttons: Sequence[Button]) -> Receipt:
    check_length(part)

    async def deliver(text: str, mode: str | None) -> Message:
        return await bot.send_message(
            chat_id=chat(to),
            message_thread_id=thread(to),
            text=text,
            parse_mode=mode,
            link_preview_options=_NO_PREVIEW,
            reply_markup=_keyboard(buttons),
        )

    sent = await in_place(bot, to, lambda: in_markup(part, deliver))
    return Receipt(str(sent.message_id))


async def edit(
    bot: Bot, at: Address, receipt: Receipt, part: Part, buttons: Sequence[Button]
) -> None:
    check_length(part)
    message = _number(receipt.removeprefix(_UNDER_A_FILE), "message to edit not found")

    async def deliver(text: str, mode: str | None) -> object:
        if receipt.startswith(_UNDER_A_FILE):
            return await bot.edit_message_caption(
                chat_id=chat(at),
                message_id=message,
                caption=text,
                parse_mode=mode,
                reply_markup=_keyboard(buttons),
            )
        return await bot.edit_message_text(
            chat_id=chat(at),
            message_id=message,
            text=text,
            parse_mode=mode,
            link_preview_options=_NO_PREVIEW,
            reply_markup=_keyboard(buttons),
        )

    try:
        await in_markup(part, deliver)
    except Refused as refused:
        if not refused.says("message is not modified"):
            raise


async def draft(bot: Bot, at: Address, part: Part, number: int) -> None:
    check_length(part)

    async def deliver(text: str, mode: str | None) -> object:
        return await bot.send_message_draft(
            chat_id=chat(at),
            draft_id=number,
            text=text,
            message_thread_id=thread(at),
            parse_mode=mode,
        )

    await in_markup(part, deliver)


def file_receipt(sent: Message) -> Receipt:
    """The receipt of a file, with or without a caption."""
    return Receipt(f"{_UNDER_A_FILE}{sent.message_id}")


async def in_markup(part: Part, deliver: Callable[[str, str | None], Awaitable[T]]) -> T:
    """Deliver as HTML, or as plain text if Telegram rejects the HTML."""
    try:
        return await deliver(whole(part.text), ParseMode.HTML)
    except Refused as refused:
        if not refused.says("can't parse entities"):
            raise
    return await deliver(whole(part.plain), None)


async def in_place(bot: Bot, to: Address, send: Callable[[], Awaitable[Message]]) -> Message:
    """Send to the right topic only. If the topic was deleted and the message landed outside it,
    delete the message."""
    topic, sent = thread(to), await send()
    if topic is not None and sent.message_thread_id != topic:
        raise failed_delivery(TOPIC_GONE, arrived=not await _taken_back(bot, sent))
    return sent


async def _taken_back(bot: Bot, sent: Message) -> bool:
    """Delete the message. Return whether that succeeded."""
    try:
        return await bot.delete_message(sent.chat.id, sent.message_id)
    except (Refused, Lost):
        return False


def check_length(part: Part) -> None:
    """Raise DeliveryFailed for a message that is too long for Telegram, before sending it."""
    if (found := size(part.plain, Unit.UTF16)) > LENGTH:
        raise failed_delivery(f"the message has {found:,} characters, and at most {LENGTH:,} fit")


def chat(at: Address) -> int:
    return _number(at.chat_id, "chat not found")


def thread(at: Address) -> int | None:
    return None if at.thread_id is None else _number(at.thread_id, "message thread not found")


def _number(text: str, reason: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise Refused(400, reason) from error


def _keyboard(buttons: Sequence[Button]) -> InlineKeyboardMarkup | None:
    if not buttons:
        return None
    made = [InlineKeyboardButton(button.label, callback_data=button.data) for button in buttons]
    beside = sum(len(button.label) for button in buttons) <= _ROW
    return InlineKeyboardMarkup([made] if beside else [[button] for button in made])
