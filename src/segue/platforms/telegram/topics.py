"""Topics, in groups and direct messages that have them enabled: create new ones for handoffs, and
reopen closed ones."""

from __future__ import annotations

import dataclasses

from telegram import Bot

from segue.core.address import Address, ChatType
from segue.core.text import one_line
from segue.platforms.base import Unit
from segue.platforms.markup.sizes import chop, ruler
from segue.platforms.telegram.sending import chat, thread
from segue.platforms.telegram.transport import Lost, Refused

_NAME = 128
"""In UTF-16 units."""
_UNTITLED = "Handoff"

# The chat has no topics, or the bot may not open any. Telegram says which when asked; what we knew
# about the chat before may be out of date.
_CANNOT = (
    "not a forum",
    "forums_disabled",
    "not enough rights",
    "chat_admin_required",
    "channel_forum_missing",
    "supergroup",
    "topics are not enabled",
)


async def open_topic(bot: Bot, home: Address, title: str) -> Address | None:
    """Create a topic in that chat. Return None if the chat has no topics, or the bot may not open
    one.

    Never retried automatically: if the response is lost, the topic may already exist.
    """
    try:
        opened = await bot.create_forum_topic(chat(home), _name(title))
    except Refused as refused:
        if refused.status == 400 and refused.moved_to is None and refused.says(*_CANNOT):
            return None
        raise
    return dataclasses.replace(home, thread_id=str(opened.message_thread_id))


class OpenTopics:
    """The topics that are open, as far as we know.

    A bot that opened a topic, or manages topics, can write to it while it is closed. That neither
    fails nor reopens it, and the bot cannot ask whether a topic is closed. So each topic is
    reopened before the first message that this process sends to it, and after it was closed.
    """

    def __init__(self) -> None:
        self._open: set[Address] = set()

    def opened(self, topic: Address) -> None:
        self._open.add(topic)

    def closed(self, topic: Address) -> None:
        self._open.discard(topic)

    async def ensure(self, bot: Bot, at: Address) -> None:
        """Reopen a group's topic, if needed and possible. Never raises: sending the message reports
        what is wrong."""
        topic = thread(at)
        if topic is None or at.chat_type is not ChatType.GROUP or at in self._open:
            return
        try:
            await bot.reopen_forum_topic(chat(at), topic)
        except Refused as refused:
            if refused.status != 400:
                return
            # It is open, deleted or not ours to reopen: trying again changes nothing.
        except Lost:
            return
        self.opened(at)


def _name(title: str) -> str:
    line = one_line(title) or _UNTITLED
    measure = ruler(Unit.UTF16)
    if measure(line) <= _NAME:
        return line
    return next(chop(line, _NAME - 1, _NAME - 1, measure)).rstrip() + "…"
