"""One update that cannot be read spoils none of those that come with it."""

from __future__ import annotations

import pytest

from segue.platforms.batches import Torn, split
from segue.platforms.errors import Lost

DEEP = b"[" * 50_000 + b"]" * 50_000
BROKEN = [
    b'"\\ud83d"', b'"\\udc00"', b'"\x00"', b'"\n"', b'"\\x"', b'"\\u12"', b'"\xff"',
    b'{"a": nonsense}', b'{"more": %s, "x": "],[{"}' % DEEP,
]  # fmt: skip


def elements(array: bytes) -> list[bytes]:
    return [bytes(it).strip() for it in split(b'{"ok": true, "items": [%s]}' % array, "items")]


def test_the_elements_of_an_array_are_separated():
    assert elements(b'1, {"a": [2, "],"]}') == [b"1", b'{"a": [2, "],"]}']
    assert elements(b"") == []


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("text", [b"plain", b'\\"],[{', b"\\\\", b'x\\\\\\"]'])
def test_one_that_is_no_json_is_separated_from_the_others(broken: bytes, text: bytes):
    good = b'{"text": "%s"}' % text
    assert elements(b",\n".join((good, broken, good))) == [good, broken, good]


def test_what_follows_a_string_without_an_end_is_left_for_the_next_time():
    assert elements(b'{"id": 5}, {"id": 6, "x": "y}, {"id": 7}')[0] == b'{"id": 5}'


@pytest.mark.parametrize("rest", [b'{"x": "y', b'{"x": {"y":'])
def test_an_only_one_without_an_end_is_torn(rest: bytes):
    with pytest.raises(Torn):
        split(b'{"items": [%s' % rest, "items")


@pytest.mark.parametrize(
    "payload", [b"", b"nonsense", b"{}", b'{"items":{}}', b"\xff", b"[" * 9999, b'{"other":[]}']
)
def test_what_has_no_array_is_lost(payload: bytes):
    with pytest.raises(Lost) as caught:
        split(payload, "items")
    assert (caught.value.arrived, type(caught.value)) == (True, Lost)
