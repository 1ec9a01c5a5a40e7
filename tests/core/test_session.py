"""Ids, titles and lineages of sessions, leases and notes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from segue.core.address import Platform
from segue.core.errors import NoteError, UserError
from segue.core.session import (
    NOTE_LIMIT,
    SECOND,
    TITLE_LIMIT,
    Lease,
    Session,
    Ticks,
    Usage,
    clean_note,
    clean_title,
    join_title,
    lineage_key,
    new_session_id,
    numbered_base,
    same_note,
    split_title,
)

NOON = datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)
raw_titles = (
    st.text(st.characters(exclude_categories=()))
    | st.text("a #12 \u200b")
    # Long enough to be truncated, at a letter or at a space.
    | st.builds(
        "{0}{1}".format, st.text("ab ", max_size=4), st.sampled_from(["cd " * 40, "e" * 95])
    )
)
numbers = st.integers(min_value=2, max_value=999_999_999)


@st.composite
def titles(draw: st.DrawFn) -> str:
    try:
        return clean_title(draw(raw_titles))
    except UserError:
        return "untitled"


bases = titles().filter(lambda title: split_title(title) == (title, 1))


# Ids


@given(
    st.integers(min_value=0, max_value=2**37),
    st.integers(min_value=0, max_value=2**32 - 1),
)
def test_a_session_id_is_a_time_and_eight_hex_digits(second: int, chance: int):
    now = datetime.fromtimestamp(second, UTC)
    session_id = new_session_id(now, f"{chance:08x}")
    assert re.fullmatch(r"\d{8}_\d{6}_[0-9a-f]{8}", session_id)
    stamp, _, entropy = session_id.rpartition("_")
    assert datetime.strptime(stamp, "%Y%m%d_%H%M%S").replace(tzinfo=UTC) == now
    assert int(entropy, 16) == chance


def test_a_session_id_has_the_time_in_utc():
    in_kathmandu = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert new_session_id(in_kathmandu, "0badcafe") == "20260301_123005_0badcafe"


@pytest.mark.parametrize(
    "entropy", ["", "0badcaf", "0badcafe0", "0BADCAFE", "0badcafg", "\u0660" * 8]
)
def test_a_session_id_needs_eight_hex_digits(entropy: str):
    with pytest.raises(ValueError, match="eight hex digits"):
        new_session_id(NOON, entropy)


# Titles


@given(raw_titles)
def test_a_cleaned_title_is_within_the_limit_and_stable(raw: str):
    try:
        title = clean_title(raw)
    except UserError:
        return
    assert 0 < len(title) <= TITLE_LIMIT
    assert clean_title(title) == title == title.strip()


@pytest.mark.parametrize("length", [99, 100, 101, 5000])
def test_a_long_title_is_truncated_at_a_hundred_characters(length: int):
    assert clean_title("é" * length) == "é" * min(length, 100)


def test_a_truncated_title_does_not_end_in_a_space():
    assert clean_title("x" * 99 + " y") == "x" * 99


@pytest.mark.parametrize(
    "raw",
    [
        "",
        " \t\n",
        "\0\x1b\x7f",
        "\u200b\u200c\u200d\u2060\ufeff",
        "\u202a\u202e\u2066\u2069\u200e\u061c",
        "\u3164\uffa0\u115f\u1160",
        "\u2800\U0001d159",
        "\u0301\u0300\u20dd",
        "\ufe0f\U000e0100",
        "\ud800\udfff",
        "\u3164\u200b\u0301 \u2800",
    ],
    ids=ascii,
)
def test_an_invisible_title_is_refused(raw: str):
    with pytest.raises(UserError, match="at least one visible character"):
        clean_title(raw)


def test_invisible_and_reversing_characters_are_removed_from_a_title():
    assert clean_title("my\u200b \u202eproject\u3164\x1b\n") == "my project"


def test_one_visible_character_is_a_valid_title():
    assert clean_title("\u200b#") == "#"


# Lineages


@given(bases, numbers)
@example("x" * 88 + " yz", 999_999_999)  # the cut is just after a space
def test_a_numbered_title_keeps_the_limit_and_needs_no_further_cleaning(base: str, number: int):
    title = join_title(numbered_base(base), number)
    assert len(title) <= TITLE_LIMIT
    assert clean_title(title) == title
    assert title.endswith(f" #{number}")


@given(bases, numbers)
def test_splitting_reverses_joining_within_the_limit(base: str, number: int):
    assume(len(base) + len(f" #{number}") <= TITLE_LIMIT)
    assert split_title(join_title(base, number)) == (base, number)


@given(titles())
def test_joining_reverses_splitting_except_for_number_1(title: str):
    base, number = split_title(title)
    assert join_title(base, number) == (base if number == 1 else title)


@pytest.mark.parametrize(
    ("title", "parts"),
    [
        ("my project", ("my project", 1)),
        ("my project #2", ("my project", 2)),
        ("my project #1", ("my project", 1)),
        ("my project #2 #3", ("my project #2", 3)),
        ("my project #0", ("my project #0", 1)),
        ("my project #02", ("my project #02", 1)),
        ("my project#2", ("my project#2", 1)),
        ("#2", ("#2", 1)),
        ("issue #1234567890", ("issue #1234567890", 1)),
        ("my project #\uff12", ("my project #\uff12", 1)),
    ],
)
def test_titles_are_split_into_name_and_number(title: str, parts: tuple[str, int]):
    assert split_title(title) == parts


@given(st.text("aé #", min_size=1, max_size=200))
def test_case_does_not_distinguish_lineages(base: str):
    assert lineage_key(base) == lineage_key(base.upper())


def test_different_titles_are_different_lineages():
    assert lineage_key("my project") != lineage_key("my projects")


# Sessions


def test_a_session_is_named_by_its_title_or_else_its_id():
    session = Session(
        id="20260301_123005_0badcafe", owner="o", source=Platform.LOCAL, started=NOON, active=NOON
    )
    assert session.name == session.id
    titled = Session(
        id=session.id,
        owner="o",
        source=Platform.LOCAL,
        started=NOON,
        active=NOON,
        title="my project",
    )
    assert titled.name == "my project"


def test_usage_adds_up():
    assert Usage(input=1, output=2, cached=3) + Usage(input=10, output=20, cached=30) == Usage(
        input=11, output=22, cached=33
    )


def test_a_lease_is_alive_until_its_end():
    lease = Lease(
        session_id="s",
        holder="a terminal",
        process="p",
        epoch=1,
        until=Ticks(SECOND),
    )
    assert lease.is_alive(Ticks(SECOND - 1))
    assert not lease.is_alive(Ticks(SECOND))
    assert not lease.is_alive(Ticks(SECOND + 1))


def test_a_note_is_one_line_without_hidden_characters():
    assert clean_note("  likes\n\n tea,\tnot \u202ecoffee\u200b\x1b[2K\0 ") == (
        "likes tea, not coffee[2K"
    )


@pytest.mark.parametrize(
    "raw", ["", " \n", "\0\x1b", "\u200b\u2060", "\u0301", "\u3164"], ids=ascii
)
def test_an_invisible_note_is_refused(raw: str):
    with pytest.raises(NoteError, match="at least one visible character"):
        clean_note(raw)


def test_a_note_that_is_too_long_is_refused():
    assert clean_note("é" * NOTE_LIMIT) == "é" * NOTE_LIMIT
    assert clean_note(" " * NOTE_LIMIT + "é" * NOTE_LIMIT + "\u200b") == "é" * NOTE_LIMIT
    with pytest.raises(NoteError, match=r"501 characters; the limit is 500"):
        clean_note("é" * (NOTE_LIMIT + 1))


@given(st.text(st.characters(exclude_categories=())))
def test_cleaning_a_note_is_idempotent(raw: str):
    try:
        text = clean_note(raw)
    except NoteError:
        return
    assert clean_note(text) == text
    assert text.splitlines() == [text]
    assert text.encode()


def test_case_and_spaces_do_not_distinguish_notes():
    one = clean_note("Likes  TEA in the Straße")
    assert same_note(one, clean_note("likes tea\nin the STRASSE "))
    assert not same_note(one, clean_note("likes teas in the straße"))
