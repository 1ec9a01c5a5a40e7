"""What our messages contain: choices, a template, or a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from segue.core.text import one_line
from segue.platforms import sending
from segue.platforms.base import Button, Upload
from segue.platforms.errors import Refused
from segue.platforms.whatsapp.spec import UPLOADS

BODY = 1024
"""Length limit of a text with buttons, and of a caption."""
_REPLIES, _REPLY_TITLE = 3, 20
_ROWS, _ROW_TITLE, _ROW_TEXT = 10, 24, 72
_PARAMETER = 900
"""Length of a template's parameter. With the words around it, 1,024 characters fit."""


def plain(text: str) -> dict[str, Any]:
    return {"body": text, "preview_url": False}


def choices(text: str, buttons: Sequence[Button]) -> dict[str, Any]:
    """Up to three buttons; or a list, which also shows long labels."""
    titles = {sending.label(it.label, _REPLY_TITLE): it.data for it in buttons}
    if len(titles) == len(buttons) <= _REPLIES:
        replies = [{"id": data, "title": title} for title, data in titles.items()]
        action: dict[str, Any] = {"buttons": [{"type": "reply", "reply": it} for it in replies]}
        return {"type": "button", "body": {"text": text}, "action": action}
    action = {"button": "Choose", "sections": [{"rows": [*map(_row, buttons[:_ROWS])]}]}
    return {"type": "list", "body": {"text": text}, "action": action}


def _row(button: Button) -> dict[str, str]:
    row = {"id": button.data, "title": sending.label(button.label, _ROW_TITLE)}
    is_cut = row["title"] != button.label
    return row | ({"description": sending.label(button.label, _ROW_TEXT)} if is_cut else {})


def from_template(template: str, text: str, buttons: Sequence[Button] = ()) -> dict[str, Any]:
    """The template `name/language` with the text, on one line. It ends with what users type in
    place of the buttons, which a template does not have."""
    name, _, language = template.partition("/")
    choices = [f"{it.typed} ({it.label})" for it in buttons if it.typed]
    hint = f" Answer {' or '.join(choices)}." if choices else ""
    line = one_line(text, _PARAMETER - len(hint)) + hint
    body = {"type": "body", "parameters": [{"type": "text", "text": line}]}
    return {"name": name, "language": {"code": language or "en"}, "components": [body]}


def file_kind(file: Upload) -> tuple[str, str]:
    """How WhatsApp takes the file, and as which type."""
    media_type = file.media_type.partition(";")[0]
    if kind := UPLOADS.kind(media_type, len(file.data)):
        return kind.name, kind.sent_as or media_type
    raise Refused(415, f"WhatsApp does not take files of the type {media_type}, or of this size")
