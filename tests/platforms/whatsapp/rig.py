"""The contract suite's rig for WhatsApp, with the gateway's real HTTP server for the webhook."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Self

from segue.core.address import Platform
from segue.core.secret import Secret
from segue.platforms import hub
from segue.platforms.spec import PlatformSettings
from segue.platforms.whatsapp.adapter import WhatsAppAdapter
from segue.testing.contract.fake import FakeRig, uploads
from segue.testing.contract.malformed import Specimen
from segue.testing.contract.rig import Act, Feature, File, Place, Seen
from segue.testing.whatsapp import APP_SECRET, PHONE, Driver, Message
from segue.web.server import Server
from tests.platforms.whatsapp.specimens import SPECIMENS

UNKNOWN_TOKEN = "EAAatokenthatnobodyhasgiven"


class WhatsAppRig(FakeRig):
    """Anna on WhatsApp. Each chat that a test asks for gets another number of hers."""

    driver: Driver
    adapter: WhatsAppAdapter
    methods: Mapping[Act, str] = {Act.SEND: "send", Act.TYPING: "mark_read", Act.FETCH: "get_media"}
    credential = "access token"
    lacks = frozenset(
        {
            *(Feature.JOINS, Feature.FORWARD_AUTHORS, Feature.REPLY_TEXTS, Feature.BOTS),
            *(Feature.THREAD_DELETION, Feature.RETRY_TIMES, Feature.CONNECTION),
        }
    )

    @classmethod
    @contextlib.asynccontextmanager
    async def plugged_in(cls, peer: Any) -> AsyncGenerator[Self]:
        async with super().plugged_in(peer) as rig:
            yield rig
            await rig.server.stop()

    async def prepare(self) -> None:
        await self.server.start(0)
        await self.driver.subscribe(self.hook, hub.verify_token(APP_SECRET))

    def __init__(self, peer: Any, driver: Driver, anna: str) -> None:
        self.server = Server()
        super().__init__(peer, driver, anna)

    @property
    def hook(self) -> str:
        return f"{self.server.url}/hooks/whatsapp"

    def made(
        self, *, order_seconds: float = 0.0, more: Any = None, **values: str
    ) -> WhatsAppAdapter:
        """An adapter with these settings, and with `more` arguments."""
        secrets = {"token": self._peer.token, "app_secret": APP_SECRET, **values}
        given = {name: Secret(value, "test") for name, value in secrets.items()}
        settings = PlatformSettings(
            platform=Platform.WHATSAPP, values={"phone": PHONE, "url": self._peer.url, **given}
        )
        adapter = WhatsAppAdapter(settings, **(more or {}))
        adapter.deliveries.seconds = order_seconds
        return adapter

    def another(self, **more: Any) -> WhatsAppAdapter:
        """It takes the place of the one before, as a restarted gateway does."""
        adapter = self.made(**more)
        self.server.hooks.mount(Platform.WHATSAPP, adapter)
        return adapter

    def impatient(self) -> WhatsAppAdapter:
        return self.made(more={"silence": 0.6})

    def denied(self) -> WhatsAppAdapter:
        return self.made(token=UNKNOWN_TOKEN)

    async def place(self, shape: str) -> Place:
        self.anna = await self.driver.user(self.name)
        return Place(self.anna)

    # Anna

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        return await self.driver.say(at.chat, text, files=uploads(files))

    async def forward(self, at: Place, author: str, text: str) -> str:
        return await self.driver.say(at.chat, text, forwarded=True)

    async def reply(self, at: Place, message: str, text: str) -> str:
        return await self.driver.say(at.chat, text, reply_to=message)

    async def edit(self, message: str, text: str) -> None:
        await self.driver.edit(message, text)

    async def press(self, message: str, label: str) -> None:
        [found] = [it for it in (await self.driver.look()).messages if it.id == message]
        await self.driver.press(found.chat, message, label)

    # Reading

    async def seen(self, text: str) -> Sequence[Seen]:
        return [_seen(it) for it in (await self.driver.look()).messages if it.text == text]

    async def typing(self, at: Place) -> int:
        return sum(seen.times for seen in (await self.driver.look(at.chat)).typing)

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS


def _seen(message: Message) -> Seen:
    return Seen(message.id, Place(message.chat), message.text, message.labels)
