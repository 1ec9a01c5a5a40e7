"""Look up chats by id."""

from __future__ import annotations

from telegram import Bot, ChatMember

from segue.core.address import HomeChannel
from segue.platforms.telegram.parser import address
from segue.platforms.telegram.transport import Refused
from segue.platforms.telegram.wire import Chat, Me

_OUTSIDE = frozenset({ChatMember.LEFT, ChatMember.BANNED})


async def find(bot: Bot, me: Me, chat_id: str) -> HomeChannel | None:
    """The chat with that id or @name, if the bot is in it and can write there."""
    try:
        found = await bot.get_chat(chat_id)
        if found.type != "private" and await _is_outside(bot, me, found.id):
            return None
    except Refused as refused:
        if refused.status not in (400, 403):
            raise
        return None
    at = address(Chat(id=found.id, type=found.type), None)
    return (
        None if at is None else HomeChannel(address=at, name=found.title or found.first_name or "")
    )


async def _is_outside(bot: Bot, me: Me, chat: int) -> bool:
    """Whether the bot is not a member. Public groups can be looked up by any bot."""
    return (await bot.get_chat_member(chat, me.id)).status in _OUTSIDE
