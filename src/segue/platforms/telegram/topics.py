"""Where messages go: the chat's current id, and an open topic that is still there."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TypedDict

from telegram import Bot, Message

from segue.core.address import Address, ChatType
from segue.platforms import sending
from segue.platforms.base import Unit
from segue.platforms.errors import Refused
from segue.platforms.telegram.client import FAILURES, moved_to

_NAME = 128
# The chat has no topics, or the bot may not open any. Telegram says which when asked; what we knew
# about the chat before may be out of date.
_CANNOT = (
    "not a forum", "forums_disabled", "not enough rights", "chat_admin_required",
    "channel_forum_missing", "supergroup", "topics are not enabled",
)  # fmt: skip


class ChatAndTopic(TypedDict):
    chat_id: int
    message_thread_id: int | None


def where(at: Address) -> ChatAndTopic:
    """The address as parameters of a call. Raise Refused if it is not one of Telegram's."""
    thread = None if at.thread_id is None else number(at.thread_id, "message thread not found")
    return ChatAndTopic(chat_id=number(at.chat_id, "chat not found"), message_thread_id=thread)


def number(text: str, reason: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise Refused(400, reason) from error


class Topics:
    """Follows groups that became supergroups, and keeps topics open.

    A bot that opened a topic, or manages topics, can write to it while it is closed. That neither
    fails nor reopens it, and the bot cannot ask whether a topic is closed. So each topic is
    reopened before the first message that this process sends to it, and after it was closed.
    """

    def __init__(self) -> None:
        self._open: set[Address] = set()
        self.moves = sending.Moves()

    def closed(self, topic: Address) -> None:
        self._open.discard(topic)

    async def deliver(
        self, bot: Bot, to: Address, send: Callable[[ChatAndTopic], Awaitable[Message]]
    ) -> Message:
        """Send to the right topic only."""
        await self._reopen(bot, self.moves.now(to))
        sent = await self.moves.follow(to, lambda at: send(where(at)), moved_to)
        await sending.check_thread(to, sent.message_thread_id, sent.delete, FAILURES)
        return sent

    async def create(self, bot: Bot, home: Address, title: str) -> Address | None:
        """Create a topic in that chat. Return None if the chat has no topics, or the bot may not
        open one. Never retried: if the response is lost, the topic may already exist."""
        name = sending.title(title, _NAME, Unit.UTF16)
        try:
            opened = await self.moves.follow(
                home, lambda at: bot.create_forum_topic(where(at)["chat_id"], name), moved_to
            )
        except Refused as refused:
            if refused.status != 400 or not refused.says(*_CANNOT):
                raise
            return None if (now := self.moves.now(home)) == home else now
        topic = dataclasses.replace(self.moves.now(home), thread_id=str(opened.message_thread_id))
        self._open.add(topic)
        return topic

    async def _reopen(self, bot: Bot, at: Address) -> None:
        """Reopen a group's topic, if needed and possible. Sending reports what is wrong."""
        place = where(at)
        topic = place["message_thread_id"]
        if topic is None or at.chat_type is not ChatType.GROUP or at in self._open:
            return
        try:
            await bot.reopen_forum_topic(place["chat_id"], topic)
        except FAILURES.all as error:
            # A 400: it is open, deleted or not ours to reopen. Trying again changes nothing.
            if not isinstance(error, Refused) or error.status != 400:
                return
        self._open.add(at)
