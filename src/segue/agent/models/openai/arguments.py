"""The arguments of a tool call, which should be an object and are not always."""

from __future__ import annotations

import msgspec

_OBJECTS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_object(text: str) -> bool:
    try:
        _OBJECTS.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True
