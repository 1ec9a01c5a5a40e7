"""Text that is shown on one line has no hidden characters."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from segue.core.text import (
    clock_time,
    is_empty,
    is_hidden,
    one_line,
    quoted,
    visible,
    visible_name,
    whole,
)
from tests.harness.line_counts import steps

text = st.text(st.characters(exclude_categories=())) | st.text(
    "ae \u0301\u0338=\u200b\u202e\u034f\u1100\u1161\u115f\u3164\n\t\0\ud800\u2028\u0344"
)


@given(text)
@example("e\u200b\u0301")
def test_one_line_is_idempotent(raw: str):
    assert one_line(one_line(raw)) == one_line(raw)


def test_a_letter_and_its_accent_are_composed_across_a_hidden_character():
    assert one_line("cafe\u200b\u0301") == "caf\u00e9"


def test_a_title_in_a_sentence_is_quoted_on_one_line():
    assert quoted("fix\nthe build\u202e") == "“fix the build”"


@given(text)
def test_a_line_has_no_breaks_double_spaces_or_invisible_characters(raw: str):
    line = one_line(raw)
    assert len(line.splitlines()) <= 1
    assert line == " ".join(line.split())
    assert not {unicodedata.category(c) for c in line} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(text, st.integers(min_value=1, max_value=40))
def test_a_line_is_truncated_at_the_limit_with_an_ellipsis(raw: str, limit: int):
    cut, whole = one_line(raw, limit), one_line(raw)
    assert len(cut) <= limit
    assert cut == whole or (cut.endswith("…") and whole.startswith(cut[:-1]))


def test_a_short_line_of_a_long_text_takes_the_work_of_a_short_one():
    def line(size: int) -> None:
        assert one_line("Some\nwords. " * size, 80).endswith("…")

    line(100)
    assert steps(lambda: line(100_000)) == steps(lambda: line(1_000))


def test_a_line_after_much_that_is_hidden_is_found():
    assert one_line("\u200b" * 100_000 + "words", 80) == "words"
    assert one_line("\n" * 100_000 + "some words", 5) == "some…"


@pytest.mark.parametrize(
    "hidden",
    list("\u200b\u200d\u202e\u2066\ufeff\u00ad\u3164\u2800\U0001d159\x1b\x7f\U000e0041\ud800"),
    ids=ascii,
)
def test_a_hidden_character_is_removed(hidden: str):
    assert one_line(f"{hidden}pay{hidden}pal{hidden}") == "paypal"


def test_letters_of_every_script_and_emoji_are_kept():
    for seen in ("żółć", "日本語", "हिन्दी", "👩‍🚀".replace("\u200d", ""), "🇪🇺", "naïve"):
        assert one_line(seen) == seen


@given(text)
def test_whole_text_can_be_encoded_and_valid_text_is_unchanged(raw: str):
    mended = whole(raw)
    mended.encode()
    assert whole(mended) == mended
    if not any("\ud800" <= c <= "\udfff" for c in raw):
        assert mended == raw


def test_a_lone_surrogate_is_replaced_and_a_pair_is_joined():
    assert whole("a\ud83db\ude00") == "a\ufffdb\ufffd"
    assert whole("\ud83d\ude00!") == "😀!"


def test_invisible_letters_are_escaped():
    assert visible("a\u3164b\ufe01c\U000e0100") == r"a\u3164b\ufe01c\U000e0100"
    assert visible("I ❤\ufe0f tea\t\n") == "I ❤\ufe0f tea\t\n"


@given(text)
def test_visible_text_is_unchanged(raw: str):
    assert visible(visible(raw)) == visible(raw)
    assert not any(map(is_hidden, visible(raw).replace("\n", "").replace("\t", "")))


@pytest.mark.parametrize(
    "nothing",
    [
        "",
        " ",
        "\n\t\r\n",
        "\u200b\n\u2800",
        "\ufeff \u202e",
        "\u3000",
        "\u0301",
        " \u0301\u20dd",
        "\ufe0f",
    ],
    ids=ascii,
)
def test_text_without_visible_characters_is_blank(nothing: str):
    assert is_empty(nothing)
    assert not is_empty(f"{nothing}x{nothing}")


def test_a_time_on_another_day_has_its_date():
    now = datetime(2026, 11, 18, 22, 35, tzinfo=UTC)
    assert clock_time(now + timedelta(minutes=5), now) == "22:40"
    assert clock_time(now + timedelta(hours=10), now) == "2026-11-19 08:35"


def test_a_line_break_in_a_name_differs_from_its_escape():
    assert visible_name("a\\nb") == "a\\nb"
    assert visible_name("a\nb") == "a⏎b"
