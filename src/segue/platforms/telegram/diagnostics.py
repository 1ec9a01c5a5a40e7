"""Check the setup of the bot and the home channel, and explain how to fix what is missing."""

from __future__ import annotations

from telegram import Bot, ChatFullInfo, ChatMember, ChatMemberAdministrator, User

from segue.core.address import Address, ChatType
from segue.platforms.base import Finding
from segue.platforms.telegram.errors import SENSELESS
from segue.platforms.telegram.sending import chat
from segue.platforms.telegram.transport import Lost, Refused

_BOT = "Send /mybots to @BotFather, choose the bot and API Token, and type `segue setup telegram`."

_NETWORK = "Check the network, and platforms.telegram.url if you have set it."
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
_UNREACHED = "Write something to the bot there, adding it to the chat first, and send /sethome."


async def examine(bot: Bot, home: Address | None) -> list[Finding]:
    """Run all checks. Read-only, and never asks for updates, so a running gateway is not
    disturbed."""
    found: list[Finding] = []
    try:
        await _examine(bot, home, found)
    except Refused as refused:
        found.append(no_token() if refused.status in (401, 404) else _unanswered(refused.reason))
    except Lost as lost:
        found.append(_unanswered(lost.reason))
    except SENSELESS:
        found.append(_unanswered("its answer makes no sense"))
    return found


def no_token() -> Finding:
    return Finding(False, "There is no token that Telegram accepts.", _BOT, vital=True)


def _unanswered(reason: str) -> Finding:
    return Finding(False, f"Telegram cannot be asked: {reason}.", _NETWORK, vital=True)


async def _examine(bot: Bot, home: Address | None, found: list[Finding]) -> None:
    me = await bot.get_me()
    found.append(Finding(True, f"The token is good: the bot is @{me.username}."))
    found.append(await _webhook(bot))
    if home is None or home.chat_type is ChatType.DM:
        found.append(_threaded(me))
    if home is None:
        return
    try:
        at = await bot.get_chat(chat(home))
    except Refused as refused:
        if refused.status not in (400, 403):
            raise
        text = f"The home channel cannot be reached: {refused.reason}."
        found.append(Finding(False, text, _UNREACHED))
        return
    found.append(Finding(True, f"The home channel is {_name(at)}."))
    if home.chat_type is ChatType.GROUP:
        found.extend(_group(me, at, await bot.get_chat_member(at.id, me.id)))


async def _webhook(bot: Bot) -> Finding:
    found = await bot.get_webhook_info()
    if found.url:
        return Finding(False, "A webhook is set, so nothing can be received.", _WEBHOOK)
    return Finding(True, "No webhook is set.")


def _threaded(me: User) -> Finding:
    if me.has_topics_enabled:
        return Finding(True, "Direct messages with the bot can have topics.")
    return Finding(
        False, "Direct messages with the bot have no topics, so handoffs share one chat.", _THREADED
    )


def _group(me: User, found: ChatFullInfo, member: ChatMember) -> list[Finding]:
    findings = [
        Finding(True, "The group has topics.")
        if found.is_forum
        else Finding(False, "The group has no topics, so handoffs share one chat.", _TOPICS)
    ]
    manages = isinstance(member, ChatMemberAdministrator) and bool(member.can_manage_topics)
    findings.append(
        Finding(True, "The bot may manage topics there.")
        if manages
        else Finding(False, "The bot may not manage topics there.", _MANAGER)
    )
    if isinstance(member, ChatMemberAdministrator) or me.can_read_all_group_messages:
        findings.append(Finding(True, "The bot hears all that is said in the group."))
    else:
        text = "Privacy mode is on: the bot hears only commands, replies to it, and its name."
        findings.append(Finding(False, text, _PRIVACY))
    return findings


def _name(found: ChatFullInfo) -> str:
    return found.title or found.first_name or str(found.id)
