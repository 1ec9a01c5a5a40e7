"""Valid frames of Socket Mode, and the fields in them that the adapter requires."""

from __future__ import annotations

from typing import Any

from segue.testing.contract.malformed import Path, Specimen

CHANNEL, ANNA, BOT, TS = "C0100000009", "U0100000009", "U0100000000", "1790000000.000005"
MESSAGE: dict[str, Any] = {
    "type": "message", "channel": CHANNEL, "channel_type": "channel", "user": ANNA, "ts": TS,
    "event_ts": TS, "text": f"<@{BOT}> status", "team": "T0100000001",
}  # fmt: skip
FILE = {
    "id": "F1", "name": "a.txt", "mimetype": "text/plain", "size": 3, "mode": "hosted",
    "url_private": "https://files.slack.com/a", "url_private_download": "https://files.slack.com/a",
}  # fmt: skip
EDITED = {
    "type": "message", "subtype": "message_changed", "channel": CHANNEL, "ts": "1790000000.000009",
    "channel_type": "channel", "hidden": True,
    "message": {**MESSAGE, "edited": {"user": ANNA, "ts": "1790000001.000000"}},
    "previous_message": {**MESSAGE, "text": "statu"},
}  # fmt: skip
PRESS: dict[str, Any] = {
    "type": "block_actions", "trigger_id": "1.2.3", "user": {"id": ANNA, "username": "anna"},
    "channel": {"id": CHANNEL, "name": "general"}, "team": {"id": "T0100000001"},
    "container": {"type": "message", "message_ts": TS, "channel_id": CHANNEL},
    "message": {**MESSAGE, "user": BOT}, "response_url": "https://hooks.slack.com/actions/1",
    "actions": [
        {"type": "button", "action_id": "a", "block_id": "b", "value": "a:1:once", "action_ts": TS},
    ],
}  # fmt: skip
COMMAND: dict[str, Any] = {
    "command": "/segue", "text": "status", "trigger_id": "1.2.3", "user_id": ANNA,
    "user_name": "anna", "channel_id": CHANNEL, "channel_name": "general", "team_id": "T0100000001",
    "response_url": "https://hooks.slack.com/commands/1",
}  # fmt: skip
IN_MESSAGE: tuple[Path, ...] = (("channel",), ("user",), ("ts",), ("type",))


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
        "interactive", PRESS, ("type",), ("user",), ("user", "id"), ("actions",), ("actions", 0),
        ("actions", 0, "value"), ("container",), ("container", "message_ts"),
    ),
    specimen("slash_commands", COMMAND, ("user_id",), ("channel_id",), ("text",)),
)  # fmt: skip
