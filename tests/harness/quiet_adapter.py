"""An adapter without a platform: it connects, receives nothing, and discards what it sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from itertools import count
from typing import Any

from segue.core.address import Address, Audience, HomeChannel, Platform
from segue.core.errors import BadSettings
from segue.platforms.base import (
    Adapter,
    Attachment,
    Button,
    Capabilities,
    Finding,
    Inbound,
    MenuEntry,
    Part,
    Receipt,
    Upload,
)
from segue.platforms.spec import PlatformSettings

NAME = "tests.harness.quiet_adapter:quiet"
REFUSES = "tests.harness.quiet_adapter:refuses"
BROKEN = "tests.harness.quiet_adapter:broken"
LINK = "https://quiet.example.com/"


class Quiet:
    capabilities = Capabilities(keys=True)
    account = "quiet-bot"

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self._sent = count(1)

    async def connect(self) -> None: ...

    async def close(self) -> None: ...

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        await asyncio.Event().wait()
        for nothing in list[Inbound]():
            yield nothing

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        return Receipt(str(next(self._sent)))

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None: ...

    def acknowledge(self, press: Inbound) -> None: ...

    async def send_file(self, to: Address, file: Upload, part: Part, *, key: str) -> Receipt:
        return Receipt(str(next(self._sent)))

    def how_to_address(self, at: Address) -> str:
        return ""

    def trusts_reactions(self, at: Address) -> bool:
        return True

    def previews(self, at: Address) -> bool:
        return False

    async def preview(self, at: Address, part: Part, *, key: str) -> None: ...

    async def typing(self, at: Address) -> None: ...

    async def fetch(self, attachment: Attachment) -> bytes:
        return b""

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        return None

    async def invite(self, thread: Address, users: Sequence[str], *, key: str) -> None: ...

    @property
    def remark(self) -> str:
        return ""

    @property
    def is_caught_up(self) -> bool:
        return True

    def remember(self, recorded: Mapping[Address, str], **more: Any) -> None: ...

    async def offer(self, menu: Sequence[MenuEntry]) -> None: ...

    async def audience(self, chat: Address, users: Sequence[str]) -> Audience | None:
        return None

    async def find_chat(self, chat_id: str) -> HomeChannel | None:
        return None

    async def find_user(self, user_id: str) -> bool | None:
        return None

    async def examine(self, home: Address | None) -> Sequence[Finding]:
        return ()

    def pairing_link(self, code: str) -> str | None:
        return f"{LINK}{code}"


def quiet(settings: PlatformSettings) -> Adapter:
    return Quiet(settings.platform)


def refuses(settings: PlatformSettings) -> Adapter:
    raise BadSettings(path="the test", reason="this adapter makes nothing")


def broken(settings: PlatformSettings) -> Adapter:
    raise RuntimeError("this adapter is broken")
