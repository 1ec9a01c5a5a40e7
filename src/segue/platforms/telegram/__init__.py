"""Telegram, by the Bot API: long polling, topics in groups and in direct messages.

`line` is the one place that speaks HTTP, and knows the token; `wire`, `polling` and `parsing` turn
updates into Inbounds; `sending`, `files` and `topics` do what the contract asks for; `failing` says
in the contract's errors what went wrong; `examining` looks at how the bot is set up.
"""

from __future__ import annotations

from segue.config import PlatformSettings
from segue.core.errors import LibraryMissing
from segue.platforms.base import Adapter

_LIBRARIES = frozenset({"telegram", "httpx"})


def make(settings: PlatformSettings) -> Adapter:
    """An adapter for the bot of `settings`, not yet connected; LibraryMissing when
    python-telegram-bot is not installed."""
    # A gateway without Telegram does not pay for its library, and does not need it.
    try:
        from segue.platforms.telegram.adapter import TelegramAdapter  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in _LIBRARIES:
            raise
        raise LibraryMissing(platform=settings.platform) from missing
    token = "" if settings.token is None else settings.token.reveal()
    return TelegramAdapter(token, settings.url, groups=settings.groups)
