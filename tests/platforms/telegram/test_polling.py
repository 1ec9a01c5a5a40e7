"""No update spoils those that come with it, and all are confirmed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from segue.platforms.telegram import polling
from segue.platforms.telegram.line import Lost


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
