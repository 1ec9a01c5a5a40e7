"""Render Markdown as safe HTML: raw HTML is text, links go only to web pages, nothing is fetched,
and code is highlighted with classes."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from segue.core import markdown
from segue.core.text import is_empty
from segue.web.code import Colours

logger = logging.getLogger(__name__)

_REL = 'target="_blank" rel="noopener noreferrer nofollow"'
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}", re.ASCII)
_COLOURS = "colours"
_UNSEEN = re.compile(r"<(?!hr\b)[^>]*>")
"""Tags that draw nothing by themselves."""
_SIDES = frozenset({"left", "center", "right"})


@cache
def _parser() -> MarkdownIt:
    parser = markdown.parser().enable("reference")
    parser.validateLink = _is_web
    parser.add_render_rule("link_open", _link)
    parser.add_render_rule("image", _image)
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("code_block", _fence)
    for cell in ("th_open", "td_open"):
        parser.add_render_rule(cell, _cell)
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
    parser, env = _parser(), {_COLOURS: Colours()}
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


def _link(
    self: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
) -> str:
    href = str(tokens[idx].attrGet("href") or "")
    # The parser accepts an empty URL, which would link to the page itself.
    return f'<a href="{escape(href)}" {_REL}>' if _is_web(href) else "<a>"


def _image(
    self: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
) -> str:
    """Render a link to the image: loading it would reveal the reader to a stranger's server."""
    token = tokens[idx]
    source, name = str(token.attrGet("src") or ""), token.content or "picture"
    if not _is_web(source):
        return escape(name)
    return f'<a href="{escape(source)}" {_REL}>{escape(name)}</a>'


def _cell(
    self: RendererHTML, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any
) -> str:
    """Align a cell with a class: the page's Content-Security-Policy forbids inline styles."""
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
    code = env[_COLOURS].of(token.content, language)
    return f'<pre class="hl"><code{label}>{code}</code></pre>\n'
