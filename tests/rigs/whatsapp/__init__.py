"""WhatsApp, as its strict fake, behind the built-in adapter and the gateway's HTTP server."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from segue.core.address import ChatType, Platform
from segue.platforms import registry
from segue.platforms.whatsapp import webhook
from segue.testing.contract.fake import uploads
from segue.testing.contract.rig import Act
from segue.testing.peers.process import Fake
from tests.fakes import whatsapp
from tests.fakes.whatsapp import APP_SECRET, FAKE, PHONE, Driver, Peer
from tests.harness.networks import lasting_port
from tests.rigs.base import File, Kind, Message, PlatformRig

_ADAPTER = "segue.platforms.whatsapp.adapter.WhatsAppAdapter"
_MARKUP = re.compile(r"[*`\u200b\u2060]")


@dataclass(frozen=True, slots=True)
class WhatsAppRig(PlatformRig):
    """There are only direct messages, and no threads. A user has one chat with the bot."""

    peer: Peer
    driver: Driver
    port: int = field(default_factory=lasting_port)

    name: ClassVar[str] = "whatsapp"
    fake: ClassVar[Fake[Any, Any]] = FAKE
    platform: ClassVar[Platform] = Platform.WHATSAPP
    adapter: ClassVar[str] = registry.SPECS[Platform.WHATSAPP].make
    keys: ClassVar[bool] = False
    has_menu: ClassVar[bool] = False
    edits: ClassVar[bool] = False
    albums: ClassVar[bool] = False
    methods: ClassVar[Mapping[Act, str]] = {
        Act.CONNECT: "get_number",
        Act.SEND: "send",
        Act.TYPING: "mark_read",
        Act.FETCH: "get_media",
    }
    dm: ClassVar[Kind] = Kind("a direct message", ChatType.DM)
    forum: ClassVar[Kind] = dm
    group: ClassVar[Kind] = dm
    kinds: ClassVar[tuple[Kind, ...]] = (dm,)
    constants: ClassVar[Mapping[str, float | str]] = {
        f"{_ADAPTER}.capabilities": "tests.rigs.pace:whatsapp",
        "segue.platforms.whatsapp.webhook.ORDER_SECONDS": 0.0,
        "segue.platforms.whatsapp.webhook.CHECK_SECONDS": 0.2,
    }

    def settings(self, adapter: str = "") -> str:
        made = PlatformRig.settings(self, adapter)
        return f'{made}phone = "{PHONE}"\napp_secret = "{APP_SECRET}"\nport = "{self.port}"\n'

    async def clear(self) -> None:
        """Enter the webhook in the dashboard. The gateway need not run yet."""
        await self.driver.clear()
        url = f"http://127.0.0.1:{self.port}/hooks/whatsapp"
        await self.driver.subscribe(url, webhook.verify_token(APP_SECRET))

    async def chat(self, kind: Kind, members: Sequence[str]) -> str:
        """The user has written there before, so the bot may write too."""
        await self.driver.wrote(members[0])
        return members[0]

    async def _say(
        self, user: str, chat: str, text: str, thread: str | None, files: Sequence[File]
    ) -> None:
        await self.driver.say(user, text, files=uploads(files))

    async def press(self, user: str, chat: str, message: Message, label: str) -> None:
        await self.driver.press(user, message.id, label)

    def _message(self, it: whatsapp.Message) -> Message:
        # A dataclass with slots has no super().
        return replace(PlatformRig._message(self, it), text=_MARKUP.sub("", it.text))
