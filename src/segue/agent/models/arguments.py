"""Tool call arguments, which should be a JSON object but sometimes are not."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.core.transcript import ToolCall

_OBJECTS = msgspec.json.Decoder(dict[str, Any])
_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_object(text: str) -> bool:
    try:
        _RAW.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True


def as_object(call: ToolCall) -> dict[str, Any]:
    """The arguments as a dict. Anything else, which small models write, is wrapped in one."""
    try:
        return _OBJECTS.decode(call.arguments or "{}")
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return {"arguments": call.arguments}
