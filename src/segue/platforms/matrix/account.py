"""The bot's account: its setup and its rooms."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from segue.core.address import Address, HomeChannel
from segue.platforms.base import Finding
from segue.platforms.diagnostics import check
from segue.platforms.errors import Refused, tolerating_absence
from segue.platforms.matrix import wire
from segue.platforms.matrix.client import path
from segue.platforms.matrix.device import MatrixDevice
from segue.platforms.matrix.rooms import KnownRooms, Room

NO_TOKEN = Finding(
    False,
    "There is no access token that the homeserver accepts.",
    "Type `segue setup matrix`, and sign the bot in.",
    vital=True,
)
_INVITE = "Invite {} to that room, or send /sethome in another one."
_VERIFY = (
    "Verify the bot from your client and type `segue verify`, or type "
    "`segue config set platforms.matrix.trust first-use`."
)


async def checks(device: MatrixDevice, home: Address | None) -> AsyncGenerator[Finding]:
    """Check the token, the owner, and the home channel. Changes nothing."""
    me = await device.client.get("/account/whoami", wire.DeviceIdentity)
    yield Finding(
        True, f"The access token is good: the bot is {me.user_id}, device {me.device_id}."
    )
    owner, is_id = device.owner, device.owner.startswith("@") and ":" in device.owner
    good = f"The bot accepts invitations from {owner}."
    bad = f"platforms.matrix.invites_from is not a user id: {owner}."
    fix = "Type `segue config set platforms.matrix.invites_from @you:your.server`."
    yield check(is_id, good, bad, fix)
    if home is None:
        return
    room = await _room(device, me.user_id, home.chat_id)
    bad = "The bot is not in the home room."
    yield check(room, f"The home room is {_name(room, home)}.", bad, _INVITE.format(me.user_id))
    if room is not None and room.encrypted and not device.trusts_first_use:
        good = "The home room is encrypted, and one of your devices is verified."
        bad = "The home room is encrypted, and no device of yours is verified."
        yield check(device.knows_owner(me), good, bad, _VERIFY)


async def find(device: MatrixDevice, name: str) -> HomeChannel | None:
    """The room with that id or alias, or the direct message with that user."""
    if name.startswith("#"):
        with tolerating_absence():
            found = await device.client.get(f"/directory/room{path(name)}", dict[str, Any])
            name = str(found.get("room_id"))
    if name.startswith("@"):
        name = next(reversed(device.rooms.direct_with(name)), "")
    room = await _room(device, device.me.user_id, name) if name else None
    return None if room is None else HomeChannel(address=room.at(), name=_name(room, room.at()))


async def _room(device: MatrixDevice, me: str, room_id: str) -> Room | None:
    """The room, if the bot is in it."""
    rooms = KnownRooms(me)
    try:
        await rooms.load_direct(device.client)
        room = await rooms.get(device.client, room_id)
    except Refused as refused:
        if refused.status not in (400, 403, 404):
            raise
        return None
    joined = await device.client.get("/joined_rooms", dict[str, list[str]])
    return room if room_id in joined["joined_rooms"] else None


def _name(room: Room | None, at: Address) -> str:
    return room.name if room is not None and room.name else at.chat_id
