"""The bot's account: its setup and its rooms."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from segue.core.address import Address, HomeChannel
from segue.platforms.base import Finding
from segue.platforms.diagnostics import check
from segue.platforms.errors import tolerating_absence
from segue.platforms.matrix.client import path
from segue.platforms.matrix.device import MatrixDevice
from segue.platforms.matrix.rooms import Room

NO_TOKEN = Finding(
    False,
    "There is no access token that the homeserver accepts.",
    "Type `segue setup matrix`, and sign the bot in.",
    vital=True,
)
_SET_OWNER = "Type `segue config set platforms.matrix.invites_from @you:your.server`."
_INVITE = "Invite {} to that room, or send /sethome in another one."
_VERIFY = (
    "Verify the bot from your client and type `segue verify`, or type "
    "`segue config set platforms.matrix.trust first-use`."
)


async def checks(client: MatrixDevice, home: Address | None) -> AsyncGenerator[Finding]:
    """Check the token, the owner, and the home channel."""
    await client.greet()
    me, owner = client.me, client.owner
    good = f"The access token is good: the bot is {me.user_id}, device {me.device_id}."
    yield Finding(True, good)
    good = f"The bot accepts invitations from {owner}."
    bad = f"platforms.matrix.invites_from is not a user id: {owner}."
    yield check(owner.startswith("@") and ":" in owner, good, bad, _SET_OWNER)
    if home is None:
        return
    room = await _room(client, home.chat_id)
    good = f"The home room is {(room and room.name) or home.chat_id}."
    bad, fix = "The bot is not in the home room.", _INVITE.format(me.user_id)
    yield check(room, good, bad, fix)
    if room is not None and room.encrypted and not client.trusts_first_use:
        good = "The home room is encrypted, and one of your devices is verified."
        bad = "The home room is encrypted, and no device of yours is verified."
        yield check(client.keys.is_verified(owner), good, bad, _VERIFY)


async def find(device: MatrixDevice, name: str) -> HomeChannel | None:
    """The room with that id or alias, or the direct message with that user."""
    with tolerating_absence():
        if name.startswith("#"):
            name = (await device.client.get(f"/directory/room{path(name)}")).room_id
        if name.startswith("@"):
            name = ["", *(await device.direct()).get(name, ())][-1]
    room = await _room(device, name)
    return room and HomeChannel(address=room.at(), name=room.name or room.id)


async def _room(device: MatrixDevice, room_id: str) -> Room | None:
    """The room, if the bot is in it."""
    joined = (await device.client.get("/joined_rooms")).joined_rooms
    return await device.room(room_id) if room_id in joined else None
