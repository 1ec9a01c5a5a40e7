"""Telegram's HTML, as the fake reads it."""

from __future__ import annotations

import pytest

from tests.fakes.protocols.entities import Formatted
from tests.fakes.telegram.markup import cleaned, parse_html
from tests.fakes.telegram.state import Refuse

MALFORMED = (
    ("<b>x", 'Can\'t find end tag corresponding to start tag "b"'),
    ("x</b>", "Unexpected end tag at byte offset 1"),
    ("<b>x</i>", 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
    ("ü<p>x</p>", 'Unsupported start tag "p" at byte offset 2'),
    ("1 < 2", 'Unsupported start tag "" at byte offset 2'),
    ("x<b", "Unclosed start tag at byte offset 1"),
    ('<a href="x>', 'Unclosed start tag "a" at byte offset 0'),
    ("<a href=x>x</a>", 'Unclosed start tag "a" at byte offset 0'),
    ("<b>x</b", "Unclosed end tag at byte offset 4"),
)


@pytest.mark.parametrize(("source", "reason"), MALFORMED)
def test_malformed_html_is_refused_with_telegrams_error(source: str, reason: str) -> None:
    with pytest.raises(Refuse) as caught:
        parse_html(source)
    assert str(caught.value) == f"Bad Request: can't parse entities: {reason}"


def test_entities_are_counted_in_utf_16_and_trimmed_with_the_text() -> None:
    read = parse_html("👩‍👧 <b>ü👍<i>x</i></b>")
    assert [(it.type, it.of(read.text)) for it in read.entities] == [
        ("bold", "ü👍x"),
        ("italic", "x"),
    ]
    assert [(it.offset, it.length) for it in parse_html("👍<b>👍</b>").entities] == [(2, 2)]
    read = parse_html("  \n <b>x  </b> \n").trimmed()
    assert (read.text, [(it.offset, it.length) for it in read.entities]) == ("x", [(0, 1)])
    indented = parse_html("<pre>  x</pre>").trimmed()
    assert (indented.text, indented.entities[0].length) == ("  x", 3)
    assert Formatted("  x ").trimmed() == Formatted("x")
    assert cleaned("a\tb\0c\r\nd\u202ee") == "a b c\nde"
