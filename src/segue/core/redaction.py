"""Removes secrets from text that comes from outside.

A server may echo the URL of a request, and a bot's token is part of that URL.
"""

from __future__ import annotations

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
