"""Updates: one sync after another, and what has to be done before users' words are read."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from segue.platforms.base import Inbound
from segue.platforms.errors import Refused, parsed
from segue.platforms.matrix import parser, wire
from segue.platforms.matrix.client import FAILURES, path
from segue.platforms.matrix.device import MatrixDevice
from segue.platforms.matrix.keys import NoKey

logger = logging.getLogger(__name__)

SECONDS = 25.0
"""How long the server waits for something to happen."""
LIMIT = 50
"""Events of a room in one sync. The server has most others, and is asked for them."""
_PAGE, _PAGES = 100, 20
_FILTER: dict[str, Any] = {
    "presence": {"types": []},
    "account_data": {"types": ["m.direct"]},
    "room": {
        "account_data": {"types": []},
        "ephemeral": {"types": []},
        "state": {"types": []},
        "timeline": {"limit": LIMIT},
    },
}
_UNREADABLE = (
    "I cannot read a message of yours: its key did not reach me. Send it again. If that does not "
    "help, verify me from your client and type `segue verify` in a terminal."
)


async def begin(device: MatrixDevice) -> None:
    """On a device that has never received anything, skip what is there already."""
    if not device.folder.since:
        synced = await device.client.sync("", _FILTER, 0.0)
        await device.keys.receive(device.client, synced)
        await _answer_invitations(device, synced)
        device.folder.since = synced.next_batch


async def receive(device: MatrixDevice) -> AsyncGenerator[Inbound | None]:
    """Yield updates. A sync is confirmed once all of its updates are recorded."""
    while True:
        with FAILURES.connecting():
            synced = await device.client.sync(device.folder.since, _FILTER, SECONDS)
            await _prepare(device, synced)
        yield None
        for room_id, joined in synced.rooms.join.items():
            with FAILURES.connecting():
                events = await _timeline(device, room_id, joined.timeline)
            for raw in events:
                with FAILURES.connecting():
                    inbound = await _inbound(device, room_id, raw)
                if inbound is not None:
                    yield inbound
        device.folder.since = synced.next_batch


async def _prepare(device: MatrixDevice, synced: wire.Synced) -> None:
    """Take keys and settings, which later events need, and answer invitations."""
    sent = await device.keys.receive(device.client, synced)
    await device.verifications.receive(sent)
    for raw in synced.account_data.events:
        event = parsed(bytes(raw), _AccountData)
        if event is not None and event.type == "m.direct":
            device.rooms.set_direct(event.content)
    await _answer_invitations(device, synced)


class _AccountData(wire.Struct, frozen=True):
    type: str
    content: dict[str, Any]


async def _answer_invitations(device: MatrixDevice, synced: wire.Synced) -> None:
    """Accept those of the owner, and those to a room that replaces one of ours. Leave the others
    alone."""
    me = device.me.user_id
    for room_id, invited in synced.rooms.invite.items():
        found = [parsed(bytes(raw), wire.RoomEvent) for raw in invited.invite_state.events]
        state = {(it.type, it.state_key): it for it in found if it is not None}
        member, create = state.get(("m.room.member", me)), state.get(("m.room.create", ""))
        if member is None:
            continue
        invitation = parsed(bytes(member.content), wire.Membership) or wire.Membership()
        made = create and parsed(bytes(create.content), wire.Membership)
        old = str(((made and made.predecessor) or {}).get("room_id", ""))
        if member.sender == device.owner:
            if await device.join(room_id) and invitation.is_direct:
                await device.rooms.add_direct(device.client, member.sender, room_id)
        elif old and await device.rooms.replaces(device.client, old, room_id):
            await device.join(room_id)
        else:
            logger.info("invitation left alone room=%s sender=%s", room_id, member.sender)


async def _timeline(device: MatrixDevice, room_id: str, got: wire.Timeline) -> Sequence[bytes]:
    """The events of a room since the last sync, oldest first, from the bot's invitation on."""
    events, until = [bytes(raw) for raw in got.events], device.folder.since
    if got.limited:
        device.rooms.forget(room_id)  # its state may have changed in between
    start, where = got.prev_batch, f"/rooms{path(room_id)}/messages"
    for _ in range(_PAGES if got.limited else 0):
        if not start or _arrival(device, events):
            break
        page = await device.client.get(
            where, wire.EventPage, dir="b", **{"from": start, "to": until, "limit": _PAGE}
        )
        events[:0] = [bytes(raw) for raw in reversed(page.chunk)]
        start = page.end if page.chunk else ""
    return events[_arrival(device, events) :]


