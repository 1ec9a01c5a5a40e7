"""The markup of each platform: bold, lists, quotes and the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from segue.platforms.base import Dialect
from segue.platforms.markup import escapes, ranges
from segue.platforms.markup.blocks import MarkKind
from segue.platforms.markup.flow import Wrap
from segue.platforms.markup.spans import written_out

_BULLETS = "•◦▪"
_QUOTED = Wrap("> ", "", "> ")
_DISCORD_HEADINGS = 3
_DISCORD_HREF = str.maketrans({sign: f"%{ord(sign):X}" for sign in "()*~"})
"""Characters that would end the link, or the bold or struck text around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """One dialect. After a line break in a Wrap comes the line prefix of the outer frames."""

    escape: Callable[[str], str] = escapes.same
    escape_code: Callable[[str], str] = escapes.same
    still: Callable[[str], str] = escapes.same
    """Applied to text before it is cut, so that it mentions no users."""
    still_code: Callable[[str], str] = escapes.same
    styles: Mapping[MarkKind, Wrap] = field(default_factory=dict[MarkKind, Wrap])
    """Bold, italic and strikethrough. A missing style is not shown."""
    styles_in_word: Mapping[MarkKind, Wrap] | None = None
    """Styles that start or end within a word; None if `styles` work there too."""
    parted: bool = False
    """Whether a markup character ends a word, so that the next mark can start right after it."""
    span_code: Callable[[str], Wrap | None] = lambda code: None
    """The markup for inline code; None if this code cannot be marked as code."""
    link: Callable[[str], Wrap] = lambda href: Wrap("", written_out(href))
    code_in_link: bool = False
    fence: Callable[[str], Wrap] | None = None
    """The code fence for a language; None if the dialect has no code blocks."""
    heading: Callable[[int], Wrap | None] = lambda level: None
    """The markup for a heading level; None to use bold text."""
    quote: Wrap = _QUOTED
    inner_quote: Wrap = _QUOTED
    code_in_quote: bool = True
    bullets: str = _BULLETS
    """Bullets by depth. The last is also used for all deeper levels."""
    rule: str = "———"
    newline: str = "\n"
    tags: Tags | None = None
    """For dialects where blocks are elements instead of prefixed lines."""


@dataclass(frozen=True, slots=True)
class Tags:
    paragraph: Wrap
    bulleted: Wrap
    numbered: Callable[[int], Wrap]
    item: Wrap


def marks_of(dialect: Dialect) -> Marks:
    return _DIALECTS[dialect]


def _around(sign: str) -> Wrap:
    return Wrap(sign, sign)


def _tag(name: str, attributes: str = "") -> Wrap:
    return Wrap(f"<{name}{attributes}>", f"</{name}>")


def _fence(language: str) -> Wrap:
    return Wrap(f"```{language}\n", "\n```")


def _html_fence(language: str) -> Wrap:
    if not language:
        return Wrap("<pre><code>", "</code></pre>")
    return Wrap(f'<pre><code class="language-{language}">', "</code></pre>")


def _html_link(href: str) -> Wrap:
    return _tag("a", f' href="{escapes.attribute(href)}"')


# Discord


def _discord_code(code: str) -> Wrap | None:
    if "``" in code:
        return None
    return Wrap("`` ", " ``") if "`" in code else _around("`")


def _discord_link(href: str) -> Wrap:
    return Wrap("[", f"]({href.translate(_DISCORD_HREF)})")


def _discord_heading(level: int) -> Wrap | None:
    sign = "#" * level + " "
    return Wrap(sign, "", sign) if level <= _DISCORD_HEADINGS else None


# Slack and WhatsApp


def _single_code(code: str) -> Wrap | None:
    return None if "`" in code else _around("`")


def _slack_link(href: str) -> Wrap:
    return Wrap(f"<{escapes.html(href.replace('|', '%7C'))}|", ">")


