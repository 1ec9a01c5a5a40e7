"""Topics: fresh ones for handoffs, in groups that have topics and in direct messages where they are
on; and those that were closed, which are opened again."""

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

# The chat has no topics, or we may not open any. Telegram says which at the time of asking; what
# we knew of the chat before may be out of date.
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
    """A new topic in that chat; None when it cannot have one, or we may not open it.

    Never repeated by itself: when the answer is lost there may be a topic already.
    """
    try:
        opened = await bot.create_forum_topic(chat(home), _name(title))
    except Refused as refused:
        if refused.status == 400 and refused.moved_to is None and refused.says(*_CANNOT):
            return None
        raise
    return dataclasses.replace(home, thread_id=str(opened.message_thread_id))


class OpenTopics:
    """The topics in which people can write, for all that we know.

    A bot that opened a topic, or manages topics, can write there while it is closed, without an
    error and without opening it; and it cannot ask whether a topic is closed. So each is opened
    before the first message that this process sends there, and after it was closed.
    """

    def __init__(self) -> None:
        self._open: set[Address] = set()

    def opened(self, topic: Address) -> None:
        self._open.add(topic)

    def closed(self, topic: Address) -> None:
        self._open.discard(topic)

    async def ensure(self, bot: Bot, at: Address) -> None:
        """Open the topic of a group, if that is needed and can be done. It never fails: what is
        sent there says what is wrong."""
        topic = thread(at)
        if topic is None or at.chat_type is not ChatType.GROUP or at in self._open:
            return
        try:
            await bot.reopen_forum_topic(chat(at), topic)
        except Refused as refused:
            if refused.status != 400:
                return
            # It is open, or deleted, or not ours to open: nothing changes by trying again.
        except Lost:
            return
        self.opened(at)


def _name(title: str) -> str:
    line = one_line(title) or _UNTITLED
    measure = ruler(Unit.UTF16)
    if measure(line) <= _NAME:
        return line
    return next(chop(line, _NAME - 1, _NAME - 1, measure)).rstrip() + "…"
