"""The contract suite's rig for Matrix, on the real Synapse behind a proxy that breaks calls."""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import secrets
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from segue.core.address import Platform
from segue.core.secret import Secret
from segue.platforms import registry
from segue.platforms.base import Adapter
from segue.platforms.spec import PlatformSettings
from segue.testing.contract.malformed import Specimen
from segue.testing.contract.rig import Act, Feature, File, Place, RemoteRig, Seen
from segue.testing.peers import Trouble
from segue.testing.synapse import Account, Server
from tests.harness.matrix import MatrixUser, Proxy, make_room, user
from tests.platforms.matrix.specimens import SPECIMENS


class Shape(StrEnum):
    DM = "dm"
    ROOM = "room"
    ENCRYPTED_DM = "encrypted dm"
    ENCRYPTED_ROOM = "encrypted room"


CALLS: Mapping[Act, str] = {
    Act.SEND: r"PUT .*/send/",
    Act.EDIT: r"PUT .*/send/",
    Act.TYPING: r"PUT .*/typing/",
    Act.OPEN_THREAD: r"PUT .*/send/",
    Act.FETCH: r"GET .*/media/download/",
}


class MatrixRig(RemoteRig):
    """Anna on Matrix."""

    lacks = frozenset(
        {
            Feature.FORWARDS,
            Feature.THREAD_DELETION,
            Feature.EDIT_CHECKS,
            Feature.RAW_UPDATES,
        }
    )
    usual = Shape.DM
    many = 60  # a sync has 50 of a room

    def __init__(self, server: Server, proxy: Proxy, bot: Account, user: MatrixUser, folder: Path):
        self.server, self.proxy, self.bot, self.user = server, proxy, bot, user
        self._folder = folder
        self.anna = user.id
        self.rooms: list[str] = []
        self.adapter = self.another()

    def another(self, token: str = "", trust: str = "first-use", **more: Any) -> Adapter:
        values = {
            "url": self.proxy.url,
            "token": Secret(token or self.bot.token, "test"),
            "invites_from": self.anna,
            "trust": trust,
        }
        spec = registry.SPECS[Platform.MATRIX]
        make: Any = registry.load(spec, spec.make)
        settings = PlatformSettings(platform=Platform.MATRIX, values=values, folder=self._folder)
        return make(settings, **more)

    def impatient(self) -> Adapter:
        return self.another(silence=0.8)

    def denied(self) -> Adapter:
        return self.another("syt_unknown_token")

    def has_threads(self, shape: str) -> bool:
        return True

    async def place(self, shape: str) -> Place:
        """The bot creates the room, so that it need not be invited."""
        direct = shape in (Shape.DM, Shape.ENCRYPTED_DM)
        encrypted = shape in (Shape.ENCRYPTED_DM, Shape.ENCRYPTED_ROOM)
        room = await make_room(self.bot, self.server, self.user, direct=direct, encrypted=encrypted)
        self.rooms.append(room)
        return Place(room)

    # Anna

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        more: dict[str, Any] = {}
        for file in files:
            more = await self.user.upload(at.chat, file.name, file.media_type, file.content)
        return await self.user.say(at.chat, text, at.thread, **more)

    async def reply(self, at: Place, message: str, text: str) -> str:
        relation = {"m.in_reply_to": {"event_id": message}}
        if at.thread is not None:
            relation |= {"rel_type": "m.thread", "event_id": at.thread}
        content = {"msgtype": "m.text", "body": text, "m.relates_to": relation}
        return await self.user.send(at.chat, content)

    async def edit(self, message: str, text: str) -> None:
        await self.user.edit(message, text)

    async def press(self, message: str, label: str) -> None:
        for room in self.rooms:
            for shown in await self.user.look(room):
                if shown.id == message and label in shown.labels:
                    await self.user.react(room, message, label)

    async def join(self, at: Place) -> None:
        """The bot leaves, and is invited again."""
        room, bot = quote(at.chat), MatrixUser(self.server.url, self.bot)
        await bot.call("POST", f"/rooms/{room}/leave", {})
        await bot.close()
        await self.user.call("POST", f"/rooms/{room}/invite", {"user_id": self.bot.user_id})

    async def other_bot_says(self, at: Place, text: str) -> None:
        await self.user.say(at.chat, text, at.thread, msgtype="m.notice")

    # Reading

    async def seen(self, text: str) -> Sequence[Seen]:
        shown = [(room, it) for room in self.rooms for it in await self.user.look(room)]
        texts = (text, html.unescape(text))
        return [
            Seen(it.id, Place(room, it.thread), it.text, it.labels)
            for room, it in shown
            if it.text in texts
        ]

    async def typing(self, at: Place) -> int:
        answer = await self.user.call("GET", "/sync?timeout=0")
        events = answer["rooms"]["join"][at.chat]["ephemeral"]["events"]
        typing = [it["content"]["user_ids"] for it in events if it["type"] == "m.typing"]
        return sum(self.bot.user_id in users for users in typing)

    async def threads(self, at: Place) -> int:
        """The bot's messages outside of threads: each opens one."""
        shown = await self.user.look(at.chat)
        return sum(it.author == self.bot.user_id and it.thread is None for it in shown)

    # The platform

    async def fail(self, act: Act, trouble: Trouble, *, seconds: float) -> None:
        self.proxy.fail(CALLS[act], trouble, seconds=seconds)

    async def calm(self) -> None:
        await self.proxy.calm()

    async def down(self) -> None:
        await self.proxy.down()

    async def up(self) -> None:
        await self.proxy.up()

    async def repeat(self) -> None:
        assert self.proxy.last is not None
        room, event = self.proxy.last
        self.proxy.inject(room, [event])

    async def inject(self, updates: Iterable[str]) -> None:
        self.proxy.inject(self.rooms[-1], [json.loads(update) for update in updates])

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS


@contextlib.asynccontextmanager
async def plugged_in(server: Server, folder: Path) -> AsyncGenerator[MatrixRig]:
    """A rig with a new bot and a new Anna."""
    proxy = Proxy(server)
    await proxy.up()
    async with user(server, "Anna") as anna:
        name = f"bot-{secrets.token_hex(4)}"
        bot = await asyncio.to_thread(server.register, name, display_name="Segue")
        rig = MatrixRig(server, proxy, bot, anna, folder)
        await anna.sync()  # publishes her keys
        await rig.adapter.connect()
        yield rig
        await rig.adapter.close()
    await proxy.close()
