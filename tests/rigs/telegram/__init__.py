"""Telegram, as its strict fake, behind the built-in adapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from segue.core.address import ChatType, Platform
from segue.testing.contract.rig import Act
from segue.testing.peers.process import Fake
from tests.fakes import telegram
from tests.fakes.telegram import FAKE, Driver, FileKind, Peer, Shown, Upload
from tests.rigs.base import File, Kind, Message, PlatformRig

BOT = f"@{telegram.Settings().username}"
_ADAPTER = "segue.platforms.telegram.adapter.TelegramAdapter"
_DM = "a direct message with topics"
_DM_WITHOUT = "a direct message without topics"


@dataclass(frozen=True, slots=True)
class TelegramRig(PlatformRig):
    peer: Peer
    driver: Driver

    name: ClassVar[str] = "telegram"
    fake: ClassVar[Fake[Any, Any]] = FAKE
    platform: ClassVar[Platform] = Platform.TELEGRAM
    adapter: ClassVar[str] = "segue.platforms.telegram.adapter:make"
    keys: ClassVar[bool] = False
    methods: ClassVar[Mapping[Act, str]] = {
        Act.CONNECT: "getMe",
        Act.SEND: "sendMessage",
        Act.EDIT: "editMessageText",
        Act.OPEN_THREAD: "createForumTopic",
        Act.TYPING: "sendChatAction",
        Act.FETCH: "download",
    }
    dm: ClassVar[Kind] = Kind(_DM, ChatType.DM, threads=True, drafts=True)
    forum: ClassVar[Kind] = Kind(telegram.Kind.FORUM, ChatType.GROUP, threads=True)
    group: ClassVar[Kind] = Kind(telegram.Kind.GROUP, ChatType.GROUP)
    kinds: ClassVar[tuple[Kind, ...]] = (
        dm,
        forum,
        Kind(_DM_WITHOUT, ChatType.DM, drafts=True),
        group,
        Kind(telegram.Kind.SUPERGROUP, ChatType.GROUP),
    )
    constants: ClassVar[Mapping[str, float | str]] = {
        f"{_ADAPTER}.capabilities": "tests.rigs.pace:telegram"
    }

    async def user(self, name: str) -> str:
        return str(await self.driver.user(name))

    async def chat(self, kind: Kind, members: Sequence[str]) -> str:
        if kind.chat_type is ChatType.DM:
            return str(await self.driver.private(int(members[0]), topics=kind.threads))
        return str(
            await self.driver.chat(
                telegram.Kind(kind.name), [*map(int, members)], manage_topics=kind.threads
            )
        )

    async def _say(
        self, user: str, chat: str, text: str, thread: str | None, files: Sequence[File]
    ) -> None:
        sent = [
            Upload(name=f.name, media_type=f.media_type, content=f.content, kind=FileKind.PHOTO)
            for f in files
        ]
        topic = None if thread is None else int(thread)
        await self.driver.say(int(user), int(chat), text, thread=topic, files=sent)

    def addressed(self, text: str) -> str:
        if not text.startswith("/"):
            return f"{BOT} {text}"
        command, _, rest = text.partition(" ")
        return f"{command}{BOT} {rest}"

    async def press(self, user: str, chat: str, message: Message, label: str) -> None:
        await self.driver.press(int(user), int(chat), int(message.id), label)

    async def delete_thread(self, chat: str, thread: str) -> None:
        await self.driver.delete_topic(int(chat), int(thread), silently=True)

    def _chat(self, chat: str) -> int:
        return int(chat)

    def _message(self, it: telegram.Message) -> Message:
        # A dataclass with slots has no super().
        return replace(PlatformRig._message(self, it), thread=str(it.thread) if it.topic else None)

    def _menu(self, shown: Shown) -> Mapping[str, str]:
        return {c.command: c.description for c in shown.menu}
