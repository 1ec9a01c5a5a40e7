"""The bot's account: its setup, its rooms, and how it is signed in."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from segue.core.address import Address, Audience, HomeChannel, listed_audience
from segue.core.text import one_line
from segue.platforms.base import Finding
from segue.platforms.connection import check
from segue.platforms.errors import Lost, Refused, tolerating_absence
from segue.platforms.matrix.client import FAILURES, MatrixClient, path
from segue.platforms.matrix.device import MatrixDevice
from segue.platforms.matrix.events import USER, MatrixAnswer, Room, is_id
from segue.platforms.matrix.identity import CHANGED, MatrixIdentity
from segue.platforms.matrix.keys import FILE, REFUSED, VERIFY

NO_TOKEN = Finding(
    False,
    "The homeserver does not accept the access token.",
    "Type `segue setup matrix`, and sign the bot in.",
    vital=True,
)
_SET_OWNER = "Type `segue config set platforms.matrix.invites_from @you:your.server`."
_INVITE = "Invite {} to that room, or send /sethome in another one."
_CHANGED = "Your identity is not the one that you verified, so the bot trusts no device of yours."
_SIGNED = "The bot's device is signed by its account, as current clients demand."
_UNSIGNED = "The bot's device is not signed. Current clients do not read its encrypted messages."
_SILENCE = 20.0
_NO_USER = "{owner} is not a user id; give yours as @anna:matrix.org"
_WRONG = "the user name or the password is not right"


async def checks(client: MatrixDevice, home: Address | None) -> AsyncGenerator[Finding]:
    """Check the token, the owner, and the home channel."""
    await client.greet()
    me = client.me
    owner = client.owner
    good = f"The access token is good: the bot is {me.user_id}, device {me.device_id}."
    yield Finding(True, good)
    good = f"The bot accepts invitations from {owner}."
    bad = f"platforms.matrix.invites_from is not a user id: {owner}."
    yield check(is_user(owner), good, bad, _SET_OWNER)
    yield check(not client.identity.fix, _SIGNED, _UNSIGNED, client.identity.fix)
    if home is None:
        return
    room = await _room(client, home.chat_id)
    if room is None:
        fix = _INVITE.format(me.user_id)
        yield Finding(False, "The bot is not in the home room.", fix, vital=True)
        return
    yield Finding(True, f"The home room is {room.name or home.chat_id}.")
    if room.encrypted and not client.trusts_first_use:
        async with client.keys.alone():
            await client.keys.query([owner])
        good = "The home room is encrypted, and one of your devices is verified."
        bad = "The home room is encrypted, and no device of yours is verified."
        if client.identity.verified == CHANGED:
            bad = _CHANGED
        yield check(client.keys.is_verified(owner), good, bad, f"{VERIFY.capitalize()}.")


async def find(device: MatrixDevice, name: str) -> HomeChannel | None:
    """The room with that id or alias, or the direct message with that user."""
    with tolerating_absence():
        if name.startswith("#"):
            found = await device.client.get(f"/directory/room{path(name)}")
            name = found.room_id
        if name.startswith("@"):
            direct = await device.direct()
            rooms = direct.get(name)
            name = rooms[-1] if rooms else ""
    room = await _room(device, name)
    if room is None:
        return None
    return HomeChannel(address=room.at(), name=room.name or room.id)


async def audience(device: MatrixDevice, chat: Address, users: Sequence[str]) -> Audience:
    """Who can read a room. The server is asked, because our own record can be out of date."""
    at = f"/rooms{path(chat.chat_id)}"
    joined = (await device.client.get(f"{at}/joined_members")).joined
    rules = await _state(device, at, "m.room.join_rules")
    history = await _state(device, at, "m.room.history_visibility")
    is_public = rules.join_rule == "public" or history.history_visibility == "world_readable"
    return listed_audience(
        joined, has_owner=not joined.keys().isdisjoint(users), is_public=is_public
    )


async def _state(device: MatrixDevice, room: str, kind: str) -> MatrixAnswer:
    """The state of a room of that kind. Empty if it has none."""
    with tolerating_absence():
        return await device.client.get(f"{room}/state/{kind}")
    return MatrixAnswer()


async def has_user(client: MatrixDevice, user_id: str) -> bool | None:
    """Whether the user has a profile, which every account gets. None if the server does not show
    it, or cannot reach the user's own server."""
    try:
        await client.client.get(f"/profile{path(user_id)}")
    except Refused as refused:
        if refused.status in (401, 429):
            raise
        # Synapse has no separate code for a user who does not exist.
        does_not_exist = refused.status == 404 and refused.code != "M_UNRECOGNIZED"
        return False if does_not_exist else None
    return True


async def _room(device: MatrixDevice, room_id: str) -> Room | None:
    """The room, if the bot is in it."""
    joined = (await device.client.get("/joined_rooms")).joined_rooms
    if room_id not in joined:
        return None
    return await device.room(room_id)


# Signing in


def is_user(name: str) -> bool:
    """Whether it can be a user id, such as @anna:matrix.org."""
    return is_id(name, USER) and ":" in name


async def sign_in(values: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the URL of the homeserver and, unless there is a token, one for the bot's device.
    Raise ConnectFailed. If the bot has had a device, use it again, because it has the keys."""
    client = MatrixClient(values["url"], "", _SILENCE)
    owner = values["invites_from"]
    if not is_user(owner):
        raise FAILURES.unreachable(_NO_USER.format(owner=one_line(owner, 80)))
    try:
        with FAILURES.connecting():
            await _discover(client)
            found = {"url": client.url}
            if not values.get("token"):
                found["token"] = await _token(client, values, folder)
            return found
    finally:
        await client.close()


async def _discover(client: MatrixClient) -> None:
    """Find the URL of a homeserver, which may differ from the name that its users have in their
    ids: https://spec.matrix.org/latest/client-server-api/#well-known-uris"""
    with contextlib.suppress(Refused, Lost):  # most servers that are named by their URL have none
        found = await client.call("GET", "/.well-known/matrix/client", MatrixAnswer)
        client.url = found.homeserver.get("base_url", client.url).rstrip("/")
    try:
        await client.call("GET", "/_matrix/client/versions", MatrixAnswer)
    except Refused as refused:
        raise Refused(404, f"there is no Matrix server at {client.url}") from refused


async def _token(client: MatrixClient, values: Mapping[str, str], folder: Path) -> str:
    user = values["user"]
    auth: dict[str, Any] = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": user},
        "password": values["password"],
    }
    given = {**auth, "initial_device_display_name": "Segue"}
    device = _device(folder, user)
    if device:
        given["device_id"] = device
    try:
        found = await client.post("/login", given)
    except Refused as refused:
        if refused.status != 403:
            raise
        raise Refused(403, _WRONG) from refused
    signed_in = MatrixClient(client.url, found.access_token, _SILENCE)
    try:  # some servers ask for the password here, too
        await MatrixIdentity(signed_in, folder, found.user_id, "").publish(auth=auth)
    finally:
        await signed_in.close()
    return found.access_token


def _device(folder: Path, user: str) -> str:
    """The last device of the bot whose keys can still be used, or "" if there is none."""
    name = quote(user.removeprefix("@").partition(":")[0], safe="")
    found = folder.glob(f"@{name}%3A*/*/{FILE}")
    usable = (path for path in found if not (path.parent / REFUSED).exists())
    newest = sorted(usable, key=lambda path: path.stat().st_mtime)
    return newest[-1].parent.name if newest else ""
