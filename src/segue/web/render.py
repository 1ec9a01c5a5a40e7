"""Render Markdown as safe HTML: raw HTML is text, links go only to web pages, nothing is fetched,
and code is highlighted with classes, in bounded time even if it is hostile."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from segue.core import markdown
from segue.core.text import is_empty

if TYPE_CHECKING:
    from pygments.token import _TokenType  # pyright: ignore[reportPrivateUsage]

    Piece = tuple[_TokenType, str]

LONGEST = 10_000
"""Characters of a code block that is highlighted."""
SECONDS = 0.1
"""CPU time for all code blocks of one text. The rest is shown without highlighting."""
_REL = 'target="_blank" rel="noopener noreferrer nofollow"'
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}", re.ASCII)
_COLOURS = "colours"
_UNSEEN = re.compile(r"<(?!hr\b)[^>]*>")
"""Tags that draw nothing by themselves."""
_SIDES = frozenset({"left", "center", "right"})

logger = logging.getLogger(__name__)


@cache
def _parser() -> MarkdownIt:
    parser = markdown.parser().enable("reference")
    parser.options["breaks"] = True  # people and the program write lines, as in any chat
    parser.validateLink = _is_web
    for name, render in _RULES.items():
        parser.add_render_rule(name, _rule(render))
    return parser


def html(text: str) -> str:
    """Return Markdown as HTML. Never raises: text that cannot be rendered, or would be invisible,
    is shown as written."""
    try:
        return _rendered(text)
    except Exception:
        # The page must show an answer even if it triggers a bug in a parser or in our code.
        logger.exception("markdown not rendered size=%d", len(text))
        return plain(text)


def _rendered(text: str) -> str:
    parser = _parser()
    env = {_COLOURS: Colours()}
    tokens = parser.parse(text, env)
    if markdown.is_cut(tokens):
        return plain(text)
    shown = parser.renderer.render(tokens, parser.options, env)
    return plain(text) if is_empty(_UNSEEN.sub("", shown)) else shown


def plain(text: str) -> str:
    """Return `text` as HTML that shows it as written."""
    return f"<p>{escape(text).replace(chr(10), '<br>')}</p>"


def _is_web(url: str) -> bool:
    return url.strip().lower().startswith(("http://", "https://", "mailto:"))


def _rule(render: Callable[[Token, Any], str]) -> Callable[..., str]:
    """A rule of the library that renders one token."""

    def rule(
        self: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
    ) -> str:
        return render(tokens[idx], env)

    return rule


def _link(token: Token, env: Any) -> str:
    href = str(token.attrGet("href") or "")
    # The parser accepts an empty URL, which would link to the page itself.
    return f'<a href="{escape(href)}" {_REL}>' if _is_web(href) else "<a>"


def _image(token: Token, env: Any) -> str:
    """Render a link to the image: loading it would reveal the reader to a stranger's server."""
    source = str(token.attrGet("src") or "")
    name = token.content or "picture"
    if not _is_web(source):
        return escape(name)
    return f'<a href="{escape(source)}" {_REL}>{escape(name)}</a>'


def _cell(token: Token, env: Any) -> str:
    """Align a cell with a class: the page's Content-Security-Policy forbids inline styles."""
    style = str(token.attrGet("style") or "")
    side = style.removeprefix("text-align:") if style.startswith("text-align:") else ""
    name = f' class="align-{side}"' if side in _SIDES else ""
    return f"<{token.tag}{name}>"


def _fence(token: Token, env: Any) -> str:
    language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
    label = f' class="language-{language}"' if _LANGUAGE.fullmatch(language) else ""
    code = env[_COLOURS].of(token.content, language)
    return f'<pre class="hl"><code{label}>{code}</code></pre>\n'


_RULES = {
    "link_open": _link,
    "image": _image,
    "fence": _fence,
    "code_block": _fence,
    "th_open": _cell,
    "td_open": _cell,
}


class Colours:
    """Highlights the code of one text."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._left = SECONDS

    def of(self, code: str, language: str) -> str:
        """The code as HTML."""
        known = bool(language) and len(code) <= LONGEST and self._left > 0
        lexer = markdown.lexer(language) if known else None
        if lexer is None:
            return escape(code)
        began = self._clock()
        try:
            return _written(self._in_time(lexer.get_tokens(code), began + self._left))
        except _TookTooLong:
            return escape(code)
        finally:
            self._left -= self._clock() - began

    def _in_time(self, pieces: Iterator[Piece], until: float) -> Iterator[Piece]:
        for piece in pieces:
            if self._clock() > until:
                raise _TookTooLong
            yield piece


class _TookTooLong(Exception):
    pass


def _written(pieces: Iterator[Piece]) -> str:
    from pygments.formatters.html import HtmlFormatter  # noqa: PLC0415

    written = StringIO()
    HtmlFormatter[str](nowrap=True).format(pieces, written)
    return written.getvalue()
