"""Valid webhook payloads, and the fields in them that the adapter requires."""

from __future__ import annotations

from typing import Any

from segue.testing.contract.malformed import Path, Specimen
from segue.testing.whatsapp import NUMBER, PHONE

ANNA = "491510000000001"
VALUE: Path = ("entry", 0, "changes", 0, "value")


def payload(**value: Any) -> dict[str, Any]:
    metadata = {"display_phone_number": NUMBER, "phone_number_id": PHONE}
    whole = {"messaging_product": "whatsapp", "metadata": metadata, **value}
    change = {"value": whole, "field": "messages"}
    return {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [change]}]}


def message(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    """The payload with one message of Anna."""
    base = {"from": ANNA, "id": "wamid.HBgL", "timestamp": "1790000000", "type": kind}
    contact = {"profile": {"name": "Anna"}, "wa_id": ANNA}
    return payload(contacts=[contact], messages=[{**base, kind: content, **more}])


def _specimen(update: dict[str, Any], *required: Path) -> Specimen:
    always: tuple[Path, ...] = (
        ("object",), ("entry",), ("entry", 0, "changes"), VALUE, (*VALUE, "metadata"),
        (*VALUE, "metadata", "phone_number_id"), (*VALUE, "messages"),
    )  # fmt: skip
    parts: tuple[Path, ...] = (("from",), ("id",), ("timestamp",), ("type",))
    inside = tuple((*VALUE, "messages", 0, *path) for path in (*parts, *required))
    return Specimen(update, (*always, *inside))


IMAGE = {"mime_type": "image/jpeg", "sha256": "x", "id": "123"}
PRESS = {"type": "button_reply", "button_reply": {"id": "a:1:once", "title": "Yes"}}
SPECIMENS = (
    _specimen(message("text", {"body": "status"}), ("text",), ("text", "body")),
    _specimen(message("image", IMAGE), ("image",), ("image", "id")),
    _specimen(
        message("interactive", PRESS, context={"from": NUMBER, "id": "wamid.XX"}),
        ("interactive",),
        ("interactive", "button_reply"),
        ("interactive", "button_reply", "id"),
    ),
    _specimen(
        message("location", {"latitude": 1.5, "longitude": 2.5}),
        ("location",),
        ("location", "latitude"),
    ),
    _specimen(
        message("contacts", [{"name": {"formatted_name": "Eve"}}]),
        ("contacts",),
        ("contacts", 0, "name"),
    ),
)
