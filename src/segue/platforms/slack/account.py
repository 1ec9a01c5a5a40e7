"""The app's account: its setup and its channels."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence

from segue.core.address import Address, HomeChannel
from segue.core.audience import Audience, listed
from segue.platforms.base import Finding
from segue.platforms.diagnostics import check
from segue.platforms.errors import Refused
from segue.platforms.slack.client import SlackClient
from segue.platforms.slack.parser import address
from segue.platforms.slack.spec import MANIFEST
from segue.platforms.slack.wire import Me, MemberPage, SlackChannel

_SCOPES = frozenset[str](json.loads(MANIFEST)["oauth_config"]["scopes"]["bot"])
HISTORY = frozenset(scope for scope in _SCOPES if scope.endswith(":history"))
"""With these scopes, messages can be found by our stamps."""
_PAGE = 1000
_MOST_PAGES = 5
_OPEN = "Open your app at https://api.slack.com/apps,"
NO_TOKEN = Finding(
    False,
    "Slack does not accept the bot token.",
    f"{_OPEN} copy the Bot User OAuth Token under Permissions, and type `segue setup slack`.",
    vital=True,
)
_GENERATE = (
    f"{_OPEN} generate an app-level token with the scope connections:write under Basic "
    "Information, and type `segue setup slack`."
)
_ADD = f"{_OPEN} add them under OAuth & Permissions, and press Reinstall to Workspace there."
_INVITE = "Write `/invite @{}` in that channel, or send /sethome in another chat."


async def checks(client: SlackClient, home: Address | None) -> AsyncGenerator[Finding]:
    """Check the tokens, the scopes and the home channel. Read-only: it asks where to connect, and
    does not."""
    me = await client.call("auth.test", Me)
    yield Finding(True, f"The bot token is good: the app is @{me.user} in {me.team}.")
    missing = ", ".join(sorted(_SCOPES.difference(client.scopes)))
    good, bad = "The app has every scope that it needs.", f"The app lacks scopes: {missing}."
    yield check(not missing, good, bad, _ADD)
    try:
        await client.endpoint()
    except Refused as refused:
        text = f"Slack does not accept the {refused.reason}."
        yield Finding(False, text, _GENERATE, vital=True)
    else:
        yield Finding(True, "The app-level token is good.")
    if home is not None:
        channel = await _channel(client, home.chat_id)
        name = "your chat with the app" if channel.is_im else f"#{channel.name}"
        bad = "The app cannot write in the home channel: it is archived, or the app is not in it."
        good, fix = f"The home channel is {name}.", _INVITE.format(me.user)
        yield check(_is_usable(channel), good, bad, fix, vital=True)


async def find(client: SlackClient, name: str) -> HomeChannel | None:
    """The channel with that id, if the app can write there."""
    channel = await _channel(client, name)
    if not _is_usable(channel):
        return None
    return HomeChannel(address=address(channel.id), name=channel.name)


async def audience(client: SlackClient, chat: Address, users: Sequence[str]) -> Audience | None:
    """Who can read a channel. None without the scopes to see that."""
    try:
        channel = await client.call(
            "conversations.info", SlackChannel, "channel", channel=chat.chat_id
        )
        if channel.is_im:
            return None
        members = await _members(client, channel.id)
    except Refused as refused:
        if refused.code != "missing_scope":
            raise
        return None
    is_public = not (channel.is_private or channel.is_mpim)
    if members is None:  # too many to look for the owner
        return Audience(is_public=is_public)
    return listed(members, has_owner=not members.isdisjoint(users), is_public=is_public)


async def _members(client: SlackClient, channel: str) -> set[str] | None:
    """The users in a channel, or None if there are too many."""
    found = set[str]()
    cursor = None
    for _ in range(_MOST_PAGES):
        page = await client.call(
            "conversations.members", MemberPage, channel=channel, limit=_PAGE, cursor=cursor
        )
        found.update(page.members)
        cursor = page.response_metadata.next_cursor
        if not cursor:
            return found
    return None


async def has_user(client: SlackClient, user_id: str) -> bool | None:
    """Whether the workspace has that user. None if the app may not ask."""
    try:
        await client.do("users.info", user=user_id)
    except Refused as refused:
        if refused.code in ("missing_scope", "user_not_visible"):
            return None
        if refused.code != "user_not_found":
            raise
        return False
    return True


async def _channel(client: SlackClient, name: str) -> SlackChannel:
    """The channel with that id. If there is none, one that the app cannot use."""
    try:
        return await client.call("conversations.info", SlackChannel, "channel", channel=name)
    except Refused as refused:
        if refused.code not in ("channel_not_found", "invalid_arguments"):
            raise
        return SlackChannel()


def _is_usable(channel: SlackChannel) -> bool:
    return (channel.is_im or channel.is_member) and not channel.is_archived
