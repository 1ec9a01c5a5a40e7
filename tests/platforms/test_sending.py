"""Limits, buttons, names and addresses, for all platforms."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from segue.core.address import Address, ChatType, Platform
from segue.core.errors import DeliveryFailed
from segue.platforms import sending
from segue.platforms.base import Attachment, Button, Capabilities, MenuEntry, Part, Unit, Upload
from segue.platforms.errors import Failures, Lost, Refused

LIMITS = Capabilities(length=10, unit=Unit.UTF16, buttons=True, upload_bytes=3)
CHAT = Address(platform=Platform.TELEGRAM, chat_type=ChatType.GROUP, chat_id="1")
THREAD = Address(platform=Platform.TELEGRAM, chat_type=ChatType.GROUP, chat_id="1", thread_id="7")


def part(text: str) -> Part:
    return Part(f"<b>{text}</b>", text)


def test_text_that_fits_is_allowed_and_markup_is_not_counted():
    sending.check(part("1234567890"), LIMITS, [Button("Yes", "x" * 64)])
    sending.check_file(Upload("a", "text/plain", b"abc"), Part("", ""), LIMITS)


@pytest.mark.parametrize(
    ("text", "buttons", "reason"),
    [
        ("12345678901", [], "11 characters, and at most 10 fit"),
        ("👍👍👍👍👍👍", [], "12 characters"),
        (" \n\u200b", [], "nothing"),
        ("x", [Button("Yes", "ü" * 33)], "at most 64 bytes"),
    ],
)
def test_invalid_content_is_refused(text: str, buttons: list[Button], reason: str):
    with pytest.raises(Refused, match=reason):
        sending.check(part(text), LIMITS, buttons)


def test_buttons_are_refused_where_there_are_none():
    with pytest.raises(Refused, match="no buttons"):
        sending.check(part("x"), Capabilities(), [Button("Yes", "y")])


def test_a_file_that_is_too_large_or_has_too_long_a_text_is_refused():
    with pytest.raises(Refused, match="4 bytes; at most 3 fit"):
        sending.check_file(Upload("a", "text/plain", b"abcd"), part("x"), LIMITS)
    with pytest.raises(Refused, match="11 characters"):
        sending.check_file(Upload("a", "text/plain", b"abc"), part("x" * 11), LIMITS)
    with pytest.raises(Refused, match="at most 5 can be fetched"):
        sending.check_attachment(Attachment("1", "a", "b", 6), Capabilities(attachment_bytes=5))


def test_short_buttons_share_a_row_and_long_ones_have_their_own():
    short = [Button("Yes", "y"), Button("No", "n")]
    long = [Button("Yes, and do not ask again", "y"), Button("No, stop the turn", "n")]
    assert sending.rows(short) == [short]
    assert sending.rows(long) == [[long[0]], [long[1]]]
    assert sending.rows([]) == []


def test_a_title_is_one_line_and_truncated_between_characters():
    assert sending.title(" a\nb ", 128) == "a b"
    assert sending.title("\0", 128) == "Handoff"
    assert sending.title("🇩🇪" * 100, 128, Unit.UTF16) == "🇩🇪" * 31 + "…"
    assert len(sending.title("x" * 999, 128)) == 128


def test_a_file_always_has_a_name():
    assert sending.file_name(Upload("a\nb.txt", "text/plain", b"")) == "a b.txt"
    assert sending.file_name(Upload("\u200b", "text/plain", b"")) == "file"


def test_a_menu_has_only_what_the_platform_accepts():
    entries = [
        MenuEntry("Status", "See"),
        MenuEntry("two-words", "no hyphen"),
        MenuEntry("help", ""),
        MenuEntry("resume", "long " * 100),
        MenuEntry("last", "one too many"),
    ]
    found = sending.menu(entries, name=re.compile("[a-z]+"), help_length=12, most=3)
    assert [(it.name, it.help) for it in found] == [
        ("status", "See"),
        ("help", "help"),
        ("resume", "long long l…"),
    ]


async def test_a_chat_that_moved_is_followed_from_then_on():
    moves = sending.Moves()
    calls = list[str]()

    async def call(at: Address) -> str:
        calls.append(at.chat_id)
        if at.chat_id == "1":
            raise Refused(400, "it moved", moved_to=2)
        if at.chat_id == "3":
            raise Refused(400, "it is gone")
        return at.key

    first = await moves.follow(CHAT, call)
    assert await moves.follow(CHAT, call) == first == moves.now(CHAT).key
    assert calls == ["1", "2", "2"]
    with pytest.raises(Refused, match="gone"):
        await moves.follow(replace(CHAT, chat_id="3"), call)


@pytest.mark.parametrize(("taken_back", "arrived"), [(True, False), (False, True), (None, True)])
async def test_a_message_that_lands_outside_its_thread_is_deleted(
    taken_back: bool | None, arrived: bool
):
    async def take_back() -> bool:
        if taken_back is None:
            raise Lost("gone", arrived=True)
        return taken_back

    failures = Failures(Platform.SLACK, thread_gone="start another thread")
    await sending.check_thread(CHAT, None, take_back, failures)
    await sending.check_thread(THREAD, 7, take_back, failures)
    with pytest.raises(DeliveryFailed, match="start another thread") as caught:
        await sending.check_thread(THREAD, None, take_back, failures)
    assert (caught.value.retry, caught.value.arrived) == (False, arrived)


@pytest.mark.parametrize(("count", "length"), [(1, 30), (3, 30), (5, 5), (7, 3), (30, 20)])
def test_buttons_fit_the_grid_of_a_platform(count: int, length: int):
    buttons = [Button("x" * length, str(n)) for n in range(count)]
    rows = sending.rows(buttons, 5)
    assert len(rows) <= 5
    assert all(len(row) <= 5 for row in rows)
    assert [it for row in rows for it in row] == buttons[:25]


def test_different_keys_have_different_short_keys():
    keys = {sending.short_key(*parts, length=25) for parts in (("a", "b"), ("ab",), ("a\ud800",))}
    assert len(keys) == 3
    assert {len(key) for key in keys} == {25}
