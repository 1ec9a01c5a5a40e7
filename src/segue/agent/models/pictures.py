"""Which pictures of a prompt a model is shown, and what it reads in place of the others."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from segue.core.text import one_line
from segue.core.transcript import Image, Message

MOST = 8
"""How many pictures are shown. Each costs its tokens and its megabytes in every request."""
ROOM = 12_000_000
"""Bytes that they may have together: 16 MB as base64, of the 20 that Gemini takes with all else."""


def shown(
    messages: Sequence[Message], kinds: Container[str]
) -> Iterator[tuple[Message, list[Image | str]]]:
    """Each message with its pictures, in their order: the newest as such, every other as a
    sentence. `kinds` are the media types that the model takes: none, if it cannot see."""
    visible = [i for m in messages if m.images for i in m.images if i.media_type in kinds]
    hidden = _too_old(visible)
    for message in messages:
        pictures: list[Image | str] = []
        for picture in message.images:
            if picture.media_type not in kinds:
                pictures.append(sentence(picture))
            elif hidden:
                hidden -= 1
                pictures.append(sentence(picture))
            else:
                pictures.append(picture)
        yield message, pictures


def sentence(picture: Image) -> str:
    """What is said in place of a picture."""
    about = f"{one_line(picture.media_type, 40)}, {_size(len(picture.data))}"
    return f"[A picture ({about}) that you cannot see now.]"


def any_in(messages: Iterable[Message]) -> bool:
    return any(message.images for message in messages)


def _too_old(pictures: Sequence[Image]) -> int:
    """How many of them, from the oldest on, are not shown."""
    room = ROOM
    for newer, picture in enumerate(reversed(pictures)):
        room -= len(picture.data)
        if newer == MOST or room < 0:
            return len(pictures) - newer
    return 0


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 1_000_000 else f"{-(-count // 1000)} kB"
