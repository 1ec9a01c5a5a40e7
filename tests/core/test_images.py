"""Pictures are recognised by their bytes, and accepted if every provider accepts them."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import pytest

from segue.core import images
from segue.core.errors import BadImage
from segue.core.images import LIMIT, SIDE_LIMIT, image, tokens, with_images
from segue.core.transcript import Image, spoken
from segue.store.values import MESSAGE_LIMIT
from tests.fakes.pictures import BMP, GIF, JPEG, WEBP, WEBP_LOSSLESS, png

# A canvas of 300 by 200, from the first chunk of an extended file.
WEBP_EXTENDED = b"RIFF" + bytes(4) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + (
    (299).to_bytes(3, "little") + (199).to_bytes(3, "little")
)  # fmt: skip


def jpeg(width: int, height: int, *before: bytes) -> bytes:
    """The start of a JPEG, with these segments before its frame."""
    segments = b"".join(
        b"\xff" + kind + struct.pack(">H", len(data) + 2) + data
        for kind, data in ((segment[:1], segment[1:]) for segment in before)
    )
    frame = b"\xff\xc0" + struct.pack(">HBHH", 11, 8, height, width)
    return b"\xff\xd8" + segments + frame + bytes(8)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (png(), "image/png"),
        (JPEG, "image/jpeg"),
        (GIF, "image/gif"),
        (GIF.replace(b"89a", b"87a"), "image/gif"),
        (WEBP, "image/webp"),
        (WEBP_LOSSLESS, "image/webp"),
        (WEBP_EXTENDED, "image/webp"),
    ],
)
def test_the_format_of_a_picture_is_recognised_by_its_bytes(data: bytes, media_type: str):
    assert image(data) == Image(media_type, data)
    assert media_type in images.KINDS


@pytest.mark.parametrize(
    "data", [b"", b"hello", BMP, b"%PDF-1.7", b"RIFF\0\0\0\0WAVEfmt ", b"<svg/>", b"\xff\xd8"]
)
def test_an_unsupported_format_is_refused(data: bytes):
    with pytest.raises(BadImage, match=r"not supported.*Send a PNG"):
        image(data)


@pytest.mark.parametrize(
    "data",
    [
        png()[:20],
        JPEG[:20],
        GIF[:8],
        WEBP[:28],
        WEBP_LOSSLESS[:22],
        WEBP_EXTENDED[:26],
        WEBP[:12] + b"XXXX" + WEBP[16:],
        b"\xff\xd8\xff" + bytes(40),
        png(0, 5),
        jpeg(5, 0),
    ],
)
def test_a_picture_without_a_size_is_refused_as_damaged(data: bytes):
    with pytest.raises(BadImage, match=r"it is damaged"):
        image(data)


@pytest.mark.parametrize("data", [png(), JPEG, GIF, WEBP, WEBP_LOSSLESS, WEBP_EXTENDED])
def test_a_truncated_picture_is_accepted_or_refused_without_other_errors(data: bytes):
    for end in range(len(data)):
        try:
            image(data[:end])
        except BadImage:
            continue


def test_a_picture_can_have_exactly_the_maximum_size():
    assert len(image(png(size=LIMIT)).data) == LIMIT
    with pytest.raises(BadImage, match=r"it has 4.0 megabytes.*at most 3.9"):
        image(png(size=LIMIT + 1))


def test_the_maximum_size_fits_a_stored_message_and_every_provider():
    in_base64 = -(-LIMIT // 3) * 4
    assert in_base64 < 5 * 1024 * 1024 < MESSAGE_LIMIT


@pytest.mark.parametrize("size", [(SIDE_LIMIT + 1, 1), (1, SIDE_LIMIT + 1)])
def test_a_picture_that_is_too_wide_or_high_is_refused(size: tuple[int, int]):
    assert image(png(SIDE_LIMIT, 1))
    with pytest.raises(BadImage, match=r"8001.*pixels large"):
        image(png(*size))


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (png(10, 10), 258),
        (png(900, 1000), 1200),
        (png(8000, 8000), 1600),
        (jpeg(900, 1000), 1200),
        (jpeg(900, 1000, b"\xe0JFIF", b"\xe1Exif" + bytes(3000), b"\xdb1"), 1200),
        (jpeg(900, 1000).replace(b"\xff\xc0", b"\xff\xff\xff\xc2"), 1200),
        (GIF[:6] + struct.pack("<HH", 900, 1000) + GIF[10:], 1200),
        (WEBP[:26] + struct.pack("<HH", 900, 1000) + WEBP[30:], 1200),
        (WEBP_LOSSLESS[:21] + struct.pack("<I", 899 | 999 << 14) + WEBP_LOSSLESS[25:], 1200),
        (WEBP_EXTENDED[:24] + b"\x83\x03\0\xe7\x03\0", 1200),
    ],
)
def test_a_picture_costs_tokens_by_its_size_within_bounds(data: bytes, count: int):
    assert tokens(image(data)) == count


def test_a_picture_of_unknown_size_costs_the_maximum():
    assert tokens(Image("image/tiff", b"?")) == tokens(Image("image/png", b"?")) == 1600


def test_the_tokens_of_a_message_include_its_pictures():
    said = spoken("What is this?", datetime(2026, 11, 1, tzinfo=UTC))
    picture = image(png())
    shown = with_images(said, [picture, picture])
    assert shown.images == (picture, picture)
    assert shown.tokens == said.tokens + 2 * tokens(picture)
