"""Valid frames of Socket Mode, and the fields in them that the adapter requires."""

from __future__ import annotations

import json
from pathlib import Path as File
from typing import Any

from segue.testing.contract.malformed import Path, Specimen

CHANNEL = "C0100000009"
ANNA = "U0100000009"
BOT = "U0100000000"
TS = "1790000000.000005"
FRAMES: dict[str, dict[str, Any]] = json.loads(File(__file__).with_suffix(".json").read_text())
MESSAGE, FILE, EDITED, PRESS, COMMAND = FRAMES.values()
IN_MESSAGE: tuple[Path, ...] = (("channel",), ("user",), ("ts",), ("type",))
IN_THREAD = {**MESSAGE, "thread_ts": "1790000000.000003", "parent_user_id": BOT}
MENTIONS = {**MESSAGE, "text": "Ask <@U0100000008> in <#C0100000008|> and <#C0100000007|news>"}
SHARED = {
    **MESSAGE, "text": "",
    "attachments": [
        {
            "is_share": True, "author_name": "Eve", "text": "words", "files": [FILE],
            "ts": "1790000000.000001", "channel_id": "C0100000008",
        }
    ],
}  # fmt: skip
DELETED = {
    **{name: it for name, it in EDITED.items() if name != "message"},
    "subtype": "message_deleted", "deleted_ts": "1790000000.000005",
}  # fmt: skip
JOINED = {
    "type": "member_joined_channel", "user": BOT, "channel": CHANNEL, "channel_type": "C",
    "team": "T0100000001", "inviter": ANNA, "event_ts": "1790000000.000006",
}  # fmt: skip


def specimen(kind: str, payload: dict[str, Any], *required: Path) -> Specimen:
    frame = {
        "envelope_id": "injected",
        "type": kind,
        "accepts_response_payload": kind == "slash_commands",
        "payload": payload,
    }
    return Specimen(frame, (("type",), ("payload",), *(("payload", *path) for path in required)))


def event(event: dict[str, Any], *required: Path) -> Specimen:
    payload = {
        "type": "event_callback", "event_id": "Ev1", "event_time": 1_790_000_000,
        "team_id": "T0100000001", "api_app_id": "A0100000001", "event": event,
    }  # fmt: skip
    within = (("event", *path) for path in required)
    return specimen("events_api", payload, ("event_id",), ("event",), *within)


SPECIMENS = (
    event(MESSAGE, *IN_MESSAGE),
    event({**MESSAGE, "subtype": "file_share", "files": [FILE]}, *IN_MESSAGE),
    event(EDITED, ("channel",), ("message",), ("message", "user"), ("message", "ts")),
    specimen(
        "interactive", PRESS, ("type",), ("user",), ("user", "id"), ("user", "team_id"),
        ("actions",), ("actions", 0), ("actions", 0, "value"), ("container",),
        ("container", "message_ts"),
    ),
    specimen("slash_commands", COMMAND, ("user_id",), ("team_id",), ("channel_id",), ("text",)),
    event(IN_THREAD, *IN_MESSAGE),
    event(MENTIONS, *IN_MESSAGE),
    event(SHARED, *IN_MESSAGE),
    event(DELETED, ("channel",), ("previous_message",), ("previous_message", "ts")),
    event(JOINED, ("channel",), ("user",), ("type",), ("inviter",)),
)  # fmt: skip
