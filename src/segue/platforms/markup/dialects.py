"""The markup of each platform: how it escapes, and its bold, lists, quotes and the rest.

Text that a dialect would take for markup or a mention is made harmless, character by character, so
that text can be cut anywhere and escaped in pieces. `marks_of` has the marks of a dialect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from segue.platforms.base import Dialect, Unit
from segue.platforms.markup.blocks import MarkKind, written_out
from segue.platforms.markup.splitter import Wrap, size

# Escaping

_UNSEEN = "\u200b"
"""Zero width space. In dialects without escapes it separates a markup character from the text that
would activate it."""
_URL = r"https?://(?:[^\s<>`*|\\\[\]~]|~(?!~))+"

# Discord's Markdown. URLs are left alone: a backslash would become part of them.
_DISCORD = re.compile(
    rf"(?P<same>{_URL})|^(?P<before>\s*)(?P<first>[-#>])|^(?P<number>\s*\d+)(?=\.)|[\\`*_~|\[\]<]"
)
# Slack and WhatsApp have no escapes. A markup character between two spaces, or an underscore within
# a word, has no effect.
_SIGN = re.compile(
    rf"(?P<same>{_URL}|(?<=\s)[*_~`](?=\s)|(?<=[^\W_])_(?=[^\W_]))|(?<!\S)(?P<quote>>)|[*_~`]"
)
_FENCE = "```"


def html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def attribute(text: str) -> str:
    return html(text).replace('"', "&quot;")


def discord(text: str) -> str:
    return _DISCORD.sub(_backslashed, text)


def _backslashed(match: re.Match[str]) -> str:
    if match["same"]:
        return match[0]
    if match["number"]:
        return f"{match[0]}\\"
    return f"{match['before']}\\{match['first']}" if match["first"] else f"\\{match[0]}"


def disarmed(text: str) -> str:
    """Disarm markup characters where there are no escapes: keep them off the edges of words."""
    return _SIGN.sub(_disarmed, text)


def _disarmed(match: re.Match[str]) -> str:
    if match["same"]:
        return match[0]
    return f"{_UNSEEN}>" if match["quote"] else f"{match[0]}{_UNSEEN}"


def same(text: str) -> str:
    return text


def unfenced(code: str) -> str:
    """Return code that cannot close the fence around it."""
    return code.replace("`", f"`{_UNSEEN}") if _FENCE in code else code


def quiet(pattern: str) -> Callable[[str], str]:
    """Return a function that adds a zero width space after every match, to prevent mentions."""
    found = re.compile(pattern)
    return lambda text: found.sub(rf"\g<0>{_UNSEEN}", text)


# Ranges: a platform takes plain text, and the parts of it that are bold as ranges. The marks are
# noncharacters, which Unicode reserves for use within a program: no text has them.

BOLD = "\ufdd0"
ITALIC = "\ufdd1"
STRIKE = "\ufdd2"
CODE = "\ufdd3"
END = "\ufdd4"
_STYLES = {BOLD: "BOLD", ITALIC: "ITALIC", STRIKE: "STRIKETHROUGH", CODE: "MONOSPACE"}
_MARK = re.compile(f"([{BOLD}-{END}])")


def without_marks(text: str) -> str:
    return _MARK.sub("", text)


def ranges(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each style in `text` with the start and the length of what has it, counted in UTF-16
    units of the text without marks."""
    at = 0
    opened = list[tuple[str, int]]()
    for piece in _MARK.split(text):
        if piece == END and opened:
            mark, start = opened.pop()
            if at > start:
                yield _STYLES[mark], start, at - start
        elif _MARK.fullmatch(piece):
            opened.append((piece, at))
        else:
            at += size(piece, Unit.UTF16)


# Dialects

_BULLETS = "•◦▪"
_QUOTED = Wrap("> ", "", "> ")
_DISCORD_HEADINGS = 3
_DISCORD_HREF = str.maketrans({sign: f"%{ord(sign):X}" for sign in "()*~"})
"""Characters that would end the link, or the bold or struck text around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """One dialect. After a line break in a Wrap comes the line prefix of the outer frames."""

    escape: Callable[[str], str] = same
    escape_code: Callable[[str], str] = same
    still: Callable[[str], str] = same
    """Applied to text before it is cut, so that it mentions no users."""
    still_code: Callable[[str], str] = same
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


def _html_numbered(start: int) -> Wrap:
    if start == 1:
        return _tag("ol")
    return _tag("ol", f' start="{start}"')


def _html_link(href: str) -> Wrap:
    return _tag("a", f' href="{attribute(href)}"')


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
    return Wrap(f"<{html(href.replace('|', '%7C'))}|", ">")


_quiet_slack = quiet(r"<(?=!(?:channel|here|everyone|subteam|date)\b|[@#][A-Z])")
_SINGLE = {
    MarkKind.BOLD: _around("*"),
    MarkKind.ITALIC: _around("_"),
    MarkKind.STRIKE: _around("~"),
}

_PLAIN = Marks()
_DIALECTS = {
    Dialect.PLAIN: _PLAIN,
    Dialect.MARKDOWN: Marks(
        escape=discord,
        still=quiet(r"@(?=everyone|here)|<(?=[@#]\W?\d)"),
        still_code=unfenced,
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
        escape=html,
        escape_code=html,
        still=quiet(r"(?<![\w/.@])@(?=[A-Za-z]\w{3})"),
        styles={MarkKind.BOLD: _tag("b"), MarkKind.ITALIC: _tag("i"), MarkKind.STRIKE: _tag("s")},
        span_code=lambda code: _tag("code"),
        link=_html_link,
        fence=_html_fence,
        quote=_tag("blockquote"),
        inner_quote=Wrap("&gt; ", "", "&gt; "),
    ),
    Dialect.SLACK: Marks(
        escape=html,
        escape_code=html,
        still=lambda text: _quiet_slack(disarmed(text)),
        still_code=lambda code: _quiet_slack(unfenced(code)),
        styles=_SINGLE,
        styles_in_word={},
        span_code=_single_code,
        link=_slack_link,
        fence=lambda language: _fence(""),
        code_in_quote=False,
    ),
    Dialect.MATRIX: Marks(
        escape=html,
        escape_code=html,
        still=quiet(r"@(?=room\b)"),
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
            numbered=_html_numbered,
            item=_tag("li"),
        ),
    ),
    Dialect.WHATSAPP: Marks(
        still=disarmed,
        still_code=unfenced,
        styles=_SINGLE,
        styles_in_word={},
        span_code=_single_code,
        fence=lambda language: _fence(""),
        code_in_quote=False,
        bullets="-",
    ),
    Dialect.SIGNAL: Marks(
        escape=without_marks,
        escape_code=without_marks,
        styles={
            MarkKind.BOLD: Wrap(BOLD, END),
            MarkKind.ITALIC: Wrap(ITALIC, END),
            MarkKind.STRIKE: Wrap(STRIKE, END),
        },
        span_code=lambda code: Wrap(CODE, END),
        fence=lambda language: Wrap(CODE, END),
    ),
}
