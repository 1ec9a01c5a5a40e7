"""Text that means itself: what each dialect would take for its markup, or for a mention, is made
harmless, character by character, so that text can be cut anywhere and escaped in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable

_UNSEEN = "\u200b"
"""The zero width space. It comes between a sign and what would give the sign a meaning, where a
dialect knows no escape."""
_URL = r"https?://(?:[^\s<>`*|\\\[\]~]|~(?!~))+"

# Markdown as Discord reads it. An address is not touched: a backslash would become part of it.
_DISCORD = re.compile(
    rf"(?P<same>{_URL})|^(?P<before>\s*)(?P<first>[-#>])|^(?P<number>\s*\d+)(?=\.)|[\\`*_~|\[\]<]"
)
# There is no escape in Slack and WhatsApp. A sign between two blanks, or an underscore within a
# word, does nothing.
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
    """For a dialect without an escape: signs that are no longer at the edge of a word."""
    return _SIGN.sub(_disarmed, text)


def _disarmed(match: re.Match[str]) -> str:
    if match["same"]:
        return match[0]
    return f"{_UNSEEN}>" if match["quote"] else f"{match[0]}{_UNSEEN}"


def same(text: str) -> str:
    return text


def unfenced(code: str) -> str:
    """Code that cannot end the fence around it."""
    return code.replace("`", f"`{_UNSEEN}") if _FENCE in code else code


def quiet(pattern: str) -> Callable[[str], str]:
    """What puts something unseen behind all that `pattern` finds, so that it calls nobody."""
    found = re.compile(pattern)
    return lambda text: found.sub(rf"\g<0>{_UNSEEN}", text)
