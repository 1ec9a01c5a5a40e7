"""No update spoils those that come with it, and all are confirmed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from segue.platforms.batches import Torn
from segue.platforms.errors import Lost
from segue.platforms.telegram import polling


def batch(*updates: str, offset: int | None = None) -> polling.Batch:
    return polling.read(f'{{"ok":true,"result":[{",".join(updates)}]}}'.encode(), offset)


def update(number: int, text: str = "hello") -> str:
    chat = {"id": 1, "type": "private"}
    message: dict[str, Any] = {"message_id": 1, "date": 1, "chat": chat, "text": text}
    return json.dumps({"update_id": number, "message": message})


def deep(number: int) -> str:
    return f'{{"more":{"[" * 50_000}{"]" * 50_000},"update_id":{number},"x":"],[{{"}}'


def numbers(found: polling.Batch) -> list[int]:
    return [update.update_id for update in found.updates]


def test_the_next_offset_is_past_all_of_them():
    found = batch(update(5), update(6))
    assert (numbers(found), found.next) == ([5, 6], 7)


def test_without_any_the_offset_stays():
    assert batch(offset=9).next == 9
    assert batch().next is None


def test_those_that_come_in_another_order_are_confirmed_too():
    assert batch(update(6), update(5)).next == 7


def test_the_numbers_may_begin_anew():
    assert batch(update(5), offset=1000).next == 6


def test_what_cannot_be_read_is_confirmed_and_spoils_nothing():
    found = batch('{"update_id":5,"message":7}', update(6), '{"update_id":7,"message":{}}')
    assert (numbers(found), found.next) == ([6], 8)


def test_what_has_no_number_is_confirmed_with_its_neighbours():
    assert batch(update(5), "null", '{"update_id":"6"}', update(8)).next == 9


def test_what_has_no_number_and_no_neighbours_is_confirmed_by_counting():
    assert batch("null", '"x"', offset=5).next == 7


@pytest.mark.parametrize("text", ["plain", '"],[{', "\\", 'x\\"]'])
def test_nesting_without_end_spoils_nothing(text: str):
    found = batch(update(5, text), deep(6), update(7, text), offset=5)
    assert (numbers(found), found.next) == ([5, 7], 8)
    assert [update.message.text for update in found.updates if update.message] == [text, text]
    assert batch(deep(9)).next == 10


@pytest.mark.parametrize(
    "payload", [b"", b"nonsense", b"{}", b'{"result":{}}', b"\xff", b"[" * 9999]
)
def test_an_answer_that_makes_no_sense_is_lost(payload: bytes):
    with pytest.raises(Lost):
        polling.read(payload, 5)


BROKEN = [
    b"\\ud83d", b"\\udc00", b"\\ud83dx", b"\x00", b"\n", b"\x1f", b"\\x", b"\\u12", b"\xff",
    b"\xed\xa0\xbd",
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("place", ["text", "caption", "of no meaning"])
def test_what_is_no_json_is_skipped_by_its_id_and_spoils_nothing(broken: bytes, place: str):
    bad = b'{"update_id":6,"message":{"%s":"a %s ],[{ z"}}' % (place.encode(), broken)
    good = (update(5, '"],[{').encode(), update(7).encode())
    payload = b'{"ok":true,"result":[%s,\n%s,%s]}' % (good[0], bad, good[1])
    found = polling.read(payload, 5)
    assert (numbers(found), list(found.skipped), found.next) == ([5, 7], [6], 8)
    alone = polling.read(b'{"ok":true,"result":[%s]}' % bad, None)
    assert (list(alone.skipped), alone.next) == ([6], 7)


def test_a_string_without_an_end_takes_nothing_along_for_good():
    payload = f'{{"ok":true,"result":[{update(5)},{{"update_id":6,"x":"y}},{update(7)}]}}'.encode()
    found = polling.read(payload, 5)
    assert numbers(found) == [5]
    assert found.next in (6, 7)


@pytest.mark.parametrize("rest", ['{"update_id":6,"x":"y', '{"update_id":6,"x":{"y":'])
def test_an_update_that_cannot_be_told_apart_is_asked_for_alone(rest: str):
    payload = f'{{"ok":true,"result":[{rest}]}}'.encode()
    with pytest.raises(Torn):
        polling.read(payload, 6)
    assert polling.read_one(payload, 6).next == 7


def test_what_has_no_number_cannot_be_skipped_before_there_is_one():
    with pytest.raises(Lost):
        batch("null")


def test_the_ids_of_an_update_are_its_own():
    """Not those that a person wrote into it."""
    bad = '{"update_id":6,"message":{"text":"\\"update_id\\":99999 \\ud83d"}}'
    assert batch(bad).next == 7
