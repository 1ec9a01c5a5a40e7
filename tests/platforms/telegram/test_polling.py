"""All updates are confirmed, none spoils the others, and an album is one message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms.base import Attachment, Inbound, InboundKind
from segue.platforms.batches import Torn
from segue.platforms.errors import Lost
from segue.platforms.telegram import polling
from segue.platforms.telegram.polling import Albums, gathered, merged
from segue.platforms.telegram.wire import Chat, Message, Update

DEEP = f'{{"more":{"[" * 50_000}{"]" * 50_000},"update_id":6}}'


def batch(*updates: str, offset: int | None = None) -> polling.Batch:
    return polling.read(f'{{"ok":true,"result":[{",".join(updates)}]}}'.encode(), offset)


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
        polling.read(payload, 6)
    assert polling.read(payload, 6, alone=True).next == 7


def test_what_has_no_number_cannot_be_skipped_before_there_is_one():
    with pytest.raises(Lost):
        batch("null")


# Albums


def updates(albums: str, chat: int = 1) -> list[Update]:
    """One for each letter, of the album of that name; a dot is no part of any."""
    return [
        Update(
            update_id=number,
            message=Message(
                message_id=number,
                chat=Chat(id=chat, type="private"),
                date=1,
                media_group_id="" if album == "." else album,
            ),
        )
        for number, album in enumerate(albums)
    ]


@pytest.mark.parametrize(
    ("before", "now", "settled"),
    [
        ("", "...", 3),
        ("", "..aa.", 2),
        ("aa.", "aa.", 3),
        ("a", "aa", 0),
        ("aa", "aabb", 2),
        ("aa", "aab.", 2),
        ("a.a", "aba.b", 0),
        ("aabb", "aabb", 4),
        ("..aa", "aa", 2),
    ],
)
def test_an_album_is_ready_once_it_has_stopped_growing(before: str, now: str, settled: int):
    albums = Albums()
    albums.settled(updates(before))
    assert albums.settled(updates(now)) == settled


def test_one_album_after_another_holds_up_nothing_for_long():
    albums = Albums()
    sent = ("a.", "a.b.", "b.c.", "c.d.")
    assert [albums.settled(updates(names)) for names in sent] == [0, 2, 2, 2]


def test_albums_of_two_chats_are_two():
    both = [*updates("a"), *updates("a", chat=2), *updates("a.a")]
    assert [len(group) for group in gathered(both)] == [3, 1, 1]


def part(number: int, text: str, forwarded_from: str | None = None) -> Inbound:
    return Inbound(
        kind=InboundKind.MESSAGE,
        update_id=str(number),
        message_id=str(number),
        address=Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="1"),
        sender=Sender(platform=Platform.TELEGRAM, user_id="1"),
        text=text,
        attachments=(Attachment(str(number), f"{number}.txt", "text/plain", 1),),
        forwarded_from=forwarded_from,
    )


def test_an_album_says_all_that_its_parts_say():
    found = merged([part(1, ""), part(2, "two"), part(3, "three")])
    assert (found.update_id, found.message_id, found.text) == ("1", "2", "two\n\nthree")
    assert [file.id for file in found.attachments] == ["1", "2", "3"]


def test_an_album_with_forwarded_words_is_forwarded():
    assert merged([part(1, ""), part(2, "/approve", "Eve")]).typed == ""
