"""Updates: one sync after another, and what has to be done before users' words are read."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from segue.platforms import sending
from segue.platforms.base import Inbound, InboundKind
from segue.platforms.errors import Refused, parsed, tolerating_absence
from segue.platforms.matrix import parser, verification
from segue.platforms.matrix.client import FAILURES, path
from segue.platforms.matrix.device import MatrixDevice
from segue.platforms.matrix.keys import NoKey
from segue.platforms.matrix.parser import HERE, Room
from segue.platforms.matrix.wire import EventList, RoomEvent, Synced, room_event

logger = logging.getLogger(__name__)

SECONDS = 25.0
"""How long the server waits for something to happen."""
_LOOK = 0.5
"""The same while the owner compares emoji: `segue verify` confirms them in a file."""
_PAGE, _PAGES = 100, 20
_SINCE = "since"
"""The file with the sync token: everything before it is recorded."""
_UNREADABLE = (
    "I cannot read a message of yours: its key did not reach me. Send it again. If that does not "
    "help, verify me from your client and type `segue verify` in a terminal."
)


async def begin(device: MatrixDevice) -> None:
    """On a device that has never received anything, skip what is there already."""
    if not device.folder.read(_SINCE):
        synced = await device.client.sync("", 0.0)
        await _prepare(device, synced)
        device.folder.write(_SINCE, synced.next_batch)


async def receive(device: MatrixDevice) -> AsyncGenerator[Inbound | None]:
    """Yield updates. A sync is confirmed once all of its updates are recorded."""
    with FAILURES.connecting():
        while True:
            since = device.folder.read(_SINCE)
            seconds = _LOOK if device.verifications.shown else SECONDS
            synced = await device.client.sync(since, seconds)
            await _prepare(device, synced)
            yield None
            for room_id, room in synced.rooms.get("join", {}).items():
                for raw in await _timeline(device, room_id, room.timeline, since):
                    if (inbound := await _inbound(device, room_id, raw)) is not None:
                        yield inbound
            device.folder.write(_SINCE, synced.next_batch)


async def _prepare(device: MatrixDevice, synced: Synced) -> None:
    """Take keys and settings, which later events need, and answer invitations."""
    async with device.keys.alone():
        for event in await device.keys.receive(synced):
            await device.verifications.receive(event)
        await device.verifications.go_on()
    if synced.account_data.events:  # other rooms are direct messages now
        device.rooms.clear()
    for room_id, room in synced.rooms.get("invite", {}).items():
        await _invited(device, room_id, room.invite_state)


async def _invited(device: MatrixDevice, room_id: str, state: EventList) -> None:
    """Accept an invitation of the owner, or to a room that replaces one of ours. Leave others
    alone."""
    room, me = Room(room_id), device.me.user_id
    for event in filter(None, (parsed(bytes(raw), RoomEvent) for raw in state.events)):
        room.apply(event)
        if (event.type, event.state_key) != ("m.room.member", me):
            continue
        if event.sender == device.owner:
            if await device.join(room_id) and event.content.is_direct:
                await device.add_direct(event.sender, room_id)
            return
    if await device.replaces(room.predecessor, room_id):
        await device.join(room_id)
    else:
        logger.info("invitation left alone room=%s", room_id)


async def _timeline(device: MatrixDevice, room_id: str, got: EventList, since: str) -> list[bytes]:
    """The events of a room since the last sync, oldest first, from the bot's invitation on."""
    events, start = [bytes(raw) for raw in got.events], got.prev_batch
    if got.limited:
        device.rooms.pop(room_id, None)  # its state may have changed in between
    for _ in range(_PAGES if got.limited else 0):
        if not start or _arrival(device, events):
            break
        more: Any = {"dir": "b", "from": start, "to": since, "limit": _PAGE}
        page = await device.client.get(f"/rooms{path(room_id)}/messages", **more)
        events[:0] = [bytes(raw) for raw in reversed(page.chunk)]
        start = page.end if page.chunk else ""
    return events[_arrival(device, events) :]


def _arrival(device: MatrixDevice, events: Sequence[bytes]) -> int:
    """Where the bot was invited or, without an invitation, came in. 0 if it was there before."""
    found = 0
    for number, raw in enumerate(events):
        event = parsed(raw, RoomEvent)
        if event and (event.type, event.state_key) == ("m.room.member", device.me.user_id):
            was_here = event.unsigned.prev_content.membership in HERE
            if event.content.membership in HERE and not was_here:
                found = number
    return found


async def _inbound(device: MatrixDevice, room_id: str, raw: bytes) -> Inbound | None:
    """What a user did, or None. State events are applied to the room."""
    try:
        event = room_event(plain := device.plain(room_id, raw))
    except NoKey as missing:
        await _report_missing_key(device, room_id, missing)
        return None
    if event is None:
        logger.warning("updates skipped platform=matrix room=%s", room_id)
        return None
    if event.state_key is not None:
        return await _state(device, room_id, event)
    if event.sender == device.me.user_id:
        return None
    if (event.content.msgtype or event.type).startswith(verification.PREFIX):
        async with device.keys.alone():
            await device.verifications.receive(msgspec.json.decode(plain), room_id)
            await device.verifications.go_on()
        return None
    room, about = await device.room(room_id), await device.original(room_id, event.target)
    if event.type in parser.MESSAGES:
        device.remember(event)
    return parser.parse(event, room, device.me.user_id, device.names, about)


async def _state(device: MatrixDevice, room_id: str, event: RoomEvent) -> Inbound | None:
    """Follow a room that is replaced, and the bot into a room."""
    if room_id in device.rooms:
        device.rooms[room_id].apply(event)
    if event.type == "m.room.tombstone" and event.content.replacement_room:
        await device.join(event.content.replacement_room)  # it may take an invitation
    if event.type != "m.room.member":
        return None
    device.keys.members_changed(room_id)
    me = device.me.user_id
    if (event.state_key, event.sender, event.content.membership) != (me, me, "join"):
        return None
    with tolerating_absence():  # the bot may have left since
        device.rooms.pop(room_id, None)
        room = await device.room(room_id)
        if await device.replaces(room.predecessor, room_id):
            old = await device.room(room.predecessor)
            return parser.inbound(InboundKind.MOVED, event, old, moved_to=room.at())
        if event.unsigned.prev_content.membership == "invite":
            invited = replace(event, sender=event.unsigned.prev_sender or event.sender)
            return parser.inbound(InboundKind.JOINED, invited, room)
    return None


async def _report_missing_key(device: MatrixDevice, room_id: str, missing: NoKey) -> None:
    """Notify the owner, once for each key."""
    logger.warning("event not decrypted platform=matrix room=%s", room_id)
    sender, session = missing.args
    if sender != device.owner:
        return
    key = sending.short_key("no key", room_id, session, length=32)
    content: Any = {"msgtype": "m.notice", "body": _UNREADABLE, "m.mentions": {}}
    try:
        await device.send(room_id, content, key)
    except Refused as refused:
        logger.warning("owner not notified platform=matrix room=%s reason=%s", room_id, refused)
