"""The rig with which the contract suite tests the adapter."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Literal, cast

import msgspec

from examples.smallchat.adapter import SmallChatAdapter
from examples.smallchat.server import TOKEN, Server
from examples.smallchat.wire import Update
from segue.core.address import Platform
from segue.platforms.base import Adapter
from segue.testing.contract.malformed import Specimen
from segue.testing.contract.rig import Act, Feature, File, Place, RemoteRig, Seen
from segue.testing.peers import Trouble

METHODS = {Act.SEND: "post", Act.OPEN_THREAD: "open"}
UPDATE = Update(
    id=1, chat="dm-1", kind="dm", thread=None, user="anna", name="Anna", bot=False, message="2",
    text="hello",
)  # fmt: skip


class SmallChatRig(RemoteRig):
    anna = "anna"
    lacks = frozenset(
        {
            Feature.DELETIONS,
            *(Feature.EDITS, Feature.FILES, Feature.JOINS, Feature.FORWARDS, Feature.REPLIES),
            *(Feature.HISTORY, Feature.OTHERS, Feature.READERS, Feature.USER_THREADS),
        }
    )
    many = 105
    usual = "group"

    def __init__(self, server: Server, adapter: type[SmallChatAdapter]) -> None:
        self._server = server
        self._make = adapter
        self.adapter = self.another()

    def another(self) -> Adapter:
        return self._adapter()

    def impatient(self) -> Adapter:
        return self._adapter(silence=0.3)

    def denied(self) -> Adapter:
        return self._adapter(token="wrong")  # noqa: S106

    def _adapter(self, token: str = TOKEN, silence: float = 10.0) -> SmallChatAdapter:
        url = f"http://127.0.0.1:{self._server.port}"
        return self._make(Platform.TELEGRAM, url, token, silence=silence)

    async def place(self, shape: str) -> Place:
        return Place(self._server.add_chat(cast("Literal['dm', 'group']", shape)))

    def has_threads(self, shape: str) -> bool:
        return shape == "group"

    # Anna

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        return self._server.write("Anna", at.chat, text, thread=at.thread)

    async def other_bot_says(self, at: Place, text: str) -> None:
        self._server.write("Other", at.chat, text, thread=at.thread, bot=True)

    async def delete_thread(self, at: Place) -> None:
        del self._server.threads[at.thread or ""]

    async def seen(self, text: str) -> Sequence[Seen]:
        return [
            Seen(message.message, Place(message.chat, message.thread), text)
            for message in self._server.messages
            if message.text == text
        ]

    async def threads(self, at: Place) -> int:
        return list(self._server.threads.values()).count(at.chat)

    # The platform

    async def repeat(self) -> None:
        self._server.repeat()

    async def inject(self, updates: Iterable[str]) -> None:
        self._server.deliver(*updates)

    def specimens(self) -> Sequence[Specimen]:
        """All fields are required, except for the thread."""
        update = msgspec.to_builtins(UPDATE)
        return [Specimen(update, [(name,) for name in update if name != "thread"])]

    async def fail(self, act: Act, trouble: Trouble, *, seconds: float) -> None:
        self._server.faults[METHODS[act]] = (trouble, seconds)

    async def calm(self) -> None:
        self._server.calm()

    async def down(self) -> None:
        await self._server.down()

    async def up(self) -> None:
        await self._server.up()


@contextlib.asynccontextmanager
async def plugged_in(
    adapter: type[SmallChatAdapter] = SmallChatAdapter,
) -> AsyncGenerator[SmallChatRig]:
    """A rig on a new server."""
    server = Server()
    await server.up()
    rig = SmallChatRig(server, adapter)
    await rig.adapter.connect()
    yield rig
    await rig.adapter.close()
    await server.down()
