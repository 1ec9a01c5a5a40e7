"""The contract suite's rig for WhatsApp, with the gateway's real HTTP server for the webhook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from segue.core.address import Platform
from segue.core.secret import Secret
from segue.platforms.spec import PlatformSettings
from segue.platforms.whatsapp import webhook
from segue.platforms.whatsapp.adapter import WhatsAppAdapter
from segue.testing.contract.fake import FakeRig, uploads
from segue.testing.contract.malformed import Specimen
from segue.testing.contract.rig import Feature, File, Place
from segue.web.server import Server
from tests.fakes.whatsapp import APP_SECRET, PHONE, Driver
from tests.rigs.whatsapp import WhatsAppRig
from tests.rigs.whatsapp.specimens import ANNA, SPECIMENS


class AnnaOnWhatsApp(FakeRig):
    """Anna on WhatsApp. Each chat that a test asks for gets another number of hers."""

    driver: Driver
    author = ANNA
    serial = "wamid.HBgL"
    adapter: WhatsAppAdapter
    methods = WhatsAppRig.methods
    credential = "access token"
    lacks = frozenset({
        Feature.JOINS, Feature.FORWARD_AUTHORS, Feature.REPLY_TEXTS, Feature.BOTS,
        Feature.THREAD_DELETION, Feature.RETRY_TIMES, Feature.CONNECTION, Feature.HISTORY,
        Feature.OTHERS, Feature.READERS, Feature.USER_THREADS, Feature.EDIT_BACKLOG,
    })  # fmt: skip

    def __init__(self, peer: Any, driver: Driver, anna: str) -> None:
        self.server = Server()
        super().__init__(peer, driver, anna)

    async def prepare(self) -> None:
        await self.server.start(0)
        await self.driver.subscribe(self.hook, webhook.verify_token(APP_SECRET))

    async def finish(self) -> None:
        await self.server.stop()

    @property
    def hook(self) -> str:
        return f"{self.server.url}/hooks/whatsapp"

    def made(self, *, silence: float = 20.0, **values: str) -> WhatsAppAdapter:
        """An adapter with these settings, which does not wait for updates that were overtaken."""
        peer = self._peer
        known = {"phone": PHONE, "app_secret": APP_SECRET}
        known |= {"token": peer.token, "url": peer.url, **values}
        given = {name: Secret(value, "test") for name, value in known.items()}
        settings = PlatformSettings(platform=Platform.WHATSAPP, values=given)
        adapter = WhatsAppAdapter(settings, silence=silence)
        adapter.deliveries.seconds = 0.0
        return adapter

    def another(self, **more: Any) -> WhatsAppAdapter:
        """It takes the place of the one before, as a restarted gateway does."""
        adapter = self.made(**more)
        self.server.hooks.mount(Platform.WHATSAPP, adapter)
        return adapter

    def impatient(self) -> WhatsAppAdapter:
        return self.made(silence=0.6)

    def denied(self) -> WhatsAppAdapter:
        return self.made(token="EAAatokenthatnobodyhasgiven")

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

    async def press(self, message: str, label: str) -> None:
        [found] = [it for it in (await self.driver.look()).messages if it.id == message]
        await self.driver.press(found.chat, message, label)

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS
