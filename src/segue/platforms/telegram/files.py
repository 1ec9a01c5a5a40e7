"""Fetch and send files."""

from __future__ import annotations

from telegram import Bot, Message

from segue.core.address import Address
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.core.text import is_empty, one_line
from segue.platforms.base import Attachment, Part, Receipt, Unit, Upload
from segue.platforms.markup import size
from segue.platforms.telegram import sending
from segue.platforms.telegram.errors import delivering, failed_delivery
from segue.platforms.telegram.transport import Line, Refused

FETCHED_BYTES = 20 * 1024 * 1024
SENT_BYTES = 50 * 1000 * 1000

_PHOTO_BYTES = 10 * 1000 * 1000
_PHOTOS = frozenset({"image/jpeg", "image/png", "image/webp"})
_NAME = 128
_SECONDS = 60.0
"""Telegram inspects a file before it answers."""

_NOTHING = Part("", "")


async def fetch(bot: Bot, line: Line, base: str, attachment: Attachment) -> bytes:
    """Return the file's content. `base` is the URL of the file server, including the token."""
    if attachment.size > FETCHED_BYTES:
        raise Refused(413, f"the file has {attachment.size:,} bytes, more than Telegram gives out")
    found = await bot.get_file(attachment.id)
    if not found.file_path:
        raise Refused(404, "the file is gone")
    # The library returns a full URL, for a download method without a size limit.
    path = found.file_path.removeprefix(f"{base}/")
    return await line.download(f"{base}/{path}", FETCHED_BYTES)


async def send_file(bot: Bot, to: Address, file: Upload, part: Part) -> Receipt:
    """Send the file with its caption. A text too long for a caption follows as a separate message.
    The receipt is then that message's, because it is what may be edited."""
    sending.check_length(part)
    if len(file.data) > SENT_BYTES:
        raise Refused(413, f"the file has {len(file.data):,} bytes; at most {SENT_BYTES:,} fit")
    fits = size(part.plain, Unit.UTF16) <= sending.CAPTION
    sent = await _send(bot, to, file, part if fits else _NOTHING)
    if fits:
        return sending.file_receipt(sent)
    try:
        with delivering():
            return await sending.send(bot, to, part, ())
    except (DeliveryFailed, ConnectFailed) as error:
        # The file has arrived and must not be sent again.
        raise failed_delivery(
            f"the file arrived without its text ({error})", arrived=True
        ) from error


async def _send(bot: Bot, to: Address, file: Upload, part: Part) -> Message:
    if file.media_type in _PHOTOS and len(file.data) <= _PHOTO_BYTES:
        try:
            return await _deliver(bot, to, file, part, photo=True)
        except Refused as refused:
            # The aspect ratio is too extreme, or Telegram cannot decode the image.
            if not refused.says("photo", "image"):
                raise
    return await _deliver(bot, to, file, part, photo=False)


async def _deliver(bot: Bot, to: Address, file: Upload, part: Part, *, photo: bool) -> Message:
    send = bot.send_photo if photo else bot.send_document

    async def deliver(text: str, mode: str | None) -> Message:
        return await send(
            sending.chat(to),
            file.data,
            message_thread_id=sending.thread(to),
            filename=_name(file),
            caption=_caption(text),
            parse_mode=mode,
            read_timeout=_SECONDS,
        )

    return await sending.in_place(bot, to, lambda: sending.in_markup(part, deliver))


def _caption(text: str) -> str | None:
    return None if is_empty(text) else text


def _name(file: Upload) -> str:
    return one_line(file.name, _NAME) or "file"
