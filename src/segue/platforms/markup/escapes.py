"""Escaping: text that a dialect would take for markup or a mention is made harmless, character by
character, so that text can be cut anywhere and escaped in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable

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
