"""Pictures: which ones are accepted, and an estimate of their cost in tokens."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from segue.core.errors import BadImage
from segue.core.transcript import Image, Message

LIMIT = 3_900_000
"""Maximum bytes.

Anthropic's limit is the lowest of the providers: 5 MiB after base64, which turns every three bytes
into four.
"""
SIDE_LIMIT = 8000
"""Maximum width or height in pixels, also Anthropic's limit."""

# Anthropic's rates, the most expensive of all providers. The minimum is Gemini's, which is higher.
_PIXELS_PER_TOKEN = 750
_MAX_TOKENS = 1600
_MIN_TOKENS = 258

_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
# The markers of a frame, which holds the size. C4, C8 and CC mean something else.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def image(data: bytes) -> Image:
    """Return `data` as an Image, or raise BadImage unless every provider accepts it.

    The bytes decide what type it is, not the sender.
    """
    media_type = _media_type(data)
    if media_type is None:
        raise _bad("its format is not supported")
    if len(data) > LIMIT:
        raise _bad(f"it has {-(-len(data) // 100_000) / 10} megabytes")
    picture = Image(media_type, data)
    size = _size(picture)
    if size is None:
        raise _bad("it is damaged")
    if max(size) > SIDE_LIMIT:
        raise _bad(f"it is {size[0]} by {size[1]} pixels large; the limit is {SIDE_LIMIT}")
    return picture


def with_images(message: Message, images: Sequence[Image]) -> Message:
    """Return `message` with the pictures added, and their cost in tokens."""
    cost = message.tokens + sum(map(tokens, images))
    return structs.replace(message, images=(*message.images, *images), tokens=cost)


def tokens(image: Image) -> int:
    """Estimate the tokens of a prompt that the picture takes, rounding up when in doubt."""
    size = _size(image)
    if size is None:
        return _MAX_TOKENS
    return min(max(size[0] * size[1] // _PIXELS_PER_TOKEN, _MIN_TOKENS), _MAX_TOKENS)


def _bad(reason: str) -> BadImage:
    return BadImage(reason=reason, limit=f"{LIMIT / 1_000_000:.1f}")


def _media_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _STARTS.items() if data.startswith(start)), None)


def _size(image: Image) -> tuple[int, int] | None:
    """Return width and height in pixels, or None if the data does not contain them."""
    size_of = _SIZES.get(image.media_type)
    try:
        size = size_of(image.data) if size_of else None
    except (struct.error, IndexError):
        return None
    return size if size and min(size) > 0 else None


def _png(data: bytes) -> tuple[int, int]:
    return struct.unpack_from(">II", data, 16)


def _gif(data: bytes) -> tuple[int, int]:
    return struct.unpack_from("<HH", data, 6)


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """Read the size from the first frame. Segments come before it, each with its length."""
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        # Any number of FF bytes may precede a marker.
        at += 1 if marker == 0xFF else 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    """Read the size from the first chunk, of which there are three kinds."""
    match data[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (both,) = struct.unpack_from("<I", data, 21)
            return (both & 0x3FFF) + 1, (both >> 14 & 0x3FFF) + 1
        case b"VP8X" if len(data) >= 30:
            width = data[24:27]
            height = data[27:30]
            return int.from_bytes(width, "little") + 1, int.from_bytes(height, "little") + 1
        case _:
            return None


_SIZES: Mapping[str, Callable[[bytes], tuple[int, int] | None]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
KINDS = frozenset(_SIZES)
"""The accepted media types."""
