"""A stand-in for a platform that is misconfigured. It reports the reason, and other platforms keep
working."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, NoReturn

from segue.core.address import Platform
from segue.core.errors import SetupNeeded
from segue.platforms.adapter import BaseAdapter
from segue.platforms.base import Capabilities, Inbound


class Absent(BaseAdapter):
    """Replaces an adapter that could not be created, so that the user can read what is missing."""

    capabilities = Capabilities()

    def __init__(self, platform: Platform, reason: str) -> None:
        self.platform = platform
        self._reason = reason

    async def connect(self, *_: Any, **__: Any) -> NoReturn:
        raise SetupNeeded(platform=self.platform, reason=self._reason)

    send = edit = send_file = preview = typing = fetch = connect
    create_handoff_thread = offer = examine = find_chat = find_user = audience = connect

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        await self.connect()
        yield  # pyright: ignore[reportUnreachable]

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""
