"""Properties of all texts, in all dialects, at all limits. Each run tries the same texts."""

from __future__ import annotations

import re
from itertools import count

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from segue.core.text import is_empty, is_hidden
from segue.platforms.base import Dialect, Part, Unit
from segue.platforms.markup import parts, size
from segue.platforms.markup.splitter import chop
from tests.platforms.markup_readers import TAGS, capabilities, check, read_html

DIALECTS = st.sampled_from([d for d in Dialect if d is not Dialect.SOURCE])
UNITS = st.sampled_from(Unit)
LENGTHS = st.integers(40, 400)
ROOMY = st.integers(120, 400)
"""Lengths with room for each word of DOCUMENTS and the markup around it."""

fixed = settings(derandomize=True)

# Documents whose words are all different once they are numbered


def _around(sign: str, inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return inner.map(lambda text: f"{sign}{text}{sign}")


WORDS = st.integers(1, 12).map(lambda n: " ".join(["W"] * n))
SPANS = st.recursive(
    st.one_of(
        WORDS,
        WORDS.map(lambda text: f"{text}. W"),
        _around("`", WORDS),
        WORDS.map(lambda text: f"[{text}](https://example.com/a_b?c=1&d=2)"),
        WORDS.map(lambda text: f"![{text}](https://example.com/{'x' * 60})"),
        st.just("W\nW"),
        st.just("<b>W</b> & @everyone W"),
    ),
    lambda inner: st.one_of(
        *(_around(sign, inner) for sign in ("**", "*", "~~", "_")),
        st.lists(inner, min_size=2, max_size=4).map(" ".join),
        st.lists(inner, min_size=2, max_size=3).map("".join),
    ),
    max_leaves=6,
)
LEAVES = st.one_of(
    SPANS,
    SPANS.map(lambda text: f"# {text}".replace("\n", " ")),
    SPANS.map(lambda text: f"#### {text}".replace("\n", " ")),
    st.lists(WORDS, min_size=1, max_size=8).map(lambda rows: "```py\n" + "\n".join(rows) + "\n```"),
    st.lists(WORDS, min_size=1, max_size=4).map(
        lambda rows: "| W | W |\n|--|-:|\n" + "\n".join(f"| {row} | W |" for row in rows)
    ),
    st.just("---"),
)


def _moved(text: str, first: str, others: str) -> str:
    return first + text.replace("\n", f"\n{others}")


BLOCKS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda text: _moved(text, "> ", "> ")),
        st.lists(inner, min_size=1, max_size=4).map(
            lambda items: "\n".join(_moved(item, "- ", "  ") for item in items)
        ),
        st.lists(inner, min_size=1, max_size=4).map(
            lambda items: "\n".join(_moved(item, "7. ", "   ") for item in items)
        ),
        st.lists(inner, min_size=2, max_size=4).map("\n\n".join),
    ),
    max_leaves=12,
)


def _numbered(document: str) -> str:
    numbers = count(100)
    return re.sub("W", lambda _: f"w{next(numbers)}", document)


# Three in a row would be a fence, and the text after it the name of a language.
DOCUMENTS = BLOCKS.filter(lambda document: "~~~" not in document).map(_numbered)

# Adversarial and meaningless texts

NASTY = st.text(
    st.sampled_from(
        [
            *"`*_~[](){}<>&|#-+=.!\\\"'@:/1 \n\tab",
            "é",
            "中",
            "。",
            "😀",
            "\u200d",
            "\u0301",
            "\ufe0f",
        ]
    ),
    max_size=200,
)
TEXTS = st.one_of(
    NASTY, st.text(max_size=200), DOCUMENTS, st.tuples(DOCUMENTS, NASTY).map("\n".join)
)


def cut(text: str, dialect: Dialect, length: int, unit: Unit) -> list[Part]:
    found = parts(text, capabilities(dialect, length, unit))
    for part in found:
        assert size(part.text, unit) <= length
        assert size(part.plain, unit) <= length
        check(part, dialect)
    return found


@fixed
@given(TEXTS, DIALECTS, LENGTHS, UNITS)
@example("~~[a](http://x/~~y) b~~ **[a](http://x/**y) b**", Dialect.MARKDOWN, 400, Unit.BYTES)
@example("<mailto:\u200b~~~>", Dialect.MARKDOWN, 400, Unit.BYTES)
def test_every_part_fits_and_is_valid_by_itself(
    text: str, dialect: Dialect, length: int, unit: Unit
):
    cut(text, dialect, length, unit)


@fixed
@given(TEXTS, DIALECTS)
def test_every_part_fits_the_real_limits_of_the_platform(text: str, dialect: Dialect):
    able = capabilities(dialect)
    cut(text * 20, dialect, able.length, able.unit)


@fixed
@given(DOCUMENTS, DIALECTS, ROOMY, UNITS)
@example(
    "> - w100\n> - - ```py\n>     w101 w102 w103 w104 w105 w106 w107\n>     ```\n"
    ">   - *<b>w108</b> & @everyone w109*",
    Dialect.MATRIX,
    40,
    Unit.CHARACTERS,
)
def test_every_word_appears_once_and_in_order(
    document: str, dialect: Dialect, length: int, unit: Unit
):
    words = re.findall(r"w\d+", document)
    found = cut(document, dialect, length, unit)
    assert re.findall(r"w\d+", " ".join(part.plain for part in found)) == words
    read = [read_html(part.text, dialect) if dialect in TAGS else part.text for part in found]
    assert re.findall(r"w\d+", " ".join(read)) == words


@fixed
@given(NASTY, DIALECTS, LENGTHS, UNITS)
def test_no_text_is_lost(text: str, dialect: Dialect, length: int, unit: Unit):
    seen = iter(_visible("".join(part.plain for part in cut(text, dialect, length, unit))))
    missing = [c for c in _visible(_content(text)) if c not in seen]
    assert not missing or is_empty(text)  # combining marks alone, which need a letter


def _content(markdown: str) -> str:
    """The text in it, as a Markdown parser finds it."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return "".join(_texts(parser.disable("reference").parse(markdown)))


def _texts(tokens: list[Token]) -> list[str]:
    found: list[str] = []
    for token in tokens:
        found += _texts(token.children) if token.children else [token.content]
    return found


def _visible(text: str) -> str:
    """A task is shown as a box, so skip anything that may be its marker."""
    return "".join(c for c in text if not (c.isspace() or c in "[]xX" or is_hidden(c)))


@fixed
@given(st.lists(st.from_regex(r"[A-Za-z]{1,12}[,.!?]?", fullmatch=True), min_size=1), DIALECTS)
def test_text_without_markup_is_unchanged(words: list[str], dialect: Dialect):
    text = " ".join(words)
    able = capabilities(dialect, 10_000)
    (part,) = parts(text, able)
    assert part.plain == text
    assert part.text in (text, f"<p>{text}</p>")
    assert parts(part.plain, able) == [part]
    several = parts(text, capabilities(dialect, 40))
    assert " ".join(part.plain for part in several).split() == words


@fixed
@given(st.text(st.sampled_from([*"aé中👍🏽👨👩🇩🇪❤ก्षक", "\u200d", "\u0301", "\ufe0f", "\u0e33"])))
def test_pieces_join_to_the_whole_text_and_split_no_cluster(text: str):
    found = list(chop(text, 1, 100, len))
    assert "".join(found) == text
    for cluster in found[1:]:
        assert cluster[0] not in "\u200d\u0301\ufe0f\u0e33्🏽"
