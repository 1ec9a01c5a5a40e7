"""Text from outside can neither control the terminal nor hide or reorder anything on it."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from segue.terminal.render.clean import Cleaner, clean

TRICKS = (
    "\x1b[31m", "\x1b]8;;http://evil\x1b\\", "\x1b]52;c;aGk=\x07", "\x1bP1$r\x1b\\", "\x1b(B",
    "\x1b", "[", "]", "\\", "m", "\x07", "\x9b", "\x9d", "\x9c", "\r", "\n", "\r\n", "\t", "\x0b",
    "\u2028", "\u202e", "\u2066", "\u200b", "\u200c", "\u200d", "\ufe0f", "\ufe0e", "\U000e0041",
    "\ud83d", "\ude00", "\ufeff", "\u2800", "\u0301", "\u094d", "👩", "🚀", "❤", "1", "a", " ", "é",
    "漢", "م", "न",
)  # fmt: skip
text = st.text(st.characters(exclude_categories=())) | st.lists(st.sampled_from(TRICKS)).map(
    "".join
)
FORBIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


@given(text)
@example("\x1b]0;title")
def test_cleaned_text_has_no_control_or_hidden_characters(raw: str):
    assert not FORBIDDEN.search(clean(raw))


@given(text)
def test_text_cleaned_for_one_line_has_no_line_breaks(raw: str):
    assert "\n" not in clean(raw, newlines=False)


@given(text, st.data())
@example("\x1b[31mred", None)
@example("a\r\nb", None)
@example("👩\u200d🚀", None)
@example("\ud83d\ude00", None)
def test_text_cleaned_in_pieces_equals_text_cleaned_at_once(raw: str, data: st.DataObject | None):
    if data is None:
        pieces = list(raw)
    else:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
        pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    cleaner = Cleaner()
    assert "".join(map(cleaner.feed, pieces)) + cleaner.end() == clean(raw)


@given(text)
def test_cleaning_is_idempotent(raw: str):
    assert clean(clean(raw)) == clean(raw)


@given(st.text(st.characters(categories=("L", "N", "P", "Sm", "Sc"), max_codepoint=0x10FF)))
def test_letters_digits_and_symbols_are_kept(raw: str):
    assert clean(raw) == raw


@pytest.mark.parametrize(
    "harmless",
    [
        "👩\u200d🚀 👨\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 ❤️\u200d🔥 🧑🏽\u200d💻",
        "❤️ ☎︎ 1️⃣ #️⃣ ‼️ ↔️ ©️ 🇪🇺",
        "שלום עולם، مرحبا بالعالم",
        "می\u200cخواهم",  # noqa: RUF001 - Persian does not join here
        "क्\u200dष क्\u200cष",
        "żółć ẹ́ 日本語 한국어 ไทย",
        "│ ┌─┐ ▏█ ⠋⠙ → ✓ “quoted” – …\u00a0!",
        "two\nlines\n\n",
    ],
)
def test_emoji_and_every_script_are_kept(harmless: str):
    assert clean(harmless) == harmless


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\x1b[2J\x1b[Hb", "ab"),
        ("a\x1b[?1049hb\x1b>c\x1b(Bd\x1b#8e", "abcde"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil/\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x1b]52;c;cm0gLXJm\x07!", "!"),
        ("\x1bPq#0;2;0\x1b\\a\x1b_apc\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", "abcd"),
        ("a\x9b31mb\x9d0;t\x9cc\x90d", "a31mb0;tcd"),
        ("a\x18\x1a\x00\x08\x7fb", "ab"),
        ("\x1b\x1b[31mx", "x"),
        ("\x1b[3\x1b[1mx", "x"),
        ("\x1b]0;half\x1b[31mx", "x"),
        ("\x1b]0;half\x18x", "x"),
        ("\x1b[31漢", "漢"),
        ("\x1b", ""),
        ("x\x1b[", "x"),
    ],
    ids=ascii,
)
def test_an_escape_sequence_is_removed_completely_and_nothing_else(raw: str, seen: str):
    assert clean(raw) == seen


def test_an_unterminated_escape_sequence_hides_at_most_its_line():
    assert clean("before\x1b]0;rest of the line\nthe next line") == "before\nthe next line"
    assert clean("\x1bPabc\rd") == "\nd"
    assert clean("\x1b[31\nnext") == "\nnext"


def test_a_carriage_return_becomes_a_line_break():
    assert clean("rm -rf /\rls") == "rm -rf /\nls"
    assert clean("a\r\nb\rc\n\nd") == "a\nb\nc\n\nd"
    assert clean("a\vb\fc\x85d\u2028e\u2029f") == "a\nb\nc\nd\ne\nf"
    assert clean("a\r\nb\tc", newlines=False) == "a b   c"


def test_tabs_become_spaces_up_to_the_next_stop():
    assert clean("a\tb\n\tc\nabcd\te") == "a   b\n    c\nabcd    e"
    assert clean("漢\tb\ne\u0301\tc") == "漢  b\ne\u0301   c"


@pytest.mark.parametrize(
    "raw",
    ["pay\u200dpal", "pay\u200cpal", "pay\ufe0fpal", "pay\u2060pal", "pay\u202epal", "pay\u00adpal",
     "\u200dpay\u200fpal\u200d", "pay\U000e0041\U000e007fpal", "pay\U000e0100pal", "pay\ufe01pal",
     "pay\u3164pal", "\u2067paypal\u2069", "\ufeffpaypal", "pay\u206apal", "pay\u115fpal"],
    ids=ascii,
)  # fmt: skip
def test_hidden_characters_between_letters_are_removed(raw: str):
    assert clean(raw) == "paypal"


def test_a_joiner_and_a_selector_stay_only_where_they_shape_something():
    assert clean("👩\u200d") == "👩"
    assert clean("👩\u200d\u200d🚀") == "👩\u200d🚀"
    assert clean("👩\u200da") == "👩a"
    assert clean("❤\ufe0f\ufe0f\ufe0e\ufe0f") == "❤\ufe0f"


def test_a_lone_surrogate_is_replaced_and_a_pair_is_joined():
    assert clean("a\ud83db") == "a\ufffdb"
    assert clean("\ude00") == "\ufffd"
    assert clean("\ud83d") == "\ufffd"
    assert clean("\ud83d\ude00") == "😀"
    assert clean("\ud83d\x1b[1m\ude00") == "\ufffd\ufffd"


def test_every_unicode_format_character_is_removed():
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cc", "Cf") and chr(code) not in "\t\n\r\v\f\x85":
            assert clean(f"a{chr(code)}") == "a", hex(code)
