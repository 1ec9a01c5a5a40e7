"""Slack's markup: what users typed, whom a message mentions, what becomes a link, and the blocks
of a message with buttons.

https://docs.slack.dev/messaging/formatting-message-text
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from segue.platforms import sending
from segue.platforms.base import Button

LINK = re.compile(r"<([^<>|]*)(?:\|([^<>]*))?>")
"""A link, a mention or a date, with its label."""
_MENTION = re.compile(r"<(@[UW][A-Z0-9]+|#[CG][A-Z0-9]+)>")
"""A user or a channel without a label, in typed text."""
_USER = re.compile(r"[UW][A-Z0-9]+")
_LIVE = re.compile(r"<(?=[@!#])|:(?=/)|www(?=\.)")
"""The beginnings of mentions and links."""
_ESCAPED = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}
_ESCAPE = re.compile("|".join(_ESCAPED))


def typed(text: str) -> str:
    """The text as its author typed it."""
    return _ESCAPE.sub(lambda it: _ESCAPED[it[0]], LINK.sub(_shown, text))


def _shown(link: re.Match[str]) -> str:
    target = link[1]
    label = link[2]
    match target[:1]:
        case "@" | "#":
            return f"{target[0]}{label.lstrip('@#')}" if label else f"<{target}>"
        case "!":  # everyone in the channel, a group of users, a date
            return label or f"@{target[1:]}"
        case _:
            return f"{label} ({target})" if label and label not in target else label or target


def mentioned(text: str) -> list[str]:
    """The users and channels that typed text mentions by their ids, such as `@U1` and `#C1`. Each
    comes once."""
    return list(dict.fromkeys(_MENTION.findall(text)))


def with_names(text: str, names: Mapping[str, str]) -> str:
    """The typed text with these names in the place of what `mentioned` returns."""
    return _MENTION.sub(lambda it: names.get(it[1], it[0]), text)


def mention(users: Iterable[str]) -> str:
    """Mention the users with these ids. Ids of groups and of other things are left out."""
    return " ".join(f"<@{user}>" for user in users if _USER.fullmatch(user))


def inert(text: str) -> str:
    """The text without mentions and links, and with the same look. As the text grows, so does the
    result."""
    return _LIVE.sub("\\g<0>\u200b", text)


# Blocks: https://docs.slack.dev/reference/block-kit


def content(text: str, buttons: Sequence[Button], **more: Any) -> dict[str, Any]:
    """The arguments for a message with buttons. `more` is for one without."""
    if not buttons:
        return {**more, "text": text}
    rows = [[_button(button) for button in row] for row in sending.rows(buttons)]
    actions = [{"type": "actions", "elements": row} for row in rows]
    return {"text": text, "blocks": [section(text), *actions]}


def section(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}, **more}


def _button(button: Button) -> dict[str, Any]:
    label = {"type": "plain_text", "text": button.label[:75]}
    return {"type": "button", "text": label, "value": button.data, "action_id": button.data}
