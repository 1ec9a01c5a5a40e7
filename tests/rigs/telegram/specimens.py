"""Valid updates, and the fields in them that the adapter requires."""

from __future__ import annotations

from typing import Any

from segue.testing.contract.malformed import Path, Specimen

FORUM = {"id": -1001000000009, "type": "supergroup", "title": "Team", "is_forum": True}
ANNA = {"id": 9, "is_bot": False, "first_name": "Anna"}
BOT = {"id": 7000000001, "is_bot": True, "first_name": "Segue", "username": "segue_test_bot"}
MESSAGE: dict[str, Any] = {
    "message_id": 5,
    "message_thread_id": 3,
    "is_topic_message": True,
    "from": ANNA,
    "chat": FORUM,
    "date": 1_790_000_000,
    "text": "/status now",
    "entities": [{"type": "bot_command", "offset": 0, "length": 7}],
}
EDITED = {**MESSAGE, "edit_date": 4_000_000_000}
FILE = {
    "file_id": "f", "file_unique_id": "u", "file_name": "a.txt", "mime_type": "text/plain",
    "file_size": 3,
}  # fmt: skip
IN_CHAT: tuple[Path, ...] = (("chat",), ("chat", "id"), ("chat", "type"))
IN_USER: tuple[Path, ...] = (
    ("from",), ("from", "id"), ("from", "is_bot"), ("from", "first_name"),
)  # fmt: skip
IN_MESSAGE: tuple[Path, ...] = (*IN_CHAT, *IN_USER, ("message_id",), ("date",))
IN_ENTITY: tuple[Path, ...] = (
    ("entities", 0, "type"), ("entities", 0, "offset"), ("entities", 0, "length"),
)  # fmt: skip


def specimen(kind: str, payload: dict[str, Any], *required: Path) -> Specimen:
    update = {"update_id": 1, kind: payload}
    return Specimen(update, ((kind,), *((kind, *path) for path in required)))


def within(name: str, *paths: Path) -> tuple[Path, ...]:
    return tuple((name, *path) for path in paths)


QUERY = {
    "id": "4300000000000000001", "from": ANNA, "chat_instance": "1", "data": "a:1:once",
    "message": {**MESSAGE, "from": BOT},
}  # fmt: skip
MEMBER = {
    "chat": FORUM, "from": ANNA, "date": 1_790_000_000,
    "old_chat_member": {"user": BOT, "status": "left"},
    "new_chat_member": {"user": BOT, "status": "member"},
}  # fmt: skip
WITH_A_FILE = {**MESSAGE, "text": "", "entities": [], "caption": "look", "document": FILE}
REPLY = {
    **MESSAGE, "reply_to_message": {**MESSAGE, "from": BOT, "message_id": 4},
    "quote": {"text": "part", "position": 0},
    "external_reply": {"origin": {"type": "hidden_user", "sender_user_name": "Eve"}},
}  # fmt: skip
FORWARD = {
    **MESSAGE, "forward_date": 1_790_000_000,
    "forward_origin": {
        "type": "channel", "date": 1_790_000_000, "author_signature": "Eve", "message_id": 1,
        "chat": {"id": -1001000000008, "type": "channel", "title": "News"},
    },
}  # fmt: skip
TOPIC = {**MESSAGE, "text": "", "entities": [], "forum_topic_created": {"name": "Topic"}}
OTHERS = {
    "sticker": {"file_id": "s", "file_unique_id": "u", "emoji": "👍", "set_name": "Set"},
    "venue": {"location": {"latitude": 1.5, "longitude": 2.5}, "title": "Here", "address": "1 Rd"},
    "contact": {"phone_number": "+49", "first_name": "Eve", "last_name": "E", "vcard": "V"},
    "poll": {"id": "1", "question": "Why?", "options": [{"text": "So", "voter_count": 0}]},
    "checklist": {"title": "List", "tasks": [{"id": 1, "text": "Buy"}]},
    "story": {"id": 1, "chat": {"id": 8, "type": "private", "first_name": "Eve"}},
    "reply_to_story": {"id": 1, "chat": {"id": 8, "type": "private", "first_name": "Eve"}},
    "voice": {"file_id": "v", "file_unique_id": "u", "mime_type": "audio/ogg", "duration": 1},
}

SPECIMENS = (
    specimen("message", MESSAGE, *IN_MESSAGE, ("text",), *IN_ENTITY),
    specimen("edited_message", EDITED, *IN_MESSAGE, ("text",), ("edit_date",), *IN_ENTITY),
    specimen("message", WITH_A_FILE, *IN_MESSAGE, ("document", "file_id")),
    specimen(
        "callback_query", QUERY, *IN_USER, ("id",), ("data",), ("message",),
        *within("message", *IN_CHAT, ("message_id",), ("date",)),
    ),
    specimen(
        "my_chat_member", MEMBER, *IN_CHAT, *IN_USER, ("old_chat_member",),
        ("old_chat_member", "status"), ("new_chat_member",), ("new_chat_member", "status"),
    ),
    specimen("message", REPLY, *IN_MESSAGE, ("reply_to_message", "message_id")),
    specimen("message", FORWARD, *IN_MESSAGE, ("forward_origin", "chat", "id")),
    specimen("message", TOPIC, *IN_MESSAGE),
    specimen(
        "message", {**WITH_A_FILE, "media_group_id": "13900000000000001"}, *IN_MESSAGE,
        ("document", "file_id"),
    ),
    *(
        specimen("message", {**MESSAGE, "text": "", "entities": [], kind: it}, *IN_MESSAGE)
        for kind, it in OTHERS.items()
    ),
)  # fmt: skip
