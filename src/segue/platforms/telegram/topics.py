"""Fresh topics for handoffs: in groups with topics, and in direct messages where they are on."""

from __future__ import annotations

import dataclasses

from telegram import Bot

from segue.core.address import Address
from segue.core.text import one_line
from segue.platforms.base import Unit
from segue.platforms.markup.sizes import chop, ruler
from segue.platforms.telegram.line import Refused
from segue.platforms.telegram.sending import chat

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


def _name(title: str) -> str:
    line = one_line(title) or _UNTITLED
    measure = ruler(Unit.UTF16)
    if measure(line) <= _NAME:
        return line
    return next(chop(line, _NAME - 1, _NAME - 1, measure)).rstrip() + "…"
