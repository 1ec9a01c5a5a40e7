"""The bot's account: its setup, its channels, and what it may do there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Any

from segue.core.address import Address, Audience, HomeChannel, listed_audience
from segue.core.text import count
from segue.platforms.base import Finding
from segue.platforms.connection import check
from segue.platforms.discord.client import PORTAL, DiscordClient
from segue.platforms.discord.updates import (
    FORUMS,
    WITH_THREADS,
    Channel,
    Detail,
    Profile,
    Resource,
    address,
)
from segue.platforms.errors import tolerating_absence

_ADMINISTRATOR = 1 << 3
VIEW = 1 << 10
SEND = 1 << 11
THREADS = 1 << 35 | 1 << 38
NEEDED = {
    VIEW: "View Channels",
    SEND: "Send Messages",
    1 << 15: "Attach Files",
    1 << 16: "Read Message History",
    1 << 35: "Create Public Threads",
    1 << 38: "Send Messages in Threads",
}
"""All permissions that the bot needs in a channel, as Discord calls them."""
_INVITE = "https://discord.com/oauth2/authorize"
_CONTENT = 1 << 18 | 1 << 19
NO_TOKEN = Finding(
    False,
    "Discord does not accept the token.",
    f"At {PORTAL} choose the bot, then Bot, press Reset Token, and type `segue setup discord`.",
    vital=True,
)
_INTENT = f"At {PORTAL} choose the bot, then Bot, and turn Message Content Intent on."
_UNREACHED = "Invite the bot to the server again, write something to it there, and send /sethome."
_RIGHTS = "Give the bot these permissions in the settings of the channel."
_SHARED = "Send /sethome in a text channel or in a forum, if each handoff should get a thread."


async def checks(client: DiscordClient, home: Address | None) -> AsyncGenerator[Finding]:
    """Check the bot and its home channel. Does not connect for events, so a running gateway is not
    disturbed."""
    me = await client.call("GET", "/users/@me", Profile)
    yield Finding(True, f"The token is good: the bot is {me.name}.")
    app = await client.call("GET", "/applications/@me", Resource)
    if not app.flags & _CONTENT:
        yield Finding(False, "The bot cannot read what users write.", _INTENT, vital=True)
        return
    link = f"{_INVITE}?client_id={app.id}&scope=bot&permissions={sum(NEEDED)}"
    servers = app.approximate_guild_count
    good = f"The bot is in {count(servers, 'server')}. This link adds it to another: {link}"
    yield check(servers, good, "The bot is in no server yet.", f"Add it to one of yours: {link}")
    if home is None:
        return
    channel = await _visible(client, "GET", f"/channels/{home.chat_id}")
    if channel is None:
        text = "The bot cannot see the home channel any more."
        yield Finding(False, text, _UNREACHED, vital=True)
        return
    yield Finding(True, f"The home channel is {channel.title}.")
    if channel.is_dm:
        return
    given = await rights(client, channel, me.id)
    missing = ", ".join(name for bit, name in NEEDED.items() if not given & bit)
    bad = f"The bot lacks permissions there: {missing}."
    yield check(not missing, "The bot has all permissions there.", bad, _RIGHTS)
    good = "Each handoff gets a thread there."
    bad = "It has no threads, so handoffs share it."
    yield check(channel.type in (*WITH_THREADS, *FORUMS), good, bad, _SHARED)


async def rights(client: DiscordClient, channel: Channel, me: str) -> int:
    """The permissions of the bot in a channel, as bits."""
    if channel.guild_id is None:
        return sum(NEEDED)
    guild = await client.call("GET", f"/guilds/{channel.guild_id}", Resource)
    member = await client.call("GET", f"/guilds/{guild.id}/members/{me}", Detail)
    return _given(guild, channel, member.roles, me)


def _given(guild: Resource, channel: Channel, held: Collection[str], user: str) -> int:
    """The permissions in a channel of a member of the server who holds these roles, as bits."""
    roles = {guild.id, *held}  # everyone's role has the id of the server
    given = 0
    for role in guild.roles:
        if role.id in roles:
            given |= int(role.permissions)
    if given & _ADMINISTRATOR or guild.owner_id == user:
        return -1
    # In this order: the channel's overwrites for everyone, for roles, and for the user.
    for ids in ({guild.id}, roles - {guild.id}, {user}):
        overwrites = [it for it in channel.permission_overwrites if it.id in ids]
        for overwrite in overwrites:
            given &= ~int(overwrite.deny)
        for overwrite in overwrites:
            given |= int(overwrite.allow)
    return given


async def audience(client: DiscordClient, chat: Address, users: Sequence[str]) -> Audience | None:
    """Who can read a channel: the roles and the members to whom it is open. Without another intent,
    Discord does not name the members of a role."""
    channel = await client.call("GET", f"/channels/{chat.chat_id}", Channel)
    if channel.guild_id is None:
        return None
    guild = await client.call("GET", f"/guilds/{channel.guild_id}", Resource)
    roles = [it.id for it in guild.roles if it.id != guild.id]
    readers = [role for role in roles if _given(guild, channel, [role], "") & VIEW]
    named = {it.id for it in channel.permission_overwrites} - {guild.id, *roles}
    readers += [user for user in named if _given(guild, channel, [], user) & VIEW]
    is_public = bool(_given(guild, channel, [], "") & VIEW)
    owners = [user for user in users if await _can_read(client, guild, channel, user)]
    return listed_audience(readers, has_owner=bool(owners), is_public=is_public)


async def _can_read(client: DiscordClient, guild: Resource, channel: Channel, user: str) -> bool:
    with tolerating_absence():
        member = await client.call("GET", f"/guilds/{guild.id}/members/{user}", Detail)
        return bool(_given(guild, channel, member.roles, user) & VIEW)
    return False


async def find(client: DiscordClient, name: str) -> HomeChannel | None:
    """The channel with that id, or the direct message with the user who has it. None if the bot
    cannot see it."""
    channel = await _visible(client, "GET", f"/channels/{name}")
    if channel is None:
        body = {"recipient_id": name}
        channel = await _visible(client, "POST", "/users/@me/channels", json=body)
    if channel is None:
        return None
    return HomeChannel(address=address(channel), name=channel.title)


async def has_user(client: DiscordClient, user_id: str) -> bool:
    with tolerating_absence():
        await client.call("GET", f"/users/{user_id}", Profile)
        return True
    return False


async def _visible(client: DiscordClient, method: str, path: str, **body: Any) -> Channel | None:
    """The channel that a call returns, or None if the bot cannot see it."""
    with tolerating_absence():
        return await client.call(method, path, Channel, **body)
    return None