_quiet_slack = escapes.quiet(r"<(?=!(?:channel|here|everyone|subteam|date)\b|[@#][A-Z])")
_SINGLE = {
    MarkKind.BOLD: _around("*"),
    MarkKind.ITALIC: _around("_"),
    MarkKind.STRIKE: _around("~"),
}

_PLAIN = Marks()
_DIALECTS = {
    Dialect.PLAIN: _PLAIN,
    Dialect.MARKDOWN: Marks(
        escape=escapes.discord,
        still=escapes.quiet(r"@(?=everyone|here)|<(?=[@#]\W?\d)"),
        still_code=escapes.unfenced,
        styles={
            MarkKind.BOLD: _around("**"),
            MarkKind.ITALIC: _around("_"),
            MarkKind.STRIKE: _around("~~"),
        },
        styles_in_word={
            MarkKind.BOLD: _around("**"),
            MarkKind.ITALIC: _around("*"),
            MarkKind.STRIKE: _around("~~"),
        },
        parted=True,
        span_code=_discord_code,
        link=_discord_link,
        code_in_link=True,
        fence=_fence,
        heading=_discord_heading,
        bullets="-",
    ),
    Dialect.TELEGRAM: Marks(
        escape=escapes.html,
        escape_code=escapes.html,
        still=escapes.quiet(r"(?<![\w/.@])@(?=[A-Za-z]\w{3})"),
        styles={MarkKind.BOLD: _tag("b"), MarkKind.ITALIC: _tag("i"), MarkKind.STRIKE: _tag("s")},
        span_code=lambda code: _tag("code"),
        link=_html_link,
        fence=_html_fence,
        quote=_tag("blockquote"),
        inner_quote=Wrap("&gt; ", "", "&gt; "),
    ),
    Dialect.SLACK: Marks(
        escape=escapes.html,
        escape_code=escapes.html,
        still=lambda text: _quiet_slack(escapes.disarmed(text)),
        still_code=lambda code: _quiet_slack(escapes.unfenced(code)),
        styles=_SINGLE,
        styles_in_word={},
        span_code=_single_code,
        link=_slack_link,
        fence=lambda language: _fence(""),
        code_in_quote=False,
    ),
    Dialect.MATRIX: Marks(
        escape=escapes.html,
        escape_code=escapes.html,
        still=escapes.quiet(r"@(?=room\b)"),
        styles={
            MarkKind.BOLD: _tag("strong"),
            MarkKind.ITALIC: _tag("em"),
            MarkKind.STRIKE: _tag("del"),
        },
        span_code=lambda code: _tag("code"),
        link=_html_link,
        code_in_link=True,
        fence=_html_fence,
        heading=lambda level: _tag(f"h{level}"),
        quote=_tag("blockquote"),
        inner_quote=_tag("blockquote"),
        rule="<hr>",
        newline="<br>",
        tags=Tags(
            paragraph=_tag("p"),
            bulleted=_tag("ul"),
            numbered=lambda start: _tag("ol", f' start="{start}"' if start != 1 else ""),
            item=_tag("li"),
        ),
    ),
    Dialect.WHATSAPP: Marks(
        still=escapes.disarmed,
        still_code=escapes.unfenced,
        styles=_SINGLE,
        styles_in_word={},
        span_code=_single_code,
        fence=lambda language: _fence(""),
        code_in_quote=False,
        bullets="-",
    ),
    Dialect.SIGNAL: Marks(
        escape=ranges.without_marks,
        escape_code=ranges.without_marks,
        styles={
            MarkKind.BOLD: Wrap(ranges.BOLD, ranges.END),
            MarkKind.ITALIC: Wrap(ranges.ITALIC, ranges.END),
            MarkKind.STRIKE: Wrap(ranges.STRIKE, ranges.END),
        },
        span_code=lambda code: Wrap(ranges.CODE, ranges.END),
        fence=lambda language: Wrap(ranges.CODE, ranges.END),
    ),
}
