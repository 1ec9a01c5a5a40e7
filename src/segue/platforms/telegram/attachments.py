"""Files attached to a message."""

from __future__ import annotations

from segue.platforms.base import Attachment
from segue.platforms.telegram.wire import Content, Media, Sticker


def attachments(message: Content) -> tuple[Attachment, ...]:
    """At most one attachment: each picture of an album is a separate message."""
    if message.photo:
        # Telegram sends a picture in several sizes.
        largest = max(message.photo, key=lambda size: size.width * size.height)
        return (Attachment(largest.file_id, "photo.jpg", "image/jpeg", largest.file_size),)
    if message.sticker is not None:
        return (_sticker(message.sticker),)
    # An animation is also sent as a document.
    for media, name, media_type in (
        (message.animation, "animation.mp4", "video/mp4"),
        (message.document, "document", "application/octet-stream"),
        (message.voice, "voice.ogg", "audio/ogg"),
        (message.audio, "audio.mp3", "audio/mpeg"),
        (message.video, "video.mp4", "video/mp4"),
        (message.video_note, "video.mp4", "video/mp4"),
    ):
        if media is not None:
            return (_media(media, name, media_type),)
    return ()


def _media(media: Media, name: str, media_type: str) -> Attachment:
    return Attachment(
        media.file_id, media.file_name or name, media.mime_type or media_type, media.file_size
    )


def _sticker(sticker: Sticker) -> Attachment:
    if sticker.is_animated:
        name, media_type = "sticker.tgs", "application/x-tgsticker"
    elif sticker.is_video:
        name, media_type = "sticker.webm", "video/webm"
    else:
        name, media_type = "sticker.webp", "image/webp"
    return Attachment(sticker.file_id, name, media_type, sticker.file_size)
