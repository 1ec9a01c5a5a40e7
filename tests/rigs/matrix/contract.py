"""The contract suite's rig for Matrix, on the real Synapse."""

from __future__ import annotations

import html
from collections.abc import Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from segue.core.address import Platform
from segue.core.secret import Secret
from segue.platforms.base import Adapter
from segue.platforms.matrix.adapter import MatrixAdapter, make
from segue.platforms.spec import PlatformSettings
from segue.testing.contract.fake import FakeRig
from segue.testing.contract.malformed import Specimen
from segue.testing.contract.rig import CHATTER, Feature, File, Place, Seen
from tests.fakes.matrix import MatrixDriver, MatrixUser
from tests.rigs.matrix import MatrixRig
from tests.rigs.matrix.specimens import ANNA, ID, SPECIMENS


class Shape(StrEnum):
    DM = "dm"
    ROOM = "room"
    ENCRYPTED_DM = "encrypted dm"
    ENCRYPTED_ROOM = "encrypted room"


class AnnaOnMatrix(FakeRig):
    """Anna on Matrix."""

    driver: MatrixDriver
    author = ANNA
    serial = ID
    adapter: MatrixAdapter
    methods = MatrixRig.methods
    lacks = frozenset(
        {Feature.FORWARDS, Feature.THREAD_DELETION, Feature.EDIT_CHECKS, Feature.RAW_UPDATES}
    )
    lookup = "state"
    usual = Shape.DM
    many = 60  # a sync has 50 of a room

    def another(self, token: str = "", trust: str = "first-use", **more: Any) -> MatrixAdapter:
        values = {
            "url": self.driver.proxy.url,
            "token": Secret(token or self.driver.bot.account.token, "test"),
            "invites_from": self.anna,
            "trust": trust,
        }
        folder = self.driver.folder
        return make(
            PlatformSettings(platform=Platform.MATRIX, values=values, folder=folder), **more
        )

    def impatient(self) -> Adapter:
        return self.another(silence=0.8)

    def denied(self) -> Adapter:
        return self.another("syt_unknown_token")

    def has_threads(self, shape: str) -> bool:
        return True

    @property
    def user(self) -> MatrixUser:
        return self.driver.users[self.anna]

    async def place(self, shape: str) -> Place:
        """The bot creates the room, so that it need not be invited."""
        encrypted = shape in (Shape.ENCRYPTED_DM, Shape.ENCRYPTED_ROOM)
        direct = shape in (Shape.DM, Shape.ENCRYPTED_DM)
        return Place(await self.driver.chat([self.anna], direct=direct, encrypted=encrypted))

    # Anna

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        return await self.driver.say(self.anna, at.chat, text, at.thread, files)

    async def reply(self, at: Place, message: str, text: str) -> str:
        relation = {"m.in_reply_to": {"event_id": message}}
        if at.thread is not None:
            relation |= {"rel_type": "m.thread", "event_id": at.thread}
        content = {"msgtype": "m.text", "body": text, "m.relates_to": relation}
        return await self.user.send(at.chat, content)

    async def edit(self, message: str, text: str) -> None:
        await self.user.edit(message, text)

    async def delete(self, message: str) -> None:
        await self.user.redact(message)

    async def join(self, at: Place) -> None:
        """The bot leaves, and is invited again."""
        bot = self.driver.bot
        room = quote(at.chat)
        await bot.call("POST", f"/rooms/{room}/leave", {})
        await self.user.call("POST", f"/rooms/{room}/invite", {"user_id": bot.id})

    async def begin_thread(self, at: Place, message: str) -> Place:
        return Place(at.chat, message)

    async def others(self, at: Place, count: int) -> None:
        bob = self.driver.users[await self.driver.user("Bob")]
        await self.user.call("POST", f"/rooms/{quote(at.chat)}/invite", {"user_id": bob.id})
        await bob.call("POST", f"/join/{quote(at.chat)}", {})
        for _ in range(count):
            await bob.say(at.chat, CHATTER, at.thread)

    async def inhabit(self, at: Place, *, with_anna: bool) -> None:
        if with_anna:
            await self.others(at, 0)
        else:
            await self.user.call("POST", f"/rooms/{quote(at.chat)}/leave", {})

    async def other_bot_says(self, at: Place, text: str) -> None:
        await self.user.say(at.chat, text, at.thread, msgtype="m.notice")

    # Reading

    async def seen(self, text: str) -> Sequence[Seen]:
        shown = [it for room in self.driver.rooms for it in await self.user.look(room)]
        texts = (text, html.unescape(text))
        return [Seen(it.id, Place(it.chat, it.thread), it.text) for it in shown if it.text in texts]

    async def typing(self, at: Place) -> int:
        users = [it["user_ids"] for it in await self.ephemeral(at.chat, "m.typing")]
        return sum(self.driver.bot.id in it for it in users)

    async def ephemeral(self, room: str, kind: str) -> list[dict[str, Any]]:
        """What a client shows beside the messages of a room."""
        answer = await self.user.call("GET", "/sync?timeout=0")
        events = answer["rooms"]["join"][room]["ephemeral"]["events"]
        return [it["content"] for it in events if it["type"] == kind]

    async def threads(self, at: Place) -> int:
        return len((await self.driver.look(at.chat)).threads)

    def specimens(self) -> Sequence[Specimen]:
        return SPECIMENS
