"""Telegram's HTML, as the fake reads it."""

from __future__ import annotations

import pytest

from segue.testing.telegram.entities import Formatted, cleaned, trimmed, units
from segue.testing.telegram.errors import Refuse
from segue.testing.telegram.markup import parse_html


def told(source: str) -> tuple[str, list[tuple[str, str]]]:
    """The text, and what each entity covers."""
    formatted = parse_html(source)
    return formatted.text, [(it.type, it.of(formatted.text)) for it in formatted.entities]


def test_every_tag_is_read() -> None:
    for tags, kind in {
        "b strong": "bold",
        "i em": "italic",
        "u ins": "underline",
        "s strike del": "strikethrough",
        "tg-spoiler": "spoiler",
        "code": "code",
        "pre": "pre",
        "blockquote": "blockquote",
    }.items():
        for tag in tags.split():
            assert told(f"a <{tag}>b</{tag}> c") == ("a b c", [(kind, "b")])
            assert told(f"<{tag.upper()}>b</{tag}>") == ("b", [(kind, "b")])
    assert told("<blockquote expandable>b</blockquote>")[1] == [("expandable_blockquote", "b")]


def test_entities_are_counted_in_utf_16() -> None:
    text, entities = told("👩‍👧 <b>ü👍<i>x</i></b>")
    assert text == "👩‍👧 ü👍x"
    assert entities == [("bold", "ü👍x"), ("italic", "x")]
    assert [(it.offset, it.length) for it in parse_html("👍<b>👍</b>").entities] == [(2, 2)]


MALFORMED = (
    ("<b>x", 'Can\'t find end tag corresponding to start tag "b"'),
    ("x</b>", "Unexpected end tag at byte offset 1"),
    ("<b>x</i>", 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
    ("ü<p>x</p>", 'Unsupported start tag "p" at byte offset 2'),
    ("1 < 2", 'Unsupported start tag "" at byte offset 2'),
    ("x<b", "Unclosed start tag at byte offset 1"),
    ('<a href="x>', "Unclosed start tag at byte offset 0"),
    ("<a =x>", 'Empty attribute name in the tag "a" at byte offset 0'),
    ("<a href=a$b>x</a>", "Unexpected end of name token at byte offset 8"),
    ("<a href=", 'Unclosed start tag "a" at byte offset 0'),
    ("<b>x</b", "Unclosed end tag at byte offset 4"),
)


def test_what_is_malformed_is_refused_in_telegrams_words() -> None:
    for source, reason in MALFORMED:
        with pytest.raises(Refuse) as caught:
            parse_html(source)
        assert str(caught.value) == f"Bad Request: can't parse entities: {reason}"


def test_what_cannot_be_seen_is_cleaned_and_trimmed_away() -> None:
    assert cleaned("a\tb\0c\r\nd\u202ee") == "a b c\nde"
    assert units("a👍") == 3
    read = trimmed(parse_html("  \n <b>x  </b> \n"))
    assert (read.text, [(it.offset, it.length) for it in read.entities]) == ("x", [(0, 1)])
    indented = trimmed(parse_html("<pre>  x</pre>"))
    assert (indented.text, indented.entities[0].length) == ("  x", 3)
    assert trimmed(Formatted("  x ")) == Formatted("x")
