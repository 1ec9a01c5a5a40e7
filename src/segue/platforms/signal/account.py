"""The account: its setup and its chats."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

from segue.core.address import Address, ChatType, HomeChannel
from segue.platforms.base import Finding
from segue.platforms.diagnostics import check
from segue.platforms.errors import Lost, Refused
from segue.platforms.signal.client import SignalClient
from segue.platforms.signal.parser import address
from segue.platforms.signal.spec import COMMAND, GET, OLDEST
from segue.platforms.signal.wire import SignalGroup, SignalIdentity

NO_ACCOUNT = Finding(
    False,
    "signal-cli does not have the account: it is not linked, or the phone removed it.",
    "Type `segue setup signal`, and scan the code with your phone.",
    vital=True,
)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_GROUP = re.compile(r"[A-Za-z0-9+/]{43}=")
_TRUST = (
    "Compare the safety number on both phones, then type"
    " `signal-cli -a {} trust -v SAFETY_NUMBER {}`."
)


async def checks(client: SignalClient, home: Address | None) -> AsyncGenerator[Finding]:
    """Check the daemon, the account, the safety numbers and the home channel."""
    try:
        version = await client.version()
    except Lost as lost:
        text = f"The signal-cli daemon at {client.url} cannot be asked: {lost.reason}."
        yield Finding(False, text, f"Start it: `{COMMAND}`. {GET}", vital=True)
        return
    good, oldest = f"signal-cli {version} answers.", ".".join(map(str, OLDEST))
    if numbers(version) < OLDEST:
        bad = f"signal-cli {version} is too old: Segue needs {oldest}."
        yield Finding(False, bad, GET, vital=True)
        return
    yield Finding(True, good)
    await client.find_account()
    yield Finding(True, f"The account is {client.account}.")
    for identity in await client.call("listIdentities", tuple[SignalIdentity, ...]):
        if identity.trust_level == "UNTRUSTED":
            user = identity.number or identity.uuid or "USER"
            text = f"The safety number of {user} changed, so nothing is sent there."
            yield Finding(False, text, _TRUST.format(client.account, user))
    if home is not None and home.chat_type is ChatType.GROUP:
        group = await _group(client, home.chat_id)
        bad = "The account is not in the home channel, or has blocked it."
        fix = "Add it to that group, or send /sethome in another chat."
        yield check(group, f"The home channel is {group and group.name}.", bad, fix)


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version such as 0.14.4.1 or 0.15.0-SNAPSHOT."""
    return tuple(map(int, re.findall(r"\d+", version.partition("-")[0])))


async def find(client: SignalClient, name: str) -> HomeChannel | None:
    """The group with that id, or the chat with the user who has it."""
    if _UUID.fullmatch(name):
        return HomeChannel(address=address(name, group=False), name="")
    group = await _group(client, name) if _GROUP.fullmatch(name) else None
    return group and HomeChannel(address=address(name, group=True), name=group.name or "")


async def _group(client: SignalClient, name: str) -> SignalGroup | None:
    """The group with that id, if the account can write there."""
    try:
        found = await client.call("listGroups", tuple[SignalGroup, ...], groupId=[name])
    except Refused as refused:
        if refused.status != 400:
            raise
        return None
    return next((it for it in found if it.is_member and not it.is_blocked), None)
