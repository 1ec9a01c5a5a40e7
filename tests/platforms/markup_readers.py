"""Parsers for the output of `segue.platforms.markup`, at least as strict as the platforms."""

from __future__ import annotations

import html
import re

from segue.platforms.base import Capabilities, Dialect, Part, Unit
from segue.platforms.markup import dialects

LIMITS = {
    Dialect.PLAIN: (4096, Unit.CHARACTERS),
    Dialect.MARKDOWN: (2000, Unit.CHARACTERS),
    Dialect.TELEGRAM: (4096, Unit.UTF16),
    Dialect.SLACK: (40_000, Unit.CHARACTERS),
    Dialect.MATRIX: (60_000, Unit.BYTES),
    Dialect.WHATSAPP: (4096, Unit.CHARACTERS),
    Dialect.SIGNAL: (2000, Unit.BYTES),
}
TAGS = {
    Dialect.TELEGRAM: {"b", "i", "s", "code", "pre", "a", "blockquote"},
    Dialect.MATRIX: {
        *("strong", "em", "del", "code", "pre", "a", "blockquote", "p", "ul", "ol", "li"),
        *("h1", "h2", "h3", "h4", "h5", "h6"),
    },
}
VOID = {Dialect.TELEGRAM: set[str](), Dialect.MATRIX: {"br", "hr"}}
INLINE = {"b", "i", "s", "strong", "em", "del", "code", "a"}
ATTRIBUTES = {
    "a": re.compile(r' href="(https?://|mailto:)[^"<>]+"'),
    "code": re.compile(r'( class="language-[\w+#.-]+")?'),
    "ol": re.compile(r'( start="\d+")?'),
}
NONE = re.compile("")
_TOKEN = re.compile(r"<(?P<end>/?)(?P<tag>[a-z][a-z0-9]*)(?P<attributes>[^<>]*)>|(?P<text>[^<>]+)")
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot);")


_LITERAL = re.compile(r"`` .*? ``|`[^`\n]+`|\\.|https?://(?:[^\s*~`\\]|~(?!~))+")


def capabilities(dialect: Dialect, length: int | None = None, unit: Unit | None = None):
    usual, counted = LIMITS[dialect]
    return Capabilities(dialect=dialect, length=length or usual, unit=unit or counted)


def read_html(text: str, dialect: Dialect) -> str:
    """Return the visible text. Raises AssertionError if the markup is not well formed."""
    seen: list[str] = []
    open_: list[str] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token, f"neither tag nor text: {text[at : at + 20]!r}"
        at = token.end()
        if token["text"]:
            assert "&" not in _ENTITY.sub("", token["text"]), token["text"]
            seen.append(html.unescape(token["text"]))
            continue
        if token["tag"] not in INLINE:
            seen.append("\n")
        if token["tag"] in VOID[dialect]:
            continue
        if token["end"]:
            assert open_, f"{token[0]} closes nothing"
            assert open_.pop() == token["tag"], f"{token[0]} in the wrong place"
        else:
            _check_opening(token["tag"], token["attributes"], open_, dialect)
            open_.append(token["tag"])
    assert not open_, f"never closed: {open_}"
    return "".join(seen)


def _check_opening(tag: str, attributes: str, open_: list[str], dialect: Dialect) -> None:
    assert tag in TAGS[dialect], tag
    assert ATTRIBUTES.get(tag, NONE).fullmatch(attributes), attributes
    assert "code" not in open_, f"{tag} in code"
    assert tag in ("blockquote", "ul", "ol", "li", "p", "pre", "code", "a") or tag not in open_
    if dialect is Dialect.TELEGRAM:
        assert tag != "blockquote" or "blockquote" not in open_
        assert not (tag == "code" and "a" in open_)
    if tag == "li":
        assert open_[-1] in ("ul", "ol")
    if dialect is Dialect.MATRIX and open_ and open_[-1] in ("ul", "ol"):
        assert tag == "li"


def read_discord(text: str) -> None:
    """Raise AssertionError if a formatting mark is not closed."""
    outside = text.split("```")[::2]
    assert text.count("```") % 2 == 0, "a fence that is not closed"
    for prose in outside:
        bare = _LITERAL.sub("x", prose)
        assert bare.count("**") % 2 == 0, prose
        assert bare.count("~~") % 2 == 0, prose
        assert bare.count("`") == 0, prose


def check(part: Part, dialect: Dialect) -> None:
    """Check that the part is valid by itself."""
    part.text.encode()
    part.plain.encode()
    assert part.text.strip()
    assert part.plain.strip()
    if dialect in TAGS:
        read_html(part.text, dialect)
    if dialect is Dialect.MARKDOWN:
        read_discord(part.text)
    if dialect is Dialect.SIGNAL:
        marks = [mark for mark in part.text if "\ufdd0" <= mark <= "\ufdd4"]
        assert 2 * marks.count("\ufdd4") == len(marks), "a mark that is not closed"
        assert len(list(dialects.ranges(part.text))) <= len(marks) // 2
    if dialect in (Dialect.SLACK, Dialect.WHATSAPP):
        assert part.text.count("```") % 2 == 0
    if dialect is Dialect.SLACK:
        assert not re.search(r"<(?!https?://|mailto:)", part.text)
