"""Valid and invalid notes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core.errors import NoteError
from segue.core.note import NOTE_LIMIT, clean_note, same_note


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
