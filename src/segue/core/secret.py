"""Values that no output shows, and their removal from text that comes from outside.

A server may echo the URL of a request, and a bot's token is part of that URL.
"""

from __future__ import annotations

from typing import NoReturn
from urllib.parse import quote

HIDDEN = "[hidden]"
_SHORTEST = 8
"""A shorter string is no real secret, and may be an ordinary word."""
_secrets: dict[str, None] = {}


def remember(secret: str) -> None:
    """Redact `secret` from all texts from now on."""
    if len(secret) >= _SHORTEST:
        _secrets.update(dict.fromkeys((secret, quote(secret), quote(secret, safe=""))))


def redacted(text: str) -> str:
    """Return `text` with every secret known to this process replaced."""
    for secret in _secrets:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


class Secret:
    """A key, and the setting it came from.

    Only `reveal` shows it: it appears in no repr, dump or error.
    """

    __slots__ = ("_value", "setting")

    def __init__(self, value: str, setting: str) -> None:
        self._value = value
        self.setting = setting
        remember(value)

    def reveal(self) -> str:
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"<the key in {self.setting}>"

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not written down")
