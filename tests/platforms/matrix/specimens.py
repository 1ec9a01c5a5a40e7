"""Valid events, as Synapse delivers them, and the fields in them that the adapter requires."""

from __future__ import annotations

from typing import Any

from segue.testing.contract.malformed import Path, Specimen

ROOM, ANNA, BOT, ID = "!room:segue.test", "@anna:segue.test", "@bot:segue.test", "$1"
MESSAGE: dict[str, Any] = {
    "type": "m.room.message", "sender": ANNA, "event_id": ID, "origin_server_ts": 1790000000000,
    "content": {"msgtype": "m.text", "body": "hello", "m.mentions": {}}, "unsigned": {"age": 7},
}  # fmt: skip
FILE: dict[str, Any] = {
    **MESSAGE,
    "content": {
        "msgtype": "m.image", "body": "Look.", "filename": "a.png", "url": "mxc://segue.test/abc",
        "info": {"mimetype": "image/png", "size": 3},
    },
}  # fmt: skip
ENCRYPTED: dict[str, Any] = {
    **MESSAGE,
    "type": "m.room.encrypted",
    "content": {
        "algorithm": "m.megolm.v1.aes-sha2", "sender_key": "key", "ciphertext": "text",
        "session_id": "id", "device_id": "DEVICE",
    },
}  # fmt: skip
IN_EVENT: tuple[Path, ...] = (("type",), ("sender",), ("content",), ("event_id",))

SPECIMENS = [
    Specimen(MESSAGE, [*IN_EVENT, ("content", "msgtype"), ("content", "body")]),
    Specimen(FILE, [*IN_EVENT, ("content", "msgtype"), ("content", "url")]),
    Specimen(ENCRYPTED, [*IN_EVENT, *(("content", it) for it in ENCRYPTED["content"])]),
]
