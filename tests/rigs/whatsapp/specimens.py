"""Valid webhook payloads, and the fields in them that the adapter requires."""

from __future__ import annotations

from typing import Any

from segue.testing.contract.malformed import Path, Specimen
from tests.fakes.whatsapp import NUMBER, PHONE

ANNA = "491510000000001"
VALUE: Path = ("entry", 0, "changes", 0, "value")
ALWAYS: tuple[Path, ...] = (
    ("object",), ("entry",), ("entry", 0, "changes"), VALUE, (*VALUE, "metadata"),
    (*VALUE, "metadata", "phone_number_id"), (*VALUE, "messages"),
)  # fmt: skip


def payload(*messages: Any, **more: Any) -> dict[str, Any]:
    """A request with these messages of Anna, and more."""
    metadata = {"display_phone_number": NUMBER, "phone_number_id": PHONE, "new": {"field": 1}}
    contacts = [{"profile": {"name": "Anna"}, "wa_id": ANNA}]
    whole = {"messaging_product": "whatsapp", "metadata": metadata, "contacts": contacts}
    change = {"value": {**whole, "messages": messages, **more}, "field": "messages"}
    return {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [change]}]}


def message(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    head = {"from": ANNA, "id": "wamid.HBgL", "timestamp": "1790000000", "type": kind}
    return {**head, kind: content, **more}


def _specimen(kind: str, content: Any, *required: Path, **more: Any) -> Specimen:
    head = [("from",), ("id",), ("timestamp",), ("type",), (kind,)]
    paths = [*head, *((kind, *path) for path in required)]
    inside = [(*VALUE, "messages", 0, *path) for path in paths]
    return Specimen(payload(message(kind, content, **more)), (*ALWAYS, *inside))


PRESS = {"type": "button_reply", "button_reply": {"id": "a:1:once", "title": "Yes"}}
ROW = {"type": "list_reply", "list_reply": {"id": "a:1:once", "title": "Yes", "description": "It"}}
OURS = {"from": NUMBER, "id": "wamid.OURS"}
PLACE = {"latitude": 1.5, "longitude": 2.5, "name": "Here", "address": "1 Road"}
STATUS = {
    "id": "wamid.OURS", "status": "failed", "timestamp": "1790000000", "recipient_id": ANNA,
    "biz_opaque_callback_data": "a key",
    "errors": [{"code": 131000, "title": "It", "message": "It", "error_data": {"details": "It"}}],
}  # fmt: skip
SPECIMENS = (
    _specimen("text", {"body": "status"}, ("body",)),
    _specimen("image", {"mime_type": "image/jpeg", "sha256": "x", "id": "123"}, ("id",)),
    _specimen("interactive", PRESS, ("button_reply",), ("button_reply", "id"), context=OURS),
    _specimen("location", {"latitude": 1.5, "longitude": 2.5}, ("latitude",)),
    _specimen("contacts", [{"name": {"formatted_name": "Eve"}}], (0, "name")),
    _specimen("text", {"body": "status"}, ("body",), context=OURS),
    _specimen("interactive", ROW, ("list_reply",), ("list_reply", "id"), context=OURS),
    _specimen("location", PLACE, ("latitude",)),
    _specimen("reaction", {"message_id": "wamid.OURS", "emoji": "👍"}),
    _specimen("document", {"id": "123", "filename": "a.pdf", "mime_type": "application/pdf"}),
    _specimen("revoke", {"original_message_id": "wamid.HBgK"}),
    Specimen(payload(statuses=[STATUS]), ALWAYS[:-1]),
)
