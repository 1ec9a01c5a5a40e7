"""The contract suite's rig for WhatsApp, with the gateway's real HTTP server for the webhook."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from segue.core.address import Platform
from segue.core.secret import Secret
from segue.platforms import registry
from segue.platforms.spec import PlatformSettings
from segue.platforms.whatsapp.adapter import WhatsAppAdapter
from segue.testing.contract.fake import FakeRig
from segue.testing.contract.malformed import Specimen
from segue.testing.contract.rig import Act, Feature, File, Place, Seen
from segue.testing.whatsapp import Driver, Message, Peer, Upload
from segue.web.server import Server
from tests.platforms.whatsapp.specimens import SPECIMENS

UNKNOWN_TOKEN = "EAAatokenthatnobodyhasgiven"


class WhatsAppRig(FakeRig):
    """Anna on WhatsApp. Each chat that a test asks for gets another number of hers."""

    driver: Driver
    methods: Mapping[Act, str] = {
        Act.SEND: "send",
        Act.TYPING: "mark_read",
        Act.FETCH: "get_media",
    }
    credential = "access token"
    lacks = frozenset(
        {
            Feature.JOINS,
            Feature.FORWARD_AUTHORS,
            Feature.REPLY_TEXTS,
            Feature.BOTS,
            Feature.THREAD_DELETION,
            Feature.RETRY_TIMES,
            Feature.CONNECTION,
        }
    )

    def __init__(self, peer: Peer, driver: Driver, server: Server) -> None:
        self._peer = peer
        self.driver = driver
        self.server = server
        self.anna = ""
        self.whatsapp = self.another()
        self.adapter = self.whatsapp

    def made(
        self, token: str = "", *, template: str = "", port: str = "", **more: Any
    ) -> WhatsAppAdapter:
        values = {
            "phone": self._peer.phone,
            "token": Secret(token or self._peer.token, "test"),
            "app_secret": Secret(self._peer.app_secret, "test"),
            "url": self._peer.url,
            "template": template,
            "port": port,
        }
        spec = registry.SPECS[Platform.WHATSAPP]
        make: Any = registry.load(spec, spec.make)
        settings = PlatformSettings(platform=Platform.WHATSAPP, values=values)
        return make(settings, **{"order_seconds": 0.0, **more})

    def another(self, **more: Any) -> WhatsAppAdapter:
        """It takes the place of the one before, as a restarted gateway does."""
        adapter = self.made(**more)
        self.server.hooks.mount(Platform.WHATSAPP, adapter)
        return adapter

    @property
    def hook(self) -> str:
        return f"{self.server.url}/hooks/whatsapp"

    def impatient(self) -> WhatsAppAdapter:
        return self.made(silence=0.6)

    def denied(self) -> WhatsAppAdapter:
        return self.made(UNKNOWN_TOKEN)

    async def place(self, shape: str) -> Place:
        self.anna = await self.driver.user(self.name)
        return Place(self.anna)

    # Anna

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        sent = [Upload(name=f.name, media_type=f.media_type, content=f.content) for f in files]
        return await self.driver.say(at.chat, text, files=sent)

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

    # The platform

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS


@contextlib.asynccontextmanager
async def plugged_in(peer: Peer) -> AsyncGenerator[WhatsAppRig]:
    """A rig on a fake in its initial state."""
    server = Server()
    await server.start(0)
    async with peer.driver() as driver:
        await driver.clear()
        rig = WhatsAppRig(peer, driver, server)
        await rig.adapter.connect()
        await driver.subscribe(rig.hook, rig.whatsapp.verify_token)
        yield rig
        await rig.adapter.close()
        await server.stop()
        assert await driver.errors() == ()


def _seen(message: Message) -> Seen:
    return Seen(message.id, Place(message.chat), message.text, message.labels)
