"""An album is one message."""

from __future__ import annotations

import pytest

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms.albums import Albums
from segue.platforms.base import Attachment, Inbound, InboundKind


def albums() -> Albums[str]:
    """Albums of updates that are letters: each names its album, and a dot belongs to none."""
    return Albums(lambda update: update.strip("."))


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
    found = albums()
    found.settled(before)
    assert found.settled(now) == settled


def test_successive_albums_do_not_delay_each_other():
    found = albums()
    assert [found.settled(names) for names in ("a.", "a.b.", "b.c.", "c.d.")] == [0, 2, 2, 2]


def test_an_album_takes_the_position_of_its_first_update():
    assert list(albums().gathered("ab.a.b")) == [["a", "a"], ["b", "b"], ["."], ["."]]


def part(
    number: int, text: str, forwarded_from: str | None = None, *, addressed: bool = True
) -> Inbound:
    return Inbound(
        kind=InboundKind.MESSAGE,
        update_id=str(number),
        message_id=str(number),
        address=Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="1"),
        sender=Sender(platform=Platform.TELEGRAM, user_id="1"),
        text=text,
        attachments=(Attachment(str(number), f"{number}.txt", "text/plain", 1),),
        forwarded_from=forwarded_from,
        addressed=addressed,
    )


def test_an_album_has_the_texts_of_all_its_parts():
    found = albums().merged("a", [part(1, ""), part(2, "two"), part(3, "three")])
    assert (found.update_id, found.message_id, found.text) == ("1", "2", "two\n\nthree")
    assert [file.id for file in found.attachments] == ["1", "2", "3"]


def test_an_album_with_forwarded_text_is_forwarded():
    assert albums().merged("a", [part(1, ""), part(2, "/approve", "Eve")]).typed == ""


def test_a_late_file_is_addressed_to_the_bot_if_its_album_was():
    found, ours, other = albums(), part(1, ""), part(2, "", addressed=False)
    asked = [("a", [other, ours]), ("a", [other]), ("b", [other]), (".", [ours]), (".", [other])]
    addressed = [found.merged(name, parts).addressed for name, parts in asked]
    assert addressed == [True, True, False, True, False]
