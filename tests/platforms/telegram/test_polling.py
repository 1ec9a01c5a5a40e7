"""One unreadable update does not affect the others in its batch, and an album is one message."""

from __future__ import annotations

import tracemalloc

import pytest

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms.base import Attachment, Inbound, InboundKind
from segue.platforms.errors import Lost
from segue.platforms.telegram import polling
from segue.platforms.telegram.polling import Albums, Batch, Torn, split
from segue.platforms.telegram.updates import Chat, Message, Update

DEEP = b"[" * 50_000 + b"]" * 50_000
BROKEN = [
    b'"\\ud83d"', b'"\\udc00"', b'"\x00"', b'"\n"', b'"\\x"', b'"\\u12"', b'"\xff"',
    b'{"a": nonsense}', b'{"more": %s, "x": "],[{"}' % DEEP,
]  # fmt: skip


def elements(array: bytes) -> list[bytes]:
    return [bytes(it).strip() for it in split(b'{"ok": true, "result": [%s]}' % array)]


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
        split(b'{"result": [%s' % rest)


@pytest.mark.parametrize(
    "payload", [b"", b"nonsense", b"{}", b'{"result":{}}', b"\xff", b"[" * 9999, b'{"other":[]}']
)
def test_a_response_without_the_array_raises_lost(payload: bytes):
    with pytest.raises(Lost) as caught:
        split(payload)
    assert (caught.value.arrived, type(caught.value)) == (True, Lost)


# Numbered updates

MESSAGE = '"message_id":1,"date":1,"chat":{"id":1,"type":"private"}'
DEEP_UPDATE = f'{{"more":{"[" * 50_000}{"]" * 50_000},"update_id":6}}'


def batch(*updates: str, offset: int | None = None) -> Batch:
    return polling.read(f'{{"ok":true,"result":[{",".join(updates)}]}}'.encode(), offset)


def update(number: int) -> str:
    return f'{{"update_id":{number},"message":{{{MESSAGE},"text":"hello"}}}}'


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
        ([f'{{"update_id":6,"message":{{{MESSAGE},"text":"\\ud83d"}}}}'], None, [], 7),
        # The id is its own, not one in the text of a user.
        (
            [f'{{"update_id":6,"message":{{{MESSAGE},"text":"\\"update_id\\":99999 \\ud83d"}}}}'],
            None,
            [],
            7,
        ),
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
        polling.read(payload, 6)
    assert polling.read(payload, 6, alone=True).next == 7


def test_a_text_that_was_cut_is_read_up_to_there():
    text = r"a\n[{\"" + r"é\u0041\ud83d\ude00x" * 3
    message = f'{{{MESSAGE},"text":"{text}"}}'
    whole = f'{{"ok":true,"result":[{{"update_id":6,"message":{message}}}]}}'.encode()
    start = whole.index(b'"text":"') + len(b'"text":"')
    for length in range(90):
        payload = whole[: min(start + length, whole.rindex(b'"'))]
        with pytest.raises(Torn):
            polling.read(payload, 6)
        read = polling.read(payload, 6, alone=True)
        (found,) = read.updates
        assert found.message is not None
        assert ('a\n[{"' + "éA😀x" * 3).startswith(found.message.text), length
        assert len(found.message.text) > length // 12 - 3, length
        assert read.next == 7


def test_a_long_text_that_was_cut_takes_memory_for_a_few_copies_of_it():
    text = b"\\u0041" * 200_000
    begin = f'{{"ok":true,"result":[{{"update_id":6,"message":{{{MESSAGE},"text":"'
    payload = begin.encode() + text
    tracemalloc.start()
    try:
        (found,) = polling.read(payload, 6, alone=True).updates
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.message is not None
    assert found.message.text == "A" * 200_000
    assert peak < 4 * len(payload)


def test_a_batch_without_any_update_id_raises_lost():
    with pytest.raises(Lost):
        batch("null")


# Albums


def letter(name: str, number: int = 0) -> Update:
    """An update of the album with that name. A dot belongs to none."""
    chat = Chat(id=1, type="private")
    group = name.strip(".")
    return Update(number, Message(message_id=number, chat=chat, date=1, media_group_id=group))


def letters(names: str) -> list[Update]:
    return [letter(name, number) for number, name in enumerate(names)]


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
    found = Albums()
    found.count_ready(letters(before))
    assert found.count_ready(letters(now)) == settled


def test_successive_albums_do_not_delay_each_other():
    found = Albums()
    assert [found.count_ready(letters(names)) for names in ("a.", "a.b.", "b.c.", "c.d.")] == [
        0,
        2,
        2,
        2,
    ]


def test_an_album_takes_the_position_of_its_first_update():
    updates = letters("ab.a.b")
    first_a, first_b, alone, second_a, other, second_b = updates
    groups = [[first_a, second_a], [first_b, second_b], [alone], [other]]
    assert list(Albums().group(updates)) == groups


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
    found = Albums().merge(letter("a"), [part(1, ""), part(2, "two"), part(3, "three")])
    assert (found.update_id, found.message_id, found.text) == ("1", "2", "two\n\nthree")
    assert [file.id for file in found.attachments] == ["1", "2", "3"]


def test_an_album_with_forwarded_text_is_forwarded():
    assert Albums().merge(letter("a"), [part(1, ""), part(2, "/approve", "Eve")]).typed == ""


def test_a_late_file_is_addressed_to_the_bot_if_its_album_was():
    found = Albums()
    ours = part(1, "")
    other = part(2, "", addressed=False)
    asked = [("a", [other, ours]), ("a", [other]), ("b", [other]), (".", [ours]), (".", [other])]
    addressed = [found.merge(letter(name), parts).addressed for name, parts in asked]
    assert addressed == [True, True, False, True, False]
