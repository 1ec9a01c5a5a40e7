"""One unreadable update does not affect the others in its batch."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from segue.platforms.batches import Batch, Batches, Torn, split
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
def test_an_element_that_is_invalid_json_is_separated_from_the_others(broken: bytes, text: bytes):
    good = b'{"text": "%s"}' % text
    assert elements(b",\n".join((good, broken, good))) == [good, broken, good]


def test_elements_after_an_unterminated_string_are_left_for_the_next_poll():
    assert elements(b'{"id": 5}, {"id": 6, "x": "y}, {"id": 7}')[0] == b'{"id": 5}'


@pytest.mark.parametrize("rest", [b'{"x": "y', b'{"x": {"y":'])
def test_a_single_unterminated_element_raises_torn(rest: bytes):
    with pytest.raises(Torn):
        split(b'{"items": [%s' % rest, "items")


@pytest.mark.parametrize(
    "payload", [b"", b"nonsense", b"{}", b'{"items":{}}', b"\xff", b"[" * 9999, b'{"other":[]}']
)
def test_a_response_without_the_array_raises_lost(payload: bytes):
    with pytest.raises(Lost) as caught:
        split(payload, "items")
    assert (caught.value.arrived, type(caught.value)) == (True, Lost)


# Numbered updates

DEEP_UPDATE = f'{{"more":{"[" * 50_000}{"]" * 50_000},"update_id":6}}'


class Message(msgspec.Struct):
    text: str


class Numbered(msgspec.Struct):
    update_id: int
    message: Message


UPDATES = Batches("result", Numbered, "update_id")


def batch(*updates: str, offset: int | None = None) -> Batch[Numbered]:
    return UPDATES.read(f'{{"ok":true,"result":[{",".join(updates)}]}}'.encode(), offset)


def update(number: int) -> str:
    return f'{{"update_id":{number},"message":{{"text":"hello"}}}}'


@pytest.mark.parametrize(
    ("updates", "offset", "found", "next_"),
    [
        ([update(5), update(6)], None, [5, 6], 7),
        ([update(6), update(5)], None, [6, 5], 7),
        # After a week without updates, the ids continue from any number.
        ([update(5)], 1000, [5], 6),
        ([], 9, [], 9),
        ([], None, [], None),
        (['{"update_id":5,"message":7}', update(6), '{"update_id":7,"message":{}}'], None, [6], 8),
        # Without an id: confirmed with its neighbours, or by counting.
        ([update(5), "null", '{"update_id":"6"}', update(8)], None, [5, 8], 9),
        (["null", '"x"'], 5, [], 7),
        ([update(5), DEEP_UPDATE, update(7)], None, [5, 7], 8),
        ([DEEP_UPDATE], None, [], 7),
        (['{"update_id":6,"message":{"text":"\\ud83d"}}'], None, [], 7),
        # The id is its own, not one in the text of a user.
        (['{"update_id":6,"message":{"text":"\\"update_id\\":99999 \\ud83d"}}'], None, [], 7),
    ],
)
def test_every_update_is_confirmed(
    updates: list[str], offset: int | None, found: list[int], next_: int | None
):
    read = batch(*updates, offset=offset)
    assert ([it.update_id for it in read.updates], read.next) == (found, next_)
    assert len(read.skipped) == len(updates) - len(found)


def test_skipped_updates_are_listed_with_their_ids():
    assert list(batch(DEEP_UPDATE, "null", update(8)).skipped) == [6, None]


def test_a_torn_update_is_skipped_when_requested_alone():
    payload = b'{"ok":true,"result":[{"update_id":6,"x":"y]}'
    with pytest.raises(Torn):
        UPDATES.read(payload, 6)
    assert UPDATES.read(payload, 6, alone=True).next == 7


@pytest.mark.parametrize("length", range(90))
def test_a_text_that_was_cut_is_read_up_to_there(length: int):
    text = r"a\n[{\"" + r"é\u0041\ud83d\ude00x" * 3
    whole = f'{{"ok":true,"result":[{{"update_id":6,"message":{{"text":"{text}"}}}}]}}'.encode()
    start = whole.index(b'"text":"') + len(b'"text":"')
    payload = whole[: min(start + length, whole.rindex(b'"'))]
    with pytest.raises(Torn):
        UPDATES.read(payload, 6)
    read = UPDATES.read(payload, 6, alone=True)
    (found,) = read.updates
    assert ('a\n[{"' + "éA😀x" * 3).startswith(found.message.text)
    assert len(found.message.text) > length // 12 - 3
    assert read.next == 7


def test_a_long_text_that_was_cut_takes_memory_for_a_few_copies_of_it():
    text = b"\\u0041" * 200_000
    payload = b'{"ok":true,"result":[{"update_id":6,"message":{"text":"' + text
    tracemalloc.start()
    try:
        (found,) = UPDATES.read(payload, 6, alone=True).updates
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.message.text == "A" * 200_000
    assert peak < 4 * len(payload)


def test_a_batch_without_any_update_id_raises_lost():
    with pytest.raises(Lost):
        batch("null")
