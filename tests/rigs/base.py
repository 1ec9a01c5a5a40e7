"""The interface between the suites and a platform. All ids are strings."""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from segue.core.address import Address, ChatType, HomeChannel, Platform, Sender
from segue.core.session import ME
from segue.store import Store, owners
from segue.testing.contract.rig import Act
from segue.testing.contract.rig import File as File
from segue.testing.peers import Peer, Trouble
from segue.testing.peers.process import Fake

WITHIN = 40.0
_CHOICES = re.compile(r"^React: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of chat."""

    name: str
    chat_type: ChatType
    threads: bool = False
    """Whether a handoff opens a thread in it."""
    drafts: bool = False
    """Whether an answer grows in a draft, and not in a message."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as users see it, without its markup."""

    id: str
    author: str
    text: str
    thread: str | None = None
    labels: tuple[str, ...] = ()
    """The labels of its buttons."""
    file: str | None = None
    """The name of its file."""


@dataclass(frozen=True, slots=True)
class Thread:
    id: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A chat as its users see it, or all chats."""

    version: int
    messages: tuple[Message, ...]
    threads: tuple[Thread, ...]
    menu: Mapping[str, str]
    """The summary of each command."""
    calls: Mapping[str, int]
    """The number of calls of each method of the platform."""
    faults: tuple[str, ...]
    """The calls of the bot that no bot should make."""
    hanging: int
    """The number of calls that hang now."""
    unconfirmed: int
    """The number of updates that the gateway has not confirmed."""


@dataclass(frozen=True, slots=True)
class PlatformRig(ABC):
    """A fake of a platform, with its users.

    `peer` and `driver` are those of the fake, for what only this platform has.
    """

    peer: Any
    driver: Any

    name: ClassVar[str]
    fake: ClassVar[Fake[Any, Any]]
    platform: ClassVar[Platform]
    adapter: ClassVar[str]
    built_in: ClassVar[bool] = True
    """Whether the gateway finds the adapter by the platform's name."""
    keys: ClassVar[bool]
    """Whether the platform takes idempotency keys."""
    has_menu: ClassVar[bool] = True
    """Whether the bot can set the command menu."""
    edits: ClassVar[bool] = True
    """Whether the bot can edit its messages."""
    albums: ClassVar[bool] = True
    """Whether several photos of a user are one message."""
    methods: ClassVar[Mapping[Act, str]]
    """The platform's method for each operation that a test breaks."""
    kinds: ClassVar[tuple[Kind, ...]]
    """All kinds of chats in which the bot can talk."""
    dm: ClassVar[Kind]
    """A direct message, with threads where the platform has them there."""
    forum: ClassVar[Kind]
    """A group with threads, if the platform has any."""
    group: ClassVar[Kind]
    """A group, without threads if the platform has such groups."""
    edits_later: ClassVar[bool] = True
    """Whether a gateway can edit what an earlier one sent."""
    constants: ClassVar[Mapping[str, float | str]] = {}
    """Constants of the program that make this platform fast enough for tests."""

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, peer: Peer | None = None) -> AsyncGenerator[Self]:
        """A rig on that fake, or on a new one in this process."""
        async with contextlib.AsyncExitStack() as stack:
            fake: Any = peer or await stack.enter_async_context(cls.fake.serving())
            driver = await stack.enter_async_context(fake.driver())
            rig = cls(fake, driver)
            await rig.clear()
            yield rig

    def settings(self, adapter: str = "") -> str:
        """The settings, in TOML, with which a gateway serves this platform.

        `adapter` replaces the platform's own.
        """
        lines = [
            f"[platforms.{self.platform}]",
            f'url = "{self.peer.url}"',
            f'token = "{self.peer.token}"',
        ]
        if adapter or not self.built_in:
            lines.append(f'adapter = "{adapter or self.adapter}"')
        return "\n".join(lines) + "\n"

    @property
    def threaded(self) -> tuple[Kind, ...]:
        """The kinds with threads; all kinds of a platform without threads."""
        return tuple(kind for kind in self.kinds if kind.threads) or self.kinds

    # Users

    async def user(self, name: str) -> str:
        return str(await self.driver.user(name))

    @abstractmethod
    async def chat(self, kind: Kind, members: Sequence[str]) -> str:
        """Create a chat of these users and the bot."""

    async def say(
        self,
        user: str,
        chat: str,
        text: str,
        *,
        thread: str | None = None,
        files: Sequence[File] = (),
    ) -> None:
        await self._say(user, chat, text, thread, files)

    @abstractmethod
    async def _say(
        self, user: str, chat: str, text: str, thread: str | None, files: Sequence[File]
    ) -> None: ...

    def addressed(self, text: str) -> str:
        """A message in a group, or a command, as users address it to the bot."""
        return text

    @abstractmethod
    async def press(self, user: str, chat: str, message: Message, label: str) -> None: ...

    async def delete_thread(self, chat: str, thread: str) -> None:
        """A user deletes a thread."""
        raise NotImplementedError

    def address(self, kind: Kind, chat: str) -> Address:
        return Address(platform=self.platform, chat_type=kind.chat_type, chat_id=chat)

    async def pair(self, store: Store, user: str) -> None:
        """Make the user the owner's account, without a code."""
        await owners.link(store, Sender(platform=self.platform, user_id=user), ME)

    async def set_home(self, store: Store, kind: Kind, chat: str) -> None:
        home = HomeChannel(address=self.address(kind, chat), name="Home")
        await owners.set_home(store, ME, home)

    # The fake

    def _view(self, shown: Any) -> View:
        return View(
            version=shown.version,
            messages=tuple(self._message(it) for it in self._messages(shown)),
            threads=tuple(Thread(str(it.id), it.title) for it in shown.threads),
            menu=self._menu(shown),
            calls=shown.calls,
            faults=shown.errors,
            hanging=shown.hanging,
            unconfirmed=shown.unconfirmed,
        )

    def _messages(self, shown: Any) -> Iterable[Any]:
        """The messages that are not the platform's own."""
        return shown.messages

    def _message(self, it: Any) -> Message:
        return Message(
            id=str(it.id),
            author=str(it.author),
            text=it.text,
            thread=str(it.thread) if it.thread else None,
            labels=it.labels,
            file=it.file.name if it.file else None,
        )

    def _menu(self, shown: Any) -> Mapping[str, str]:
        return {}

    def _chat(self, chat: str) -> Any:
        """The platform's own id of a chat."""
        return chat

    async def look(self, chat: str | None = None) -> View:
        return self._view(await self.driver.look(None if chat is None else self._chat(chat)))

    async def until(
        self, condition: Callable[[View], bool], chat: str | None = None, within: float = WITHIN
    ) -> View:
        """Wait until the condition holds, and return what is there then."""
        shown = await self.driver.until(
            lambda shown: condition(self._view(shown)),
            chat=None if chat is None else self._chat(chat),
            within=within,
        )
        return self._view(shown)

    async def confirmed(self) -> None:
        """Wait until the gateway has confirmed every update."""
        await self.until(lambda view: view.unconfirmed == 0)

    async def is_recorded(self, store: Store, chat: str, at: Collection[Address]) -> bool:
        """Return whether the gateway has recorded what users wrote in that chat.

        `at` has all addresses in it at which they did.
        """
        return (await self.look(chat)).unconfirmed == 0

    async def fail(
        self,
        act: Act,
        trouble: Trouble,
        *,
        chat: str | None = None,
        times: int = 1,
        seconds: float = 0.05,
    ) -> None:
        """Break the next calls of that kind."""
        where = None if chat is None else self._chat(chat)
        await self.driver.fail(self.methods[act], trouble, chat=where, times=times, seconds=seconds)

    async def calm(self) -> None:
        """Remove all faults."""
        await self.driver.calm()

    async def down(self) -> None:
        """Make the platform unreachable for the bot, until `up`."""
        await self.driver.down()

    async def up(self) -> None:
        await self.driver.up()

    async def clear(self) -> None:
        """Reset the platform to its initial state."""
        await self.driver.clear()


def choices(text: str) -> list[tuple[str, str]]:
    """The choices that a message offers for reactions, each with its emoji."""
    offered = _CHOICES.search(text)
    parts = offered[1].split(" · ") if offered else []
    return [(label, emoji) for emoji, _, label in (part.partition(" ") for part in parts)]
