"""Selects the pictures that a model sees, and the text that replaces the others."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from segue.core.text import one_line
from segue.core.transcript import Image, Message

MAX_PICTURES = 8
"""The maximum number of pictures. Each one costs tokens and megabytes in every request."""
MAX_BYTES = 12_000_000
"""The maximum total size in bytes: 16 MB as base64, out of Gemini's 20 MB for a whole request."""


def shown(
    messages: Sequence[Message], kinds: Container[str]
) -> Iterator[tuple[Message, list[Image | str]]]:
    """Yield each message with its pictures, in order. A sentence replaces those that are too old,
    and those whose media types are not among `kinds`, which the model accepts."""
    visible = [i for m in messages if m.images for i in m.images if i.media_type in kinds]
    hidden = _too_old(visible)
    for message in messages:
        pictures: list[Image | str] = []
        for picture in message.images:
            seen = picture.media_type in kinds
            pictures.append(picture if seen and not hidden else sentence(picture))
            if seen and hidden:
                hidden -= 1
        yield message, pictures


def sentence(picture: Image) -> str:
    """The text that replaces a picture."""
    about = f"{one_line(picture.media_type, 40)}, {_size(len(picture.data))}"
    return f"[A picture ({about}) that you cannot see now.]"


def _too_old(pictures: Sequence[Image]) -> int:
    """The number of oldest pictures to leave out."""
    room = MAX_BYTES
    for newer, picture in enumerate(reversed(pictures)):
        room -= len(picture.data)
        if newer == MAX_PICTURES or room < 0:
            return len(pictures) - newer
    return 0


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 1_000_000 else f"{-(-count // 1000)} kB"
