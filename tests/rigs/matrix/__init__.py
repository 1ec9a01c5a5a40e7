"""Matrix, as the real Synapse behind a proxy that breaks calls, and the built-in adapter."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from segue.core.address import Address, ChatType, Platform
from segue.store import Store, inbox
from segue.testing.contract.rig import Act
from tests.fakes.matrix import PEER, MatrixDriver, MatrixPeer
from tests.rigs.base import File, Kind, Message, PlatformRig, choices

_ADAPTER = "segue.platforms.matrix.adapter.MatrixAdapter"


@dataclass(frozen=True, slots=True)
class MatrixRig(PlatformRig):
    peer: MatrixPeer
    driver: MatrixDriver

    name: ClassVar[str] = "matrix"
    fake: ClassVar[Any] = PEER
    platform: ClassVar[Platform] = Platform.MATRIX
    adapter: ClassVar[str] = "segue.platforms.matrix.adapter:make"
    keys: ClassVar[bool] = True
    has_menu: ClassVar[bool] = False
    methods: ClassVar[Mapping[Act, str]] = {
        **dict.fromkeys((Act.SEND, Act.EDIT, Act.OPEN_THREAD), "send"),
        Act.CONNECT: "connect",
        Act.TYPING: "typing",
        Act.FETCH: "fetch",
        Act.HISTORY: "history",
    }
    dm: ClassVar[Kind] = Kind("dm", ChatType.DM, threads=True)
    forum: ClassVar[Kind] = Kind("room", ChatType.GROUP, threads=True)
    group: ClassVar[Kind] = forum
    encrypted_dm: ClassVar[Kind] = Kind("encrypted dm", ChatType.DM, threads=True)
    encrypted_room: ClassVar[Kind] = Kind("encrypted room", ChatType.GROUP, threads=True)
    kinds: ClassVar[tuple[Kind, ...]] = (dm, forum, encrypted_dm, encrypted_room)
    constants: ClassVar[Mapping[str, float | str]] = {
        f"{_ADAPTER}.capabilities": "tests.rigs.pace:matrix"
    }

    def settings(self, adapter: str = "") -> str:
        made = [
            "[platforms.matrix]",
            f'url = "{self.driver.proxy.url}"',
            f'token = "{self.driver.bot.account.token}"',
            f'invites_from = "{next(iter(self.driver.users), "@nobody:segue.test")}"',
            'trust = "first-use"',
            f'adapter = "{adapter}"' if adapter else "",
        ]
        return "\n".join(made) + "\n"

    async def user(self, name: str) -> str:
        return await self.driver.user(name)

    async def chat(self, kind: Kind, members: Sequence[str]) -> str:
        encrypted = kind in (self.encrypted_dm, self.encrypted_room)
        direct = kind.chat_type is ChatType.DM
        return await self.driver.chat(members, direct=direct, encrypted=encrypted)

    async def _say(
        self, user: str, chat: str, text: str, thread: str | None, files: Sequence[File]
    ) -> None:
        await self.driver.say(user, chat, text, thread, files)

    def addressed(self, text: str) -> str:
        return f"Segue: {text}"

    async def press(self, user: str, chat: str, message: Message, label: str) -> None:
        """React with the emoji of that choice."""
        emoji = dict(choices(message.text))[label]
        await self.driver.users[user].react(chat, message.id, emoji)

    async def delete_thread(self, chat: str, thread: str) -> None:
        raise NotImplementedError

    def _message(self, it: Any) -> Message:
        labels = tuple(label for label, _ in choices(it.text))
        made = PlatformRig._message(self, it)
        return replace(made, text=html.unescape(it.text), labels=labels)

    async def is_recorded(self, store: Store, chat: str, at: Collection[Address]) -> bool:
        """A sync confirms everything before it, so the store is asked."""
        bot = self.driver.bot.id
        for message in (await self.look(chat)).messages:
            if message.author != bot:
                found = [await inbox.said(store, bot, it, message.id) for it in at]
                if not any(found):
                    return False
        return True
