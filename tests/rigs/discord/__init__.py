"""Discord, as its strict fake, behind the built-in adapter."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from segue.core.address import Address, ChatType, Platform
from segue.platforms import registry
from segue.store import Store, inbox
from segue.testing.contract.fake import uploads
from segue.testing.contract.rig import Act
from segue.testing.peers.process import Fake
from tests.fakes import discord
from tests.fakes.discord import BOT, FAKE, USUAL, Driver, Flag, Peer, Permission, Shown, state
from tests.rigs.base import File, Kind, Message, PlatformRig

_ADAPTER = "segue.platforms.discord.adapter.DiscordAdapter"
_CHANNEL = ChatType.CHANNEL
"""The type of every chat in a guild."""
_REFUSED = "a channel where threads are refused"
_KINDS = {"a text channel": discord.Kind.TEXT, "a forum channel": discord.Kind.FORUM}
_MARKUP = re.compile(r"\\([^\w\s])|[*`]")


@dataclass(frozen=True, slots=True)
class DiscordRig(PlatformRig):
    """`forum` is a text channel: users can write both in it and in its threads.

    `posts` is what Discord calls a forum. It is not one of the `kinds`, because there are only
    threads in it.
    """

    peer: Peer
    driver: Driver

    name: ClassVar[str] = "discord"
    fake: ClassVar[Fake[Any, Any]] = FAKE
    platform: ClassVar[Platform] = Platform.DISCORD
    adapter: ClassVar[str] = registry.SPECS[Platform.DISCORD].make
    keys: ClassVar[bool] = True
    methods: ClassVar[Mapping[Act, str]] = {
        Act.CONNECT: "get_current_user",
        Act.SEND: "create_message",
        Act.EDIT: "edit_message",
        Act.OPEN_THREAD: "start_thread_from_message",
        Act.TYPING: "trigger_typing",
        Act.FETCH: "download",
        Act.HISTORY: "get_channel_messages",
    }
    dm: ClassVar[Kind] = Kind("a direct message", ChatType.DM)
    forum: ClassVar[Kind] = Kind("a text channel", _CHANNEL, threads=True)
    group: ClassVar[Kind] = Kind(_REFUSED, _CHANNEL)
    posts: ClassVar[Kind] = Kind("a forum channel", _CHANNEL, threads=True)
    kinds: ClassVar[tuple[Kind, ...]] = (dm, forum, group)
    constants: ClassVar[Mapping[str, float | str]] = {
        f"{_ADAPTER}.capabilities": "tests.rigs.pace:discord"
    }

    async def user(self, name: str) -> str:
        return str(await self.driver.user(name))

    async def chat(self, kind: Kind, members: Sequence[str]) -> str:
        if kind.chat_type is ChatType.DM:
            return str(await self.driver.dm(int(members[0])))
        place = _KINDS.get(kind.name, discord.Kind.TEXT)
        chat = await self.driver.chat(place, [*map(int, members)])
        if not kind.threads:
            await self.driver.permit(chat, USUAL & ~Permission.CREATE_PUBLIC_THREADS)
        return str(chat)

    async def _say(
        self, user: str, chat: str, text: str, thread: str | None, files: Sequence[File]
    ) -> None:
        await self.driver.say(int(user), int(thread or chat), text, files=uploads(files))

    def addressed(self, text: str) -> str:
        return f"<@{BOT}> {text}"

    async def press(self, user: str, chat: str, message: Message, label: str) -> None:
        await self.driver.press(int(user), int(message.thread or chat), int(message.id), label)

    async def delete_thread(self, chat: str, thread: str) -> None:
        await self.driver.delete_channel(int(thread))

    async def is_recorded(self, store: Store, chat: str, at: Collection[Address]) -> bool:
        """A bot confirms nothing to Discord, so the store is asked."""
        for message in (await self.look(chat)).messages:
            found = [await inbox.said(store, str(BOT), it, message.id) for it in at]
            if message.author != str(BOT) and not any(found):
                return False
        return True

    def _chat(self, chat: str) -> int:
        return int(chat)

    def _messages(self, shown: Shown) -> Iterable[state.Message]:
        # A thread is opened from a message, and a post with one: that is its title.
        return (
            it for it in shown.messages if not it.flags & Flag.HAS_THREAD and it.id != it.thread
        )

    def _message(self, it: state.Message) -> Message:
        # A dataclass with slots has no super().
        return replace(PlatformRig._message(self, it), text=_MARKUP.sub(r"\1", it.text))

    def _menu(self, shown: Shown) -> Mapping[str, str]:
        return shown.commands
