"""What our messages contain: choices, a template, or a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from segue.core.text import one_line
from segue.platforms import sending
from segue.platforms.base import Button, Upload
from segue.platforms.errors import Refused

BODY = 1024
"""Length limit of a text with buttons, and of a caption."""
_REPLIES, _REPLY_TITLE = 3, 20
_ROWS, _ROW_TITLE, _ROW_TEXT = 10, 24, 72
_PARAMETER = 900
"""Length of a template's parameter. With the words around it, 1,024 characters fit."""
_MEGABYTE = 1024 * 1024
LARGEST_FILE = 100 * _MEGABYTE
_OFFICE = "application/vnd.openxmlformats-officedocument."
_FILES: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "image": (5 * _MEGABYTE, ("image/jpeg", "image/png")),
    "video": (16 * _MEGABYTE, ("video/mp4", "video/3gpp")),
    "audio": (16 * _MEGABYTE, ("audio/aac", "audio/mp4", "audio/mpeg", "audio/amr", "audio/ogg")),
    "document": (LARGEST_FILE, (
        "text/plain", "application/pdf", "application/msword", "application/vnd.ms-excel",
        "application/vnd.ms-powerpoint", f"{_OFFICE}wordprocessingml.document",
        f"{_OFFICE}spreadsheetml.sheet", f"{_OFFICE}presentationml.presentation",
    )),
}  # fmt: skip
"""The size limit and the types of each kind of file."""
_TEXTS = ("text/", "application/json", "application/xml", "application/toml", "application/yaml")
"""Types that are sent as plain text."""


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


def from_template(template: str, text: str) -> dict[str, Any]:
    """The template `name/language` with the text, on one line."""
    name, _, language = template.partition("/")
    body = {"type": "body", "parameters": [{"type": "text", "text": one_line(text, _PARAMETER)}]}
    return {"name": name, "language": {"code": language or "en"}, "components": [body]}


def file_kind(file: Upload) -> tuple[str, str]:
    """How WhatsApp takes the file, and as which type."""
    media_type = file.media_type.partition(";")[0]
    for kind, (most, types) in _FILES.items():
        if media_type in types and len(file.data) <= most:
            return kind, media_type
    if media_type.startswith(_TEXTS):
        return "document", "text/plain"
    raise Refused(415, f"WhatsApp does not take files of the type {media_type}, or of this size")
