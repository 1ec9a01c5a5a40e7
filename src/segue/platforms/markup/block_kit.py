"""Slack's blocks, written: https://docs.slack.dev/reference/block-kit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from segue.platforms import sending
from segue.platforms.base import Button


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
