"""Valid events, as Synapse delivers them, and the fields in them that the adapter requires."""

from __future__ import annotations

from typing import Any

from segue.testing.contract.malformed import Path, Specimen

ROOM = "!room:segue.test"
ANNA = "@anna:segue.test"
BOT = "@bot:segue.test"
ID = "$1"
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
REPLY: dict[str, Any] = {"m.in_reply_to": {"event_id": "$2"}}
IN_THREAD: dict[str, Any] = {"rel_type": "m.thread", "event_id": "$3", **REPLY}
EDIT: dict[str, Any] = {"rel_type": "m.replace", "event_id": "$2"}
REACTION: dict[str, Any] = {
    **MESSAGE,
    "type": "m.reaction",
    "content": {"m.relates_to": {"rel_type": "m.annotation", "event_id": "$2", "key": "👍"}},
}


def related(relation: dict[str, Any]) -> dict[str, Any]:
    """A message that refers to another one."""
    content = {**MESSAGE["content"], "m.relates_to": relation, "m.new_content": {"body": "new"}}
    return {**MESSAGE, "content": content}


def state(kind: str, key: str, content: dict[str, Any]) -> dict[str, Any]:
    return {**MESSAGE, "type": kind, "state_key": key, "content": content}


STATE = (
    state("m.room.tombstone", "", {"body": "Moved.", "replacement_room": "!new:segue.test"}),
    state("m.room.create", "", {"predecessor": {"room_id": "!old:segue.test", "event_id": "$4"}}),
    state("m.room.name", "", {"name": "Team"}),
)
IN_EVENT: tuple[Path, ...] = (("type",), ("sender",), ("content",), ("event_id",))

SPECIMENS = [
    Specimen(MESSAGE, [*IN_EVENT, ("content", "msgtype"), ("content", "body")]),
    Specimen(FILE, [*IN_EVENT, ("content", "msgtype"), ("content", "url")]),
    Specimen(related(REPLY), [*IN_EVENT, ("content", "body")]),
    Specimen(related(IN_THREAD), [*IN_EVENT, ("content", "body")]),
    Specimen(related(EDIT), [*IN_EVENT, ("content", "body")]),
    Specimen(REACTION, IN_EVENT),
    *(Specimen(it, IN_EVENT) for it in STATE),
    Specimen(ENCRYPTED, [*IN_EVENT, *(("content", it) for it in ENCRYPTED["content"])]),
]
