"""Every Address has exactly one session key, and every key names exactly one Address. Whether more
people can read a home channel than before."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from segue.core.address import (
    Address,
    Audience,
    ChatType,
    HomeChannel,
    Platform,
    audience_growth,
    listed_audience,
)

# Including surrogates, NUL and unassigned characters: platforms can send any id.
anything = st.characters(exclude_categories=())
ids = st.text(anything, min_size=1) | st.text(":%/ab0 \n\0\ud800\udc00", min_size=1)
addresses = st.builds(
    Address,
    platform=st.sampled_from(Platform),
    chat_type=st.sampled_from(ChatType),
    chat_id=ids,
    thread_id=st.none() | ids,
)
keyish = st.lists(
    st.sampled_from(["agent", "main", "telegram", "dm", "thread", "a", "1", "é", " ", "\n", "\0"])
    | st.sampled_from([":", "%", "%3A", "%3a", "%25", "%41", "%ED%A0%80", "%FF", "\ud800"])
).map("".join)
near_keys = st.builds("agent:main:telegram:dm:{}".format, keyish) | keyish | st.text(anything)


def address(chat_id: str, thread_id: str | None = None) -> Address:
    return Address(
        platform=Platform.MATRIX,
        chat_type=ChatType.THREAD if thread_id else ChatType.GROUP,
        chat_id=chat_id,
        thread_id=thread_id,
    )


@given(addresses)
@example(address("!room:example.org", "$event"))
@example(address("\ud83d\ude00", "\U0001f600"))
def test_a_key_parses_to_its_address(there: Address):
    assert Address.parse(there.key) == there


@given(addresses, addresses)
def test_different_addresses_have_different_keys(one: Address, other: Address):
    assert (one.key == other.key) == (one == other)


@given(st.lists(ids, min_size=1, max_size=4), st.lists(ids, min_size=1, max_size=4))
def test_ids_that_are_split_differently_have_different_keys(one: list[str], other: list[str]):
    first = Address(
        platform=Platform.SLACK,
        chat_type=ChatType.THREAD,
        chat_id=":".join(one),
        thread_id=":".join(other),
    )
    whole = Address(
        platform=Platform.SLACK, chat_type=ChatType.THREAD, chat_id=":".join((*one, *other))
    )
    assert first.key != whole.key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (address("a", "b"), address("a:b")),
        (address("a", "b"), address("a%3Ab")),
        (address("a:b", "c"), address("a", "b:c")),
        (address("a%3Ab"), address("a:b")),
        (address("a"), address("a\0")),
        (address("a"), address("A")),
        (address("\ud83d\ude00"), address("\U0001f600")),
        (address("é"), address("e\u0301")),
    ],
)
def test_look_alikes_are_different_addresses(one: Address, other: Address):
    assert one.key != other.key


def test_a_very_long_id_survives():
    there = address(":%é\ud800" * 50_000, "7" * 100_000)
    assert Address.parse(there.key) == there


@given(addresses)
def test_a_key_is_printable_ascii(there: Address):
    assert re.fullmatch(r"[!-~]+", there.key)


@given(near_keys)
@example("agent:main:telegram:dm:a%3ab")
@example("agent:main:telegram:dm:%61")
@example("agent:main:telegram:dm:é")
@example("agent:main:telegram:dm:%FF")
@example("agent:main:telegram:dm:")
@example("agent:main:telegram:dm:a:")
@example("agent:main:telegram:dm:a:b:c")
@example("agent:main:telegram:dm")
@example("agent:other:telegram:dm:a")
@example("agent:main:icq:dm:a")
@example("agent:main:telegram:club:a")
@example("agent:main:Telegram:dm:a")
@example("")
def test_only_valid_keys_are_parsed(text: str):
    try:
        there = Address.parse(text)
    except ValueError:
        return
    assert there.key == text


@given(addresses, st.integers(min_value=0), anything)
def test_a_key_with_one_changed_character_is_another_address_or_invalid(
    there: Address, position: int, character: str
):
    key = there.key
    position %= len(key)
    changed = key[:position] + character + key[position + 1 :]
    assume(changed != key)
    try:
        other = Address.parse(changed)
    except ValueError:
        return
    assert other != there


def test_keys_are_readable():
    dm = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="42")
    assert dm.key == "agent:main:telegram:dm:42"
    assert address("!r:example.org", "$e").key == "agent:main:matrix:thread:!r%3Aexample.org:$e"


@pytest.mark.parametrize(("chat_id", "thread_id"), [("", None), ("a", ""), ("", "b")])
def test_an_address_without_an_id_is_refused(chat_id: str, thread_id: str | None):
    with pytest.raises(ValueError, match="chat id"):
        Address(platform=Platform.WEB, chat_type=ChatType.DM, chat_id=chat_id, thread_id=thread_id)


def test_an_address_is_immutable():
    with pytest.raises(FrozenInstanceError):
        address("a").chat_id = "b"  # pyright: ignore[reportAttributeAccessIssue]


def test_an_address_is_written_in_words():
    there = Address(
        platform=Platform.TELEGRAM, chat_type=ChatType.GROUP, chat_id="42", thread_id="7"
    )
    assert str(there) == "telegram group 42, thread 7"


def test_a_home_channel_is_on_the_platform_of_its_address():
    assert HomeChannel(address=address("a")).platform is Platform.MATRIX


PRIVATE = listed_audience(["anna", "bob"], has_owner=True, is_public=False)
COUNTED = Audience(readers=3)


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        (PRIVATE, PRIVATE, ""),
        (PRIVATE, listed_audience(["anna"], has_owner=True, is_public=False), ""),
        (
            PRIVATE,
            listed_audience(["anna", "eve"], has_owner=True, is_public=False),
            "1 new reader",
        ),
        (PRIVATE, listed_audience(["anna"], has_owner=True, is_public=True), "it is public now"),
        (COUNTED, COUNTED, ""),
        (COUNTED, Audience(readers=2), ""),
        (COUNTED, Audience(readers=5), "5 readers instead of 3"),
        (COUNTED, Audience(is_public=True, readers=3), "it is public now"),
        (Audience(), PRIVATE, ""),
        (Audience(is_public=True, readers=3), Audience(is_public=True, readers=900), ""),
    ],
)
def test_what_grew_is_named(before: Audience, now: Audience, found: str):
    assert audience_growth(before, now) == found


def test_a_long_list_is_kept_as_a_number():
    many = listed_audience(map(str, range(501)), has_owner=True, is_public=False)
    more = listed_audience(map(str, range(502)), has_owner=True, is_public=False)
    assert many.names == ()
    assert audience_growth(many, more) == "502 readers instead of 501"
