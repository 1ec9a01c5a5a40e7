"""The account: its setup and its chats."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence

from segue.core.address import Address, ChatType, HomeChannel
from segue.core.audience import Audience, listed
from segue.platforms.base import Finding
from segue.platforms.diagnostics import check
from segue.platforms.errors import Lost, Refused, tolerating_absence
from segue.platforms.signal.client import SignalClient
from segue.platforms.signal.parser import address
from segue.platforms.signal.spec import COMMAND, GET, SIGNAL
from segue.platforms.signal.wire import SignalEntry

NO_ACCOUNT = Finding(
    False,
    "signal-cli does not have the account: it is not linked, or the phone removed it.",
    "Type `segue setup signal`, and scan the code with your phone.",
    vital=True,
)
_TRUST = "Compare it on both phones, then type `signal-cli -a {} trust -v SAFETY_NUMBER {}`."


async def checks(client: SignalClient, home: Address | None) -> AsyncGenerator[Finding]:
    """Check the daemon, the account, the safety numbers and the home channel."""
    try:
        yield Finding(True, f"signal-cli {await client.version()} answers.")
    except (Refused, Lost) as error:
        text = f"The signal-cli daemon at {client.url} cannot be used: {error.reason}."
        yield Finding(False, text, f"{GET} Start it: `{COMMAND}`.", vital=True)
        return
    await client.find_account()
    yield Finding(True, f"The account is {client.account}.")
    for identity in await client.call("listIdentities", tuple[SignalEntry, ...]):
        if identity.trust_level == "UNTRUSTED":
            user = identity.number or identity.uuid or "USER"
            text = f"The safety number of {user} changed, so nothing is sent there."
            yield Finding(False, text, _TRUST.format(client.account, user))
    if home is not None and home.chat_type is ChatType.GROUP:
        group = await _group(client, home.chat_id)
        bad = "The account is not in the home channel, or has blocked it."
        fix = "Add it to that group, or send /sethome in another chat."
        yield check(group, f"The home channel is {group and group.name}.", bad, fix, vital=True)


async def find(client: SignalClient, name: str) -> HomeChannel | None:
    """The group with that id, or the chat with the user who has it."""
    if re.fullmatch(SIGNAL.user_ids.pattern, name):
        return HomeChannel(address=address(name, group=False), name="")
    group = await _group(client, name)
    return group and HomeChannel(address=address(name, group=True), name=group.name or "")


async def audience(client: SignalClient, chat: Address, users: Sequence[str]) -> Audience | None:
    """Who can read a group. Signal groups are never public: a link to one can be made, but those
    who follow it become members."""
    group = None if chat.chat_type is ChatType.DM else await _group(client, chat.chat_id)
    if group is None:
        return None
    members = {name for it in group.members for name in (it.uuid, it.number) if name}
    readers = {it.uuid or it.number or "" for it in group.members}
    return listed(readers, has_owner=not members.isdisjoint(users), is_public=False)


async def _group(client: SignalClient, name: str) -> SignalEntry | None:
    """The group with that id, if the account can write there."""
    with tolerating_absence():
        found = await client.call("listGroups", tuple[SignalEntry, ...], groupId=[name])
        return next((it for it in found if it.is_member and not it.is_blocked), None)
    return None
