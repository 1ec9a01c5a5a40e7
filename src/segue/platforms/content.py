"""Describe inbound content that is not text in words for the agent, and name nameless files.

Others may have written the names in it, so each is put on one line.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterable
from enum import Enum
from functools import cache

from segue.core.text import one_line
from segue.platforms.base import Attachment

_AFTER_A_NAME = " \t\n,:;"
_ADDRESS = re.compile(r"https?://|www\.", re.IGNORECASE)


# Files


class FileKind(Enum):
    """Kinds of files, each with the name and media type that it gets if the platform sends none."""

    PHOTO = ("photo.jpg", "image/jpeg")
    ANIMATION = ("animation.mp4", "video/mp4")
    DOCUMENT = ("document", "application/octet-stream")
    VOICE = ("voice.ogg", "audio/ogg")
    AUDIO = ("audio.mp3", "audio/mpeg")
    VIDEO = ("video.mp4", "video/mp4")
    STICKER = ("sticker.webp", "image/webp")
    VIDEO_STICKER = ("sticker.webm", "video/webm")
    VECTOR_STICKER = ("sticker.tgs", "application/x-tgsticker")


def attachment(
    kind: FileKind, file_id: str, *, name: str = "", media_type: str = "", size: int = 0
) -> Attachment:
    default_name, default_type = kind.value
    if not name and media_type not in ("", default_type):
        suffix = _types().guess_extension(media_type, strict=False)
        if suffix:
            default_name = default_name.partition(".")[0] + suffix
    return Attachment(file_id, name or default_name, media_type or default_type, size)


@cache
def _types() -> mimetypes.MimeTypes:
    """The types that Python knows. With those of the machine, a name would depend on it."""
    return mimetypes.MimeTypes()


# In words

UNSUPPORTED = "[A message of a kind that the platform does not pass on]"


def location(latitude: float, longitude: float, *names: str) -> str:
    """A location, or a place with its name and address."""
    point = f"latitude {latitude}, longitude {longitude}"
    name = ", ".join(filter(None, map(one_line, names)))
    return f"[A place: {name}, at {point}]" if name else f"[A location: {point}]"


def contact(name: str, *phones: str) -> str:
    lines = filter(None, map(one_line, (name, *phones)))
    return f"[A contact: {', '.join(lines)}]"


def poll(question: str, options: Iterable[str]) -> str:
    return f"[A poll: {_listed(question, options)}]"


def checklist(title: str, tasks: Iterable[tuple[str, bool]]) -> str:
    """A checklist. Each of `tasks` has its text, and whether it is done."""
    lines = [f"[x] {text}" if done else f"[ ] {text}" for text, done in tasks]
    return f"[A checklist: {_listed(title, lines)}]"


def story(author: str) -> str:
    return f"[A story of {one_line(author) or 'an unknown author'}]"


def dice(emoji: str, value: int) -> str:
    return f"[{emoji} shows {value}]"


def reaction(emoji: str) -> str:
    """A reaction to a message. Empty if one was taken back."""
    return f"[A reaction: {one_line(emoji)}]" if emoji else ""


def quoted(text: str, files: Iterable[Attachment]) -> str:
    """The content of a message that another one replies to."""
    names = [f"[{file.name}]" for file in files]
    return "\n".join(filter(None, [*names, text]))


def _listed(title: str, lines: Iterable[str]) -> str:
    return "\n- ".join(map(one_line, (title, *lines)))


# Text and chats


def marked(text: str, offset: int, length: int) -> tuple[str, str]:
    """A part of `text`, such as a mention, and the text after it. `offset` and `length` count
    UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    start = 2 * offset
    end = 2 * (offset + length)
    part = units[start:end].decode("utf-16-le", "replace")
    rest = units[end:].decode("utf-16-le", "replace")
    return part, rest


def mention(name: str) -> str:
    """A mention of another user, who chose the name. An address in it does not pass for one that
    the sender wrote."""
    return f"@{one_line(_ADDRESS.sub(' ', name))}"


def without_name(rest: str, text: str) -> str:
    """`rest`, which follows the bot's name at the start of `text`. A message of only the name keeps
    it as its text."""
    return rest.lstrip(_AFTER_A_NAME) or text


def members(chat_name: str, count: int | None = None) -> str:
    """The readers of a chat, for Inbound.readers."""
    number = "" if count is None else f"{count} "
    return f"the {number}members of {chat_name or 'this chat'}"
