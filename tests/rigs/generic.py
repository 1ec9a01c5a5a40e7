"""The generic test platform. It stands in for Telegram in the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from segue.core.address import ChatType, Platform
from segue.testing.contract.fake import uploads
from segue.testing.contract.rig import Act
from segue.testing.peers.process import Fake
from segue.testing.platform import FAKE, Driver, Peer, Rules, Shape, Shown
from tests.rigs.base import File, Kind, Message, PlatformRig, Thread, View

_HARMLESS = frozenset(
    {
        *("conflict", "not_changed", "no_threads", "no_permission"),
        *("slow_down", "internal", "forbidden", "thread_not_found"),
    }
)
"""Refusals that an adapter must expect: its own second poll, an edit that was already made, a chat
without threads, a thread that a user deleted, and the faults of a test."""
_MARKUP = re.compile(r"[*`]")


@dataclass(frozen=True, slots=True)
class GenericRig(PlatformRig):
    peer: Peer
    driver: Driver

    name: ClassVar[str] = "generic"
    fake: ClassVar[Fake[Any, Any]] = FAKE
    platform: ClassVar[Platform] = Platform.TELEGRAM
    adapter: ClassVar[str] = "segue.testing.platform.adapter:make"
    built_in: ClassVar[bool] = False
    keys: ClassVar[bool] = True
    rules: ClassVar[Rules] = Rules()
    methods: ClassVar[Mapping[Act, str]] = {
        Act.CONNECT: "me",
        Act.SEND: "send",
        Act.EDIT: "edit",
        Act.OPEN_THREAD: "open_thread",
    }
    dm: ClassVar[Kind] = Kind(Shape.DM, ChatType.DM, threads=True)
    forum: ClassVar[Kind] = Kind(Shape.FORUM, ChatType.GROUP, threads=True)
    group: ClassVar[Kind] = Kind(Shape.NO_THREADS, ChatType.GROUP)
    kinds: ClassVar[tuple[Kind, ...]] = (
        dm,
        Kind(Shape.GROUP, ChatType.GROUP, threads=True),
        Kind(Shape.CHANNEL, ChatType.CHANNEL, threads=True),
        forum,
        group,
        Kind(Shape.THREADS_REFUSED, ChatType.GROUP),
    )

    async def clear(self) -> None:
        await self.driver.clear(self.rules)

    async def user(self, name: str) -> str:
        return await self.driver.user(name)

    async def chat(self, kind: Kind, members: Sequence[str]) -> str:
        return await self.driver.chat(Shape(kind.name), members, name="Home")

    async def _say(
        self, user: str, chat: str, text: str, thread: str | None, files: Sequence[File]
    ) -> None:
        await self.driver.say(user, chat, text, thread=thread, files=uploads(files))

    async def press(self, user: str, chat: str, message: Message, label: str) -> None:
        await self.driver.press(user, message.id, label)

    async def delete_thread(self, chat: str, thread: str) -> None:
        await self.driver.delete_thread(thread)

    def _view(self, shown: Shown) -> View:
        threads = {thread.id for thread in shown.threads}
        return View(
            version=shown.version,
            messages=tuple(
                Message(
                    id=m.id,
                    author=m.author,
                    text=_MARKUP.sub("", m.text),
                    thread=m.thread,
                    labels=tuple(button.label for button in m.buttons),
                    file=m.file.name if m.file else None,
                )
                for m in shown.messages
                if m.id not in threads  # the platform posts a title as the first message
            ),
            threads=tuple(Thread(thread.id, thread.title) for thread in shown.threads),
            menu={entry.name: entry.help for entry in shown.menu},
            calls=shown.calls,
            faults=tuple(code for code in shown.refused if code not in _HARMLESS),
            hanging=shown.hanging,
            unconfirmed=shown.unconfirmed,
        )


class KeylessRig(GenericRig):
    """The generic platform without idempotency keys."""

    name: ClassVar[str] = "generic without keys"
    keys: ClassVar[bool] = False
    rules: ClassVar[Rules] = Rules(keys=False)


class ShortRig(GenericRig):
    """The generic platform with messages so short that most are sent in several."""

    name: ClassVar[str] = "generic in pieces"
    rules: ClassVar[Rules] = Rules(length=48)
