"""Telegram through the Bot API: long polling, topics in groups and in direct messages.

`client` is the bot with its HTTP client and its table of failures. `wire`, `polling` and `parser`
turn updates into Inbounds. `topics` finds the place that a message goes to. `account` checks how
the bot is set up.
"""

from __future__ import annotations

from segue.config import PlatformSettings
from segue.core.errors import LibraryMissing
from segue.platforms.base import Adapter

_LIBRARIES = frozenset({"telegram", "httpx"})


def make(settings: PlatformSettings) -> Adapter:
    """Create the adapter for the bot in `settings`, not yet connected. Raise LibraryMissing if
    python-telegram-bot is not installed."""
    # Imported here, so that a gateway without Telegram does not need the library.
    try:
        from segue.platforms.telegram.adapter import TelegramAdapter  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in _LIBRARIES:
            raise
        raise LibraryMissing(platform=settings.platform) from missing
    token = "" if settings.token is None else settings.token.reveal()
    return TelegramAdapter(token, settings.url)
