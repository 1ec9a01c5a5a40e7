"""Signal, as a strict fake of signal-cli's daemon, behind the built-in adapter."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from segue.core.address import Address, ChatType, Platform
from segue.core.errors import IdentityTaken
from segue.store import Store, inbox
from segue.testing.contract.fake import uploads
from segue.testing.contract.rig import Act
from segue.testing.peers.process import Fake
from tests.fakes import signal
from tests.fakes.signal import FAKE, ME, NUMBER, Driver, Peer, Settings
from tests.rigs.base import File, Kind, Message, PlatformRig, choices

_ADAPTER = "segue.platforms.signal.adapter.SignalAdapter"


@dataclass(frozen=True, slots=True)
class SignalRig(PlatformRig):
    peer: Peer
    driver: Driver
    owner: dict[str, str] = field(default_factory=dict[str, str])
    """The user who writes in Note to Self, where Signal knows only the account."""

    name: ClassVar[str] = "signal"
    fake: ClassVar[Fake[Any, Any]] = FAKE
    platform: ClassVar[Platform] = Platform.SIGNAL
    adapter: ClassVar[str] = "segue.platforms.signal.adapter:make"
    keys: ClassVar[bool] = False
    has_menu: ClassVar[bool] = False
    edits_later: ClassVar[bool] = False
    methods: ClassVar[Mapping[Act, str]] = {
        Act.CONNECT: "listAccounts",
        Act.SEND: "send",
        Act.EDIT: "edit",
        Act.TYPING: "sendTyping",
        Act.FETCH: "getAttachment",
    }
    dm: ClassVar[Kind] = Kind(signal.Kind.DM, ChatType.DM)
    group: ClassVar[Kind] = Kind(signal.Kind.GROUP, ChatType.GROUP)
    forum: ClassVar[Kind] = group
    note: ClassVar[Kind] = Kind(signal.Kind.SELF, ChatType.DM)
    kinds: ClassVar[tuple[Kind, ...]] = (dm, group, note)
    constants: ClassVar[Mapping[str, float | str]] = {
        f"{_ADAPTER}.capabilities": "tests.rigs.pace:signal"
    }

    def settings(self, adapter: str = "") -> str:
        """In groups the agent answers every message, so that tests need not address it."""
        lines = PlatformRig.settings(self, adapter).replace("token", "account")
        return f'{lines}groups = "all"\n'

    async def user(self, name: str) -> str:
        return await self.driver.user(name)

    async def chat(self, kind: Kind, members: Sequence[str]) -> str:
        if kind is self.note:
            self.owner[ME.id] = members[0]
        return await self.driver.chat(signal.Kind(kind.name), members, name="Home")

    async def pair(self, store: Store, user: str) -> None:
        """In Note to Self, the user is the account."""
        await PlatformRig.pair(self, store, user)
        with contextlib.suppress(IdentityTaken):
            await PlatformRig.pair(self, store, ME.id)

    async def _say(
        self, user: str, chat: str, text: str, thread: str | None, files: Sequence[File]
    ) -> None:
        await self.driver.say(ME.id if chat == ME.id else user, chat, text, files=uploads(files))

    def addressed(self, text: str) -> str:
        return f"@segue {text}"

    async def press(self, user: str, chat: str, message: Message, label: str) -> None:
        """React with the emoji of that choice, in the message as it was shown."""
        emoji = dict(choices(message.text))[label]
        await self.driver.react(ME.id if chat == ME.id else user, chat, message.id, emoji)

    async def delete_thread(self, chat: str, thread: str) -> None:
        raise NotImplementedError

    async def is_recorded(self, store: Store, chat: str, at: Collection[Address]) -> bool:
        """A client confirms nothing to signal-cli, so the store is asked."""
        for message in (await self.driver.look(chat)).messages:
            found = [await inbox.said(store, NUMBER, it, message.id) for it in at]
            if not message.bot and not any(found):
                return False
        return True

    def _message(self, it: signal.Message) -> Message:
        author = it.author if it.bot else self.owner.get(it.author, it.author)
        shown = PlatformRig._message(self, it)
        return replace(shown, author=author, labels=tuple(label for label, _ in choices(it.text)))


class SignalChatsRig(SignalRig):
    """Signal for kill rounds. Each session needs a chat, and there is only one Note to Self."""

    kinds: ClassVar[tuple[Kind, ...]] = (SignalRig.dm, SignalRig.group)

    async def clear(self) -> None:
        """signal-cli hands an event over once. What a gateway has in hand when it is killed would
        be lost, so the fake repeats events."""
        await self.driver.clear(Settings(repeats=True))
