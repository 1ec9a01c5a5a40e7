"""Matrix, as the real Synapse behind a proxy that breaks calls, and the built-in adapter."""

from __future__ import annotations

import asyncio
import contextlib
import html
import secrets
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from segue.core.address import Address, ChatType, Platform
from segue.store import Store
from segue.testing.peers import Trouble
from segue.testing.synapse import Account, Server
from tests.harness.matrix import MatrixUser, Proxy, Shown, make_room
from tests.harness.matrix import user as new_user
from tests.harness.rigs.base import WITHIN, Call, File, Kind, Message, PlatformRig, Thread, View

_ADAPTER = "segue.platforms.matrix.adapter.MatrixAdapter"
_LOOK = 0.05
_OPENS = "segue.thread"
"""In the content of a message that opens a thread."""


@dataclass(slots=True)
class MatrixWorld:
    """The bot, its users and their rooms."""

    proxy: Proxy
    bot: Account
    stack: contextlib.AsyncExitStack
    users: dict[str, MatrixUser] = field(default_factory=dict[str, MatrixUser])
    rooms: dict[str, MatrixUser] = field(default_factory=dict[str, MatrixUser])
    """A user who is in each room."""
    seen: dict[str, tuple[int, list[Shown]]] = field(
        default_factory=dict[str, tuple[int, list[Shown]]]
    )
    """What was last seen in each room, and after how many calls."""


@dataclass(frozen=True, slots=True)
class MatrixRig(PlatformRig):
    peer: Server
    driver: MatrixWorld

    name: ClassVar[str] = "matrix"
    fake: ClassVar[Any] = None
    server: ClassVar[Server]
    """The server of this process, for tests that name none."""
    platform: ClassVar[Platform] = Platform.MATRIX
    adapter: ClassVar[str] = "segue.platforms.matrix.adapter:make"
    keys: ClassVar[bool] = True
    has_menu: ClassVar[bool] = False
    calls: ClassVar[Mapping[Call, str]] = {
        Call.CONNECT: "GET .*/account/whoami",
        Call.SEND: "PUT .*/send/",
        Call.EDIT: "PUT .*/send/",
        Call.OPEN_THREAD: "PUT .*/send/",
    }
    dm: ClassVar[Kind] = Kind("dm", ChatType.DM, threads=True)
    forum: ClassVar[Kind] = Kind("room", ChatType.GROUP, threads=True)
    group: ClassVar[Kind] = forum
    encrypted_dm: ClassVar[Kind] = Kind("encrypted dm", ChatType.DM, threads=True)
    encrypted_room: ClassVar[Kind] = Kind("encrypted room", ChatType.GROUP, threads=True)
    kinds: ClassVar[tuple[Kind, ...]] = (dm, forum)
    constants: ClassVar[Mapping[str, float | str]] = {
        f"{_ADAPTER}.capabilities": "tests.harness.rigs.pace:matrix"
    }

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, peer: Any = None) -> AsyncGenerator[Self]:
        """A rig with a new bot on that server."""
        async with contextlib.AsyncExitStack() as stack:
            peer = peer or cls.server
            proxy = Proxy(peer)
            await proxy.up()
            stack.push_async_callback(proxy.close)
            name = f"bot-{secrets.token_hex(4)}"
            bot = await asyncio.to_thread(peer.register, name, display_name="Segue")
            yield cls(peer, MatrixWorld(proxy, bot, stack))

    def settings(self, adapter: str = "") -> str:
        made = [
            "[platforms.matrix]",
            f'url = "{self.driver.proxy.url}"',
            f'token = "{self.driver.bot.token}"',
            f'invites_from = "{next(iter(self.driver.users), "@nobody:segue.test")}"',
            'trust = "first-use"',
            f'adapter = "{adapter}"' if adapter else "",
        ]
        return "\n".join(made) + "\n"

    async def user(self, name: str) -> str:
        made = await self.driver.stack.enter_async_context(new_user(self.peer, name))
        await made.sync()  # publishes the user's keys
        self.driver.users[made.id] = made
        return made.id

    async def chat(self, kind: Kind, members: Sequence[str]) -> str:
        guests = [self.driver.users[it] for it in members]
        direct = kind.chat_type is ChatType.DM
        encrypted = kind in (self.encrypted_dm, self.encrypted_room)
        bot = self.driver.bot
        room = await make_room(bot, self.peer, *guests, direct=direct, encrypted=encrypted)
        self.driver.rooms[room] = guests[0]
        return room

    async def say(
        self,
        user: str,
        chat: str,
        text: str,
        *,
        thread: str | None = None,
        files: Sequence[File] = (),
    ) -> None:
        person, more = self.driver.users[user], dict[str, Any]()
        for file in files:
            more = await person.upload(chat, file.name, file.media_type, file.content)
        await person.say(chat, text, thread, **more)
        self.driver.proxy.writes += 1

    def addressed(self, text: str) -> str:
        return f"Segue: {text}"

    async def press(self, user: str, chat: str, message: Message, label: str) -> None:
        await self.driver.users[user].react(chat, message.id, label)
        self.driver.proxy.writes += 1

    async def delete_thread(self, chat: str, thread: str) -> None:
        raise NotImplementedError

    def _view(self, shown: Any) -> View:
        messages: Sequence[Shown] = shown
        proxy = self.driver.proxy
        return View(
            version=proxy.calls.total(),
            messages=tuple(
                Message(it.id, it.author, html.unescape(it.text), it.thread, it.labels, it.file)
                for it in messages
                # The message that opens a thread is its title.
                if not it.content.get(_OPENS)
            ),
            threads=tuple(Thread(it.id, it.text) for it in messages if it.content.get(_OPENS)),
            menu={},
            calls=proxy.calls,
            faults=(),
            hanging=proxy.hanging,
            unconfirmed=0,
        )

    async def look(self, chat: str | None = None) -> View:
        """Ask the server only if something may have changed: the suites look very often."""
        world = self.driver
        if chat is None:
            return self._view([])
        when = world.proxy.writes
        if world.seen.get(chat, (-1, []))[0] != when or chat in world.rooms[chat].encrypted:
            world.seen[chat] = when, await world.rooms[chat].look(chat)
        return self._view(world.seen[chat][1])

    async def until(
        self, condition: Callable[[View], bool], chat: str | None = None, within: float = WITHIN
    ) -> View:
        async with asyncio.timeout(within):
            while not condition(view := await self.look(chat)):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK)
        return view

    async def is_recorded(self, store: Store, chat: str, at: Collection[Address]) -> bool:
        bot = self.driver.bot.user_id
        for message in (await self.look(chat)).messages:
            if message.author != bot:
                found = [await store.inbox.said(bot, it, message.id) for it in at]
                if not any(found):
                    return False
        return True

    async def fail(
        self,
        call: Call,
        trouble: Trouble,
        *,
        chat: str | None = None,
        times: int = 1,
        seconds: float = 0.05,
    ) -> None:
        where = self.calls[call] if chat is None else f"{self.calls[call]}.*"
        self.driver.proxy.fail(where, trouble, seconds=seconds, times=times)

    async def calm(self) -> None:
        await self.driver.proxy.calm()

    async def down(self) -> None:
        await self.driver.proxy.down()

    async def up(self) -> None:
        await self.driver.proxy.up()

    async def clear(self) -> None:
        return
