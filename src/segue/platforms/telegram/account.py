"""The bot's account: its setup and its chats."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from telegram import Bot, ChatMember, ChatMemberAdministrator, ChatMemberRestricted

from segue.core.address import Address, ChatType, HomeChannel
from segue.core.audience import Audience
from segue.platforms.base import Finding
from segue.platforms.diagnostics import check
from segue.platforms.errors import Refused, tolerating_absence
from segue.platforms.telegram.client import Client, where
from segue.platforms.telegram.parser import address
from segue.platforms.telegram.wire import Chat

NO_TOKEN = Finding(
    False,
    "Telegram does not accept the token.",
    "Send /mybots to @BotFather, choose the bot and API Token, and give that token to "
    "`segue setup telegram`.",
    vital=True,
)
_THREADED = (
    "Open @BotFather, press Open there (the menu of /mybots does not have it), choose the bot, "
    "then Bot Settings, and turn Threaded Mode on."
)
_TOPICS = "Turn Topics on in the settings of the group."
_MANAGER = "Make the bot an administrator of the group, with the right to manage topics."
_PRIVACY = (
    "Make the bot an administrator of the group, or send /setprivacy to @BotFather and turn it off."
)
_WEBHOOK = (
    "Type `segue gateway start`, which removes it; if it comes back, another program uses the bot, "
    "so get one of your own from @BotFather."
)
_HIDDEN = ("member list is inaccessible", "chat_admin_required")
"""Why Telegram does not say who is in a group of which the bot is no administrator."""
_UNREACHED = "Write something to the bot there, adding it to the chat first, and send /sethome."


async def checks(bot: Bot, home: Address | None) -> AsyncGenerator[Finding]:
    """Check the bot and its home channel. Read-only, and never asks for updates, so a running
    gateway is not disturbed."""
    me = await bot.get_me()
    yield Finding(True, f"The token is good: the bot is @{me.username}.")
    good, bad = "No webhook is set.", "A webhook is set, so nothing can be received."
    yield check(not (await bot.get_webhook_info()).url, good, bad, _WEBHOOK)
    if home is None or home.chat_type is ChatType.DM:
        good = "Direct messages with the bot can have topics."
        bad = "Direct messages with the bot have no topics, so handoffs share one chat."
        yield check(me.has_topics_enabled, good, bad, _THREADED)
    if home is None:
        return
    try:
        chat = await bot.get_chat(where(home)["chat_id"])
    except Refused as refused:
        if refused.status not in (400, 403):
            raise
        text = f"The home channel cannot be reached: {refused.reason}."
        yield Finding(False, text, _UNREACHED, vital=True)
        return
    yield Finding(True, f"The home channel is {chat.title or chat.first_name or chat.id}.")
    if home.chat_type is ChatType.GROUP:
        bad = "The group has no topics, so handoffs share one chat."
        yield check(chat.is_forum, "The group has topics.", bad, _TOPICS)
        member = await bot.get_chat_member(chat.id, me.id)
        admin = isinstance(member, ChatMemberAdministrator)
        good, bad = "The bot may manage topics there.", "The bot may not manage topics there."
        yield check(admin and member.can_manage_topics, good, bad, _MANAGER)
        good = "The bot hears all that is said in the group."
        bad = "Privacy mode is on: the bot hears only commands, replies to it, and its name."
        yield check(admin or me.can_read_all_group_messages, good, bad, _PRIVACY)


async def has_user(client: Client, user_id: str) -> bool | None:
    """True if the user has written to the bot. Telegram does not say whether there are others."""
    with tolerating_absence():
        await client.bot.get_chat(user_id)
        return True
    return None


async def find(bot: Bot, name: str) -> HomeChannel | None:
    """The chat with that id or @name, if the bot is in it and can write there."""
    with tolerating_absence():
        found = await bot.get_chat(name)
        if found.type != "private":  # public groups can be looked up by any bot
            member = await bot.get_chat_member(found.id, bot.id)
            if member.status in (ChatMember.LEFT, ChatMember.BANNED):
                return None
        at = address(Chat(id=found.id, type=found.type))
        return at and HomeChannel(address=at, name=found.title or found.first_name or "")
    return None


async def audience(bot: Bot, chat: Address, users: Sequence[str]) -> Audience | None:
    """Who can read a group. Telegram gives their number."""
    if chat.chat_type is ChatType.DM:
        return None
    number = where(chat)["chat_id"]
    found = await bot.get_chat(number)
    return Audience(
        has_owner=any([await _is_member(bot, number, user) for user in users]),
        is_public=bool(found.username),
        readers=await bot.get_chat_member_count(number),
    )


async def _is_member(bot: Bot, chat: int, user: str) -> bool:
    try:
        member = await bot.get_chat_member(chat, int(user))
    except Refused as refused:
        if refused.status != 400:
            raise
        return refused.says(*_HIDDEN)
    if isinstance(member, ChatMemberRestricted):
        return member.is_member
    return member.status not in (ChatMember.LEFT, ChatMember.BANNED)
