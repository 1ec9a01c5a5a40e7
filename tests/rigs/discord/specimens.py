"""Valid events, and the fields in them that the adapter requires."""

from __future__ import annotations

from typing import Any

from segue.testing.contract.malformed import Path, Specimen

ANNA = {
    "id": "1200000000000000009", "username": "anna", "global_name": "Anna", "discriminator": "0",
    "avatar": None, "bot": False,
}  # fmt: skip
MEMBER = {
    "nick": None, "avatar": None, "roles": [], "joined_at": "2026-01-01T00:00:00+00:00",
    "deaf": False, "mute": False, "flags": 0,
}  # fmt: skip
MESSAGE: dict[str, Any] = {
    "id": "1300000000000000005",
    "channel_id": "1300000000000000003",
    "guild_id": "1300000000000000001",
    "author": ANNA,
    "member": MEMBER,
    "type": 0,
    "content": "hello",
    "timestamp": "2026-01-01T00:00:00+00:00",
    "edited_timestamp": None,
    "tts": False,
    "mention_everyone": False,
    "mentions": [],
    "mention_roles": [],
    "attachments": [],
    "embeds": [],
    "components": [],
    "pinned": False,
    "flags": 0,
}
EDITED = {**MESSAGE, "edited_timestamp": "2026-01-01T00:01:00+00:00"}
FILE = {
    "id": "1300000000000000007", "filename": "a.txt", "size": 3, "content_type": "text/plain",
    "url": "http://127.0.0.1:9/attachments/1/2/a.txt", "proxy_url": "http://127.0.0.1:9/a.txt",
}  # fmt: skip
INTERACTION: dict[str, Any] = {
    "id": "1300000000000000006", "application_id": "1100000000000000001", "version": 1,
    "token": "a token", "channel_id": "1300000000000000003", "guild_id": "1300000000000000001",
    "channel": {"id": "1300000000000000003", "type": 0}, "member": {**MEMBER, "user": ANNA},
}  # fmt: skip
PRESS = {
    **INTERACTION, "type": 3, "data": {"custom_id": "a:1:once", "component_type": 2},
    "message": {**MESSAGE, "author": {**ANNA, "id": "1100000000000000001", "bot": True}},
}  # fmt: skip
COMMAND = {
    **INTERACTION, "type": 2,
    "data": {"id": "1300000000000000008", "name": "status", "type": 1},
}  # fmt: skip
REPLY = {
    **MESSAGE, "type": 19, "mentions": [ANNA],
    "message_reference": {"message_id": "1300000000000000002", "channel_id": "1300000000000000003"},
    "referenced_message": {**MESSAGE, "id": "1300000000000000002"},
}  # fmt: skip
FORWARD = {
    **MESSAGE, "content": "", "message_reference": {"type": 1, "message_id": "1300000000000000002"},
    "message_snapshots": [{"message": {"content": "words", "attachments": [FILE]}}],
}  # fmt: skip
ODD = {
    **MESSAGE, "content": "", "sticker_items": [{"id": "1", "name": "wave", "format_type": 1}],
    "poll": {
        "question": {"text": "Why?"}, "answers": [{"answer_id": 1, "poll_media": {"text": "So"}}],
    },
}  # fmt: skip
DELETED = {
    "id": "1300000000000000005", "channel_id": "1300000000000000003",
    "guild_id": "1300000000000000001",
}  # fmt: skip
CHANNEL = {
    "id": "1300000000000000004", "type": 0, "guild_id": "1300000000000000001", "name": "new",
    "topic": "words", "permission_overwrites": [{"id": "1", "type": 1, "allow": "0", "deny": "0"}],
}  # fmt: skip
IN_MESSAGE: tuple[Path, ...] = (("id",), ("channel_id",), ("author",), ("author", "id"))
IN_INTERACTION: tuple[Path, ...] = (
    ("id",), ("token",), ("type",), ("channel_id",), ("member",), ("member", "user"),
    ("member", "user", "id"), ("data",),
)  # fmt: skip


def specimen(event: str, data: dict[str, Any], *required: Path) -> Specimen:
    paths: tuple[Path, ...] = (("d",), *(("d", *path) for path in required))
    return Specimen({"op": 0, "t": event, "d": data}, paths)


SPECIMENS = (
    specimen("MESSAGE_CREATE", MESSAGE, *IN_MESSAGE, ("content",)),
    specimen("MESSAGE_UPDATE", EDITED, *IN_MESSAGE, ("content",)),
    specimen(
        "MESSAGE_CREATE", {**MESSAGE, "content": "", "attachments": [FILE]}, *IN_MESSAGE,
        ("attachments", 0, "id"), ("attachments", 0, "url"), ("attachments", 0, "filename"),
    ),
    specimen("INTERACTION_CREATE", PRESS, *IN_INTERACTION, ("data", "custom_id"), ("message",)),
    specimen("INTERACTION_CREATE", COMMAND, *IN_INTERACTION, ("data", "name")),
    specimen("MESSAGE_CREATE", REPLY, *IN_MESSAGE, ("referenced_message", "id")),
    specimen("MESSAGE_CREATE", FORWARD, *IN_MESSAGE),
    specimen("MESSAGE_CREATE", ODD, *IN_MESSAGE),
    specimen("MESSAGE_DELETE", DELETED, ("id",), ("channel_id",)),
    specimen("CHANNEL_UPDATE", CHANNEL, ("id",)),
    specimen("THREAD_UPDATE", {**CHANNEL, "type": 11, "parent_id": CHANNEL["guild_id"]}, ("id",)),
    specimen("CHANNEL_DELETE", CHANNEL, ("id",)),
)  # fmt: skip
