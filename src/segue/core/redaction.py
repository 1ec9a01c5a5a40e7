"""Secrets taken out of texts from outside: a server may send back the address that it
was asked at, and a bot's token is part of that address."""

from __future__ import annotations

from urllib.parse import quote

HIDDEN = "[hidden]"
_SHORTEST = 8
"""What is shorter protects nothing, and may be a word."""
_secrets: dict[str, None] = {}


def remember(secret: str) -> None:
    """Keep `secret` out of all texts from now on."""
    if len(secret) >= _SHORTEST:
        _secrets.update(dict.fromkeys((secret, quote(secret), quote(secret, safe=""))))


def redacted(text: str) -> str:
    """Return `text` without any secret that this process knows."""
    for secret in _secrets:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text
