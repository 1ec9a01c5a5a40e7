"""Slack's markup, read: https://docs.slack.dev/messaging/formatting-message-text."""

from __future__ import annotations

import re

LINK = re.compile(r"<([^<>|]*)(?:\|([^<>]*))?>")
"""A link, a mention or a date, with its label."""
_ESCAPED = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}
_ESCAPE = re.compile("|".join(_ESCAPED))


def typed(text: str) -> str:
    """The text as its author typed it."""
    return _ESCAPE.sub(lambda it: _ESCAPED[it[0]], LINK.sub(_shown, text))


def _shown(link: re.Match[str]) -> str:
    target, label = link[1], link[2]
    match target[:1]:
        case "@" | "#":
            return f"{target[0]}{label.lstrip('@#')}" if label else link[0]
        case "!":  # everyone in the channel, a group of users, a date
            return label or f"@{target[1:]}"
        case _:
            return f"{label} ({target})" if label and label not in target else label or target
