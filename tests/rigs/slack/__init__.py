"""Slack, as its strict fake, behind the built-in adapter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from segue.core.address import Address, ChatType, Platform
from segue.platforms.slack.adapter import INVITATION
from segue.testing.contract.fake import uploads
from segue.testing.contract.rig import Act
from segue.testing.peers.process import Fake
from tests.fakes import slack
from tests.fakes.slack import BOT, COMMAND, FAKE, Driver, Peer, Shown
from tests.rigs.base import File, Kind, Message, PlatformRig, Thread, View

_ADAPTER = "segue.platforms.slack.adapter.SlackAdapter"
_ASSISTANT = "an assistant thread"
_OPENS = "segue_thread"
"""The type of the metadata of a message that opens a thread. It is one before the first reply."""
_MARKUP = re.compile(r"[*`]")


@dataclass(frozen=True, slots=True)
class SlackRig(PlatformRig):
    peer: Peer
    driver: Driver
    assistants: dict[str, str] = field(default_factory=dict[str, str])
    """The assistant thread of each chat that is one: to the suites, that thread is the chat."""

    name: ClassVar[str] = "slack"
    fake: ClassVar[Fake[Any, Any]] = FAKE
    platform: ClassVar[Platform] = Platform.SLACK
    adapter: ClassVar[str] = "segue.platforms.slack.adapter:make"
    keys: ClassVar[bool] = True
    has_menu: ClassVar[bool] = False
    methods: ClassVar[Mapping[Act, str]] = {
        Act.CONNECT: "auth.test",
        Act.SEND: "reply",
        Act.EDIT: "chat.update",
        Act.OPEN_THREAD: "chat.postMessage",
        Act.TYPING: "assistant.threads.setStatus",
        Act.FETCH: "download",
        Act.HISTORY: "conversations.history",
    }
    dm: ClassVar[Kind] = Kind(slack.Kind.IM, ChatType.DM, threads=True, drafts=True)
    forum: ClassVar[Kind] = Kind(slack.Kind.CHANNEL, ChatType.CHANNEL, threads=True)
    group: ClassVar[Kind] = Kind(slack.Kind.GROUP, ChatType.CHANNEL, threads=True)
    kinds: ClassVar[tuple[Kind, ...]] = (
        dm,
        forum,
        group,
        Kind(_ASSISTANT, ChatType.DM, threads=True, drafts=True),
    )
    constants: ClassVar[Mapping[str, float | str]] = {
        f"{_ADAPTER}.capabilities": "tests.rigs.pace:slack"
    }

    def settings(self, adapter: str = "") -> str:
        made = PlatformRig.settings(self, adapter)
        return f'{made}app_token = "{self.peer.app_token}"\n'

    async def clear(self) -> None:
        """Slack delivers an event again after a minute and after five, and then gives up.

        Tests do not wait so long, and kill a gateway more often.
        """
        await self.driver.clear(slack.Settings(retry_seconds=(0.0,) * 100))

    async def user(self, name: str) -> str:
        return await self.driver.user(name)

    async def chat(self, kind: Kind, members: Sequence[str]) -> str:
        if kind.name != _ASSISTANT:
            return await self.driver.chat(slack.Kind(kind.name), members)
        chat = await self.driver.chat(slack.Kind.IM, members)
        self.assistants[chat] = await self.driver.assist(members[0])
        return chat

    def address(self, kind: Kind, chat: str) -> Address:
        at = PlatformRig.address(self, kind, chat)
        return replace(at, thread_id=self.assistants.get(chat))

    async def _say(
        self, user: str, chat: str, text: str, thread: str | None, files: Sequence[File]
    ) -> None:
        """Outside of threads, Slack takes what begins with a slash for a command."""
        thread = thread or self.assistants.get(chat)
        if thread is None and text.startswith("/"):
            await self.driver.command(user, chat, COMMAND, text[1:])
            return
        await self.driver.say(user, chat, text, thread=thread, files=uploads(files))

    def addressed(self, text: str) -> str:
        return text if text.startswith("/") else f"<@{BOT.id}> {text}"

    async def press(self, user: str, chat: str, message: Message, label: str) -> None:
        await self.driver.press(user, chat, message.id, label)

    async def delete_thread(self, chat: str, thread: str) -> None:
        await self.driver.delete_thread(chat, thread)

    def _view(self, shown: Shown) -> View:
        chats = self.assistants.items()
        titles = {(it.chat, it.id): it.title for it in shown.threads} | {
            (it.chat, it.id): it.text
            for it in shown.messages
            if it.metadata.get("event_type") == _OPENS
        }
        return View(
            version=shown.version,
            messages=tuple(
                Message(
                    id=m.id,
                    author=m.author,
                    text=_MARKUP.sub("", m.text),
                    thread=None if (m.chat, m.thread) in chats else m.thread,
                    labels=m.labels,
                    file=m.file.name if m.file else None,
                )
                for m in shown.messages
                # The message that opens a thread is its title. The next mentions the owner.
                if m.author != BOT.id or (m.chat, m.id) not in titles
                if m.metadata.get("event_type") != INVITATION and not m.streaming
            ),
            threads=tuple(
                Thread(at[1], _MARKUP.sub("", title))
                for at, title in sorted(titles.items())
                if at not in chats
            ),
            menu={},
            calls=shown.calls,
            faults=shown.errors,
            hanging=shown.hanging,
            unconfirmed=shown.unconfirmed,
        )