def _arrival(device: MatrixDevice, events: Sequence[bytes]) -> int:
    """Where the bot was invited or, without an invitation, came in. 0 if it was there before."""
    me, found = device.me.user_id, 0
    for number, raw in enumerate(events):
        event = parsed(raw, wire.RoomEvent)
        if event and (event.type, event.state_key) == ("m.room.member", me):
            now = parsed(bytes(event.content), wire.Membership) or wire.Membership()
            before = event.unsigned.prev_content or wire.Membership()
            is_new = before.membership not in ("join", "invite")
            if now.membership in ("join", "invite") and is_new:
                found = number
    return found


async def _inbound(device: MatrixDevice, room_id: str, raw: bytes) -> Inbound | None:
    """What a user did, or None. State events are applied to the room."""
    try:
        event = device.opened(room_id, raw)
    except NoKey:
        await _report_missing_key(device, room_id, raw)
        return None
    if event is None:
        logger.warning("updates skipped platform=matrix room=%s", room_id)
        return None
    if event.state_key is not None:
        return await _state(device, room_id, event)
    me = device.me.user_id
    if event.sender == me:
        return None
    room = await device.room(room_id)
    about = await device.original(room_id, parser.target(event))
    if event.type in ("m.room.message", "m.sticker") and not parser.is_edit(event):
        device.remember(event.event_id, parser.original(event))
    return parser.parse(event, room, me, device.names, about)


async def _state(device: MatrixDevice, room_id: str, event: wire.RoomEvent) -> Inbound | None:
    if device.rooms.apply(room_id, event):
        device.keys.members_changed(room_id)
    me = device.me.user_id
    if event.type == "m.room.tombstone":
        replacement = parsed(bytes(event.content), wire.Membership)
        if replacement and replacement.replacement_room:
            await device.join(replacement.replacement_room)  # it may take an invitation
        return None
    if (event.type, event.state_key, event.sender) != ("m.room.member", me, me):
        return None
    try:
        device.rooms.forget(room_id)
        room = await device.room(room_id)
        if await device.rooms.replaces(device.client, room.predecessor, room_id):
            old = await device.room(room.predecessor)
            if old.direct:
                await device.rooms.add_direct(device.client, device.owner, room_id)
            return parser.moved(event, old, room)
    except Refused as refused:  # the bot has left since
        if refused.status not in (403, 404):
            raise
        return None
    return parser.joined(event, room, me)


async def _report_missing_key(device: MatrixDevice, room_id: str, raw: bytes) -> None:
    """Notify the owner, once for each key."""
    event = parsed(raw, wire.RoomEvent)
    logger.warning("event not decrypted platform=matrix room=%s", room_id)
    if event is None or event.sender != device.owner:
        return
    session = parsed(bytes(event.content), _Encrypted)
    name = f"no key {room_id} {session and session.session_id}"
    content: dict[str, Any] = {"msgtype": "m.notice", "body": _UNREADABLE, "m.mentions": {}}
    try:
        await device.send(
            room_id, "m.room.message", content, hashlib.sha256(name.encode()).hexdigest()[:32]
        )
    except Refused as refused:
        logger.warning("owner not notified platform=matrix room=%s reason=%s", room_id, refused)


class _Encrypted(wire.Struct, frozen=True):
    session_id: str = ""
