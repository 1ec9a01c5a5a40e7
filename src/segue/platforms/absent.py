"""A platform that cannot be spoken to as it is set up: it says why, and the others go on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, NoReturn

from segue.core.address import Address, Platform
from segue.core.errors import ConnectFailed
from segue.platforms.base import Capabilities, Inbound


class Absent:
    """In the place of an adapter that cannot be made, for a person to read what is missing."""

    account = ""
    capabilities = Capabilities()

    def __init__(self, platform: Platform, reason: str) -> None:
        self.platform = platform
        self._reason = reason

    async def connect(self, *_: Any, **__: Any) -> NoReturn:
        raise ConnectFailed(platform=self.platform, reason=self._reason)

    send = edit = send_file = preview = typing = fetch = connect
    create_handoff_thread = offer = examine = find_chat = connect

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        await self.connect()
        yield  # pyright: ignore[reportUnreachable]

    async def close(self) -> None:
        """There is nothing to let go of."""

    def acknowledge(self, press: Inbound) -> None:
        """There is nothing to press."""

    def how_to_address(self, at: Address) -> str:
        return ""

    def previews(self, at: Address) -> bool:
        return False

    def pairing_link(self, code: str) -> None:
        return None
