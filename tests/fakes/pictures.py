"""Small real images in every format that models accept, and one that they reject."""

from __future__ import annotations

import base64
import struct
import zlib


def png(width: int = 2, height: int = 2, *, size: int = 0) -> bytes:
    """A black PNG, padded to `size` bytes if that is more than it needs."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes((width + 1) * height))
    chunks = [_chunk(b"IHDR", header), _chunk(b"IDAT", rows), _chunk(b"IEND", b"")]
    whole = b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
    if size > len(whole) + 12:
        # An ancillary chunk, which decoders ignore.
        chunks.insert(1, _chunk(b"teSt", bytes(size - len(whole) - 12)))
        whole = b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
    return whole


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# One pixel each.
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
WEBP = base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
WEBP_LOSSLESS = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJ"
    "DRENDg8QEBEQCgwSExIQEw8QEBD/yQALCAABAAEBAREA/8wABgAQEAX/2gAIAQEAAD8A0s8g/9k="
)
BMP = base64.b64decode(
    "Qk06AAAAAAAAADYAAAAoAAAAAQAAAAEAAAABABgAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="
)
"""A format that no model accepts."""

_MARKS = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}


def looks_like(data: bytes) -> str | None:
    """Return the media type that a provider would detect in `data`.

    It does not use `segue.core.images` on purpose: a fake that shared our bugs would hide them.
    """
    if data[8:15] == b"WEBPVP8":
        return "image/webp"
    return next((kind for mark, kind in _MARKS.items() if data.startswith(mark)), None)


def decoded(text: object) -> bytes | None:
    """Decode strict base64, or return None if `text` is not valid."""
    if not isinstance(text, str):
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def size(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG. For other formats, which the fakes do not measure, 1 by 1."""
    return struct.unpack_from(">II", data, 16) if data.startswith(b"\x89PNG") else (1, 1)
