"""A strict HTML parser that accepts only what the page may contain."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urlsplit

_TAGS = frozenset({
    "p", "br", "hr", "a", "em", "strong", "s", "code", "pre", "span", "ul", "ol", "li",
    "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td",
})  # fmt: skip
_EMPTY = frozenset({"br", "hr"})
_REL = "noopener noreferrer nofollow"
_SCHEMES = frozenset({"http", "https", "mailto"})


class Unsafe(AssertionError):
    pass


class Strict(HTMLParser):
    """Checks that every tag and attribute is allowed and every tag is closed in order.

    Nothing else that a browser would read as markup may appear.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.text = ""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _TAGS:
            raise Unsafe(f"<{tag}>")
        given = dict(attrs)
        if len(given) != len(attrs) or not all(_fits(tag, *pair) for pair in attrs):
            raise Unsafe(f"<{tag} {attrs}>")
        if tag == "a":
            if given and given.keys() != {"href", "target", "rel"}:
                raise Unsafe(f"<a {attrs}>")
            self.links.extend(value or "" for name, value in attrs if name == "href")
        if tag not in _EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _EMPTY:
            raise Unsafe(f"<{tag}/>")
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            raise Unsafe(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise Unsafe(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        raise Unsafe(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        raise Unsafe(f"<?{data}>")

    def unknown_decl(self, data: str) -> None:
        raise Unsafe(f"<![{data}]>")

    def close(self) -> None:
        super().close()
        if self._open:
            raise Unsafe(f"not closed: {self._open}")


def read(html: str) -> Strict:
    """Parse the HTML. Raises Unsafe if it contains something that is not allowed."""
    # Each < must begin a tag that the parser sees, and each > must end one, without any fragments.
    if re.search(r"<(?!/?[a-z][a-z0-9]*[ >/])", html) or "<" in re.sub(r"<[^<>]*>", "", html):
        raise Unsafe(html)
    reader = Strict()
    reader.feed(html)
    reader.close()
    return reader


def _fits(tag: str, name: str, value: str | None) -> bool:
    value = value or ""
    match tag, name:
        case "a", "href":
            return _is_web(value)
        case "a", "target":
            return value == "_blank"
        case "a", "rel":
            return value == _REL
        case "ol", "start":
            return value.isascii() and value.isdigit()
        case "pre", "class":
            return value == "hl"
        case "code", "class":
            return re.fullmatch(r"language-[A-Za-z0-9_+#.-]{1,30}", value) is not None
        case "th" | "td", "class":
            return value in {"align-left", "align-center", "align-right"}
        case "span", "class":
            return re.fullmatch(r"[A-Za-z0-9 -]{1,60}", value) is not None
        case _:
            return False


def _is_web(href: str) -> bool:
    # A browser removes these before it reads the scheme, so they must not appear.
    if any(c <= " " or c == "\x7f" for c in href):
        return False
    parts = urlsplit(href)
    if parts.scheme not in _SCHEMES or not href.lower().startswith(f"{parts.scheme}:"):
        return False
    return parts.scheme == "mailto" or href.lower().startswith(f"{parts.scheme}://")
