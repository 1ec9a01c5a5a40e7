"""All updates are confirmed, none spoils the others, and an album is one message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from segue.platforms.batches import Batch, Torn
from segue.platforms.errors import Lost
from segue.platforms.telegram.client import UPDATES
from segue.platforms.telegram.wire import Update

DEEP = f'{{"more":{"[" * 50_000}{"]" * 50_000},"update_id":6}}'


def batch(*updates: str, offset: int | None = None) -> Batch[Update]:
    return UPDATES.read(f'{{"ok":true,"result":[{",".join(updates)}]}}'.encode(), offset)


def update(number: int, text: str = "hello") -> str:
    chat = {"id": 1, "type": "private"}
    message: dict[str, Any] = {"message_id": 1, "date": 1, "chat": chat, "text": text}
    return json.dumps({"update_id": number, "message": message})


@pytest.mark.parametrize(
    ("updates", "offset", "found", "next_"),
    [
        ([update(5), update(6)], None, [5, 6], 7),
        ([update(6), update(5)], None, [6, 5], 7),
        # After a week without updates, the numbers go on from anywhere.
        ([update(5)], 1000, [5], 6),
        ([], 9, [], 9),
        ([], None, [], None),
        (['{"update_id":5,"message":7}', update(6), '{"update_id":7,"message":{}}'], None, [6], 8),
        # Without a number: confirmed with its neighbours, or by counting.
        ([update(5), "null", '{"update_id":"6"}', update(8)], None, [5, 8], 9),
        (["null", '"x"'], 5, [], 7),
        ([update(5), DEEP, update(7)], None, [5, 7], 8),
        ([DEEP], None, [], 7),
        (['{"update_id":6,"message":{"text":"\\ud83d"}}'], None, [], 7),
        # The number is its own, not one that a user wrote into it.
        (['{"update_id":6,"message":{"text":"\\"update_id\\":99999 \\ud83d"}}'], None, [], 7),
    ],
)
def test_every_update_is_confirmed(
    updates: list[str], offset: int | None, found: list[int], next_: int | None
):
    read = batch(*updates, offset=offset)
    assert ([it.update_id for it in read.updates], read.next) == (found, next_)
    assert len(read.skipped) == len(updates) - len(found)


def test_what_is_skipped_is_named():
    assert list(batch(DEEP, "null", update(8)).skipped) == [6, None]


def test_a_torn_answer_is_skipped_once_it_is_asked_for_alone():
    payload = b'{"ok":true,"result":[{"update_id":6,"x":"y]}'
    with pytest.raises(Torn):
        UPDATES.read(payload, 6)
    assert UPDATES.read(payload, 6, alone=True).next == 7


def test_what_has_no_number_cannot_be_skipped_before_there_is_one():
    with pytest.raises(Lost):
        batch("null")
