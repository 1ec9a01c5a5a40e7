"""Pairing codes, which a user reads on one screen and types on another."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.store.pairings import ALPHABET, LENGTH, looks_like_code, new_code, normal

entropy = st.binary(min_size=16, max_size=32)


@given(entropy)
def test_a_code_has_two_groups_of_four_and_is_recognised(random: bytes):
    code = new_code(random)
    assert re.fullmatch(f"[{ALPHABET}]{{4}}-[{ALPHABET}]{{4}}", code)
    assert looks_like_code(code)


def test_every_letter_of_a_code_is_random():
    codes = [new_code(hashlib.sha256(str(n).encode()).digest()) for n in range(1000)]
    for place in (0, 1, 2, 3, 5, 6, 7, 8):
        assert {code[place] for code in codes} == set(ALPHABET), place
    assert len(set(codes)) == len(codes)


def test_too_few_random_bytes_are_refused():
    with pytest.raises(ValueError, match="sixteen"):
        new_code(b"x" * 15)


def test_the_alphabet_of_codes_has_no_similar_letters_and_no_vowels():
    assert len(set(ALPHABET)) == len(ALPHABET)
    for lookalikes in ("0OD", "1IL", "2Z", "5S", "8B", "UV"):
        assert len(set(lookalikes) & set(ALPHABET)) <= 1, lookalikes
    assert not set(ALPHABET) & set("AEIOUY")


@pytest.mark.parametrize(
    "typed",
    ["2345-CDFG", "2345cdfg", " 2345 cdfg\n", "23-45-CD-FG", "2345–cdfg", "2345\u00a0—\u2011CDFG"],
)
def test_case_spaces_and_dashes_of_a_code_do_not_matter(typed: str):
    assert normal(typed) == normal("2345-CDFG") == "2345CDFG"
    assert looks_like_code(typed)


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "hello",
        "2345-CDF",
        "2345-CDFG2",
        "2345-CDFA",
        "2345_CDFG",
        "\uff12\uff13\uff14\uff15CDFG",
        "/start 2345-CDFG",
        "2345-CDFG" + " " * 40,
        "ß" * 4,
    ],
)
def test_text_in_another_form_is_not_a_code(typed: str):
    assert not looks_like_code(typed)


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_is_a_code_or_not(text: str):
    if looks_like_code(text):
        assert len(normal(text)) == LENGTH
        assert set(normal(text)) <= set(ALPHABET)
