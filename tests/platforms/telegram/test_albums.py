"""When an album is whole, and what it is then."""

from __future__ import annotations

import pytest

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms.base import Attachment, Inbound, InboundKind
from segue.platforms.telegram.polling import Albums, gathered, merged
from segue.platforms.telegram.wire import Chat, Message, Update


def updates(albums: str) -> list[Update]:
    """One for each letter, of the album of that name; a dot is no part of any."""
    return [
        Update(
            update_id=number,
            message=Message(
                message_id=number,
                chat=Chat(id=1, type="private"),
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
def test_an_album_is_taken_up_once_it_has_stopped_growing(before: str, now: str, settled: int):
    albums = Albums()
    albums.settled(updates(before))
    assert albums.settled(updates(now)) == settled


def test_another_album_without_end_holds_up_nothing_for_long():
    """Each of them is held back once, and what was said before it is not."""
    albums = Albums()
    assert [albums.settled(updates(sent)) for sent in ("a.", "a.b.", "b.c.", "c.d.")] == [
        0,
        2,
        2,
        2,
    ]


def test_albums_of_two_chats_are_two():
    [one] = updates("a")
    assert one.message is not None
    other = Update(
        update_id=2,
        message=Message(message_id=1, chat=Chat(id=2, type="private"), date=1, media_group_id="a"),
    )
    assert [len(group) for group in gathered([one, other, *updates("a.a")])] == [3, 1, 1]


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
