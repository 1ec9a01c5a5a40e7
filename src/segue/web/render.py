"""Markdown as HTML that is safe to show: raw HTML is text, links lead to web pages only, nothing is
fetched, and code is coloured by classes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

_LONGEST_COLOURED = 50_000
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}", re.ASCII)
_SIDES = frozenset({"left", "center", "right"})


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "highlight": _coloured})
    parser.enable(["table", "strikethrough"])
    parser.validateLink = _is_web
    parser.add_render_rule("link_open", _link)
    parser.add_render_rule("image", _image)
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("code_block", _fence)
    for cell in ("th_open", "td_open"):
        parser.add_render_rule(cell, _cell)
    return parser


def html(markdown: str) -> str:
    return _parser().render(markdown)


def plain(text: str) -> str:
    """What a person typed, as they typed it."""
    return f"<p>{escape(text).replace(chr(10), '<br>')}</p>"


def _is_web(url: str) -> bool:
    return url.strip().lower().startswith(("http://", "https://", "mailto:"))


def _link(
    self: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
) -> str:
    href = escape(str(tokens[idx].attrGet("href") or ""))
    return f'<a href="{href}" target="_blank" rel="noopener noreferrer nofollow">'


def _image(
    self: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
) -> str:
    """A link to it: to show it would tell a stranger's server who reads."""
    token = tokens[idx]
    source, name = str(token.attrGet("src") or ""), token.content or "picture"
    if not _is_web(source):
        return escape(name)
    rel = 'target="_blank" rel="noopener noreferrer nofollow"'
    return f'<a href="{escape(source)}" {rel}>{escape(name)}</a>'


def _cell(
    self: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
) -> str:
    """Aligned by a class: the page's policy forbids the style that would be there."""
    style = str(tokens[idx].attrGet("style") or "")
    side = style.removeprefix("text-align:") if style.startswith("text-align:") else ""
    name = f' class="align-{side}"' if side in _SIDES else ""
    return f"<{tokens[idx].tag}{name}>"


def _fence(
    self: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
) -> str:
    token = tokens[idx]
    language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
    label = f' class="language-{language}"' if _LANGUAGE.fullmatch(language) else ""
    return f'<pre class="hl"><code{label}>{_coloured(token.content, language, "")}</code></pre>\n'


def _coloured(code: str, language: str, _: str) -> str:
    if not language or len(code) > _LONGEST_COLOURED:
        return escape(code)
    from pygments import highlight  # noqa: PLC0415 - not every answer has code
    from pygments.formatters.html import HtmlFormatter  # noqa: PLC0415
    from pygments.lexers import find_lexer_class_by_name  # noqa: PLC0415
    from pygments.util import ClassNotFound  # noqa: PLC0415

    try:
        lexer = find_lexer_class_by_name(language)(stripnl=False)
    except ClassNotFound:
        return escape(code)
    return highlight(code, lexer, HtmlFormatter[str](nowrap=True))
