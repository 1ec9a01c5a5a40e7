"""Updates: one sync after another.

A sync contains only the end of what was said in a room since the last one, so `RoomHistory` reads
the rest. Keys, settings and invitations are handled before the messages of users.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.core.address import Platform, Sender
from segue.platforms import sending
from segue.platforms.backlog import BacklogPage, CatchUp, gap
from segue.platforms.base import Inbound, InboundKind, Wanted
from segue.platforms.connection import PollPace
from segue.platforms.errors import Lost, Refused, parsed, tolerating_absence
from segue.platforms.matrix import events, verification
from segue.platforms.matrix.client import FAILURES, path
from segue.platforms.matrix.device import MatrixDevice
from segue.platforms.matrix.events import HERE, EventList, Room, RoomEvent, Synced, state_event
from segue.platforms.matrix.keys import NoKey

SINCE = "since"
"""The file with the sync token: everything before it is recorded."""
SECONDS = 25.0
"""How long the server waits for an update."""
_CONFIRMATION_SECONDS = 0.5
"""The same while the owner compares emoji: `segue verify` confirms them in a file."""
_PAGE = 100
_TOMBSTONE = "m.room.tombstone"
_SAID = (*events.MESSAGES, "m.room.encrypted")
_UNREADABLE = (
    "I cannot read a message of yours: its key did not reach me. Send it again. If that does not "
    "help, verify me from your client and type `segue verify` in a terminal."
)
_SET_ASIDE = (
    "I could not read a message of yours, because the server did not answer what I asked about it. "
    "Send it again."
)
_NOT_ENCRYPTED = (
    "I did not read a message in your name: this room is encrypted and the message was not, so the "
    "server could have made it up. If it is yours, send it from a client that encrypts, or use a "
    "room without encryption."
)

logger = logging.getLogger(__name__)


class _Timed(Struct, frozen=True):
    origin_server_ts: int


class _EventHead(Struct, frozen=True):
    type: str = ""
    sender: str = ""
    event_id: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    events: Sequence[bytes]
    """Oldest first, from the bot's invitation on."""
    gap: Inbound | None = None
    """The time that was not read, if there is one."""


class RoomHistory:
    """Reads the rooms of one adapter."""

    def __init__(self) -> None:
        self.wanted: Wanted | None = None
        self.is_read = True
        """Whether no room is being read of which the sync had only the end."""
        self._catch_up = CatchUp(FAILURES)

    def begin(self) -> None:
        """A sync has arrived, and its rooms are read."""
        self._catch_up.begin()

    def end(self) -> None:
        """All updates of the sync are recorded."""
        self.is_read = True

    async def read(
        self, device: MatrixDevice, room_id: str, got: EventList, since: str
    ) -> Timeline:
        """The events of a room since the sync token `since`."""
        if not got.limited:
            return Timeline(_from_arrival(device, [bytes(raw) for raw in got.events]))
        self.is_read = False
        device.rooms.pop(room_id, None)  # its state may have changed in between
        device.keys.members_changed(room_id)

        async def page(begin: str) -> BacklogPage[bytes]:
            if not begin:
                return _page(device, got.events[::-1], got.prev_batch)
            query: Any = {"dir": "b", "from": begin, "to": since, "limit": _PAGE}
            found = await device.client.get(f"/rooms{path(room_id)}/messages", **query)
            following = found.end if found.chunk else ""
            return _page(device, found.chunk, following)

        async def wanted(raw: bytes) -> bool:
            return await self._is_wanted(device, raw)

        now = datetime.now(UTC)
        past = await self._catch_up.read(room_id, page, wanted)
        oldest_first = past.found[::-1]
        if past.is_complete:
            return Timeline(oldest_first)
        with tolerating_absence():  # the bot may have left since
            room = await device.room(room_id)
            missing = gap(room.at(), device.folder.written(SINCE), past, now)
            return Timeline(oldest_first, missing)
        return Timeline(oldest_first)

    async def _is_wanted(self, device: MatrixDevice, raw: bytes) -> bool:
        """Whether it is from a user whom the gateway knows, or about the bot or the whole room.
        Other state is asked for again."""
        if self.wanted is None:
            return True
        event = parsed(raw, RoomEvent)
        if event is None:
            return False
        if event.state_key is not None:
            return event.state_key == device.me.user_id or event.type == _TOMBSTONE
        if event.sender in (device.owner, device.me.user_id):
            return True
        sender = Sender(platform=Platform.MATRIX, user_id=event.sender)
        return await self.wanted(sender, event.content.body)


def _page(device: MatrixDevice, newest_first: Sequence[Any], following: str) -> BacklogPage[bytes]:
    events = [bytes(raw) for raw in reversed(newest_first)]
    here = _from_arrival(device, events)
    has_arrival = _arrival(device, events) is not None
    return BacklogPage(
        found=here[::-1],
        size=len(events),
        edge=_time(here[0]) if here else None,
        next="" if has_arrival else following,
    )


def _time(raw: bytes) -> datetime | None:
    """The time of an event. Another server wrote it, so it may be out of range."""
    event = parsed(raw, _Timed)
    if event is None:
        return None
    milliseconds = event.origin_server_ts
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _from_arrival(device: MatrixDevice, events: Sequence[bytes]) -> Sequence[bytes]:
    arrival = _arrival(device, events)
    return events if arrival is None else events[arrival:]


def _arrival(device: MatrixDevice, events: Sequence[bytes]) -> int | None:
    """The index of the event by which the bot was invited or, without an invitation, joined. None
    if it was there before."""
    found = None
    for number, raw in enumerate(events):
        event = parsed(raw, RoomEvent)
        if event is None or event.type != "m.room.member" or event.state_key != device.me.user_id:
            continue
        was_here = event.unsigned.prev_content.membership in HERE
        if event.content.membership in HERE and not was_here:
            found = number
    return found


# Syncs


async def begin(device: MatrixDevice) -> None:
    """On a device that has never received updates, skip those of the time before."""
    if not device.folder.read(SINCE):
        synced = await device.client.sync("", 0.0)
        await _prepare(device, synced)
        device.folder.write(SINCE, synced.next_batch)


async def receive(device: MatrixDevice, history: RoomHistory) -> AsyncGenerator[Inbound | None]:
    """Yield updates. A sync is confirmed once all of its updates are recorded."""
    polls = PollPace()
    with FAILURES.connecting():
        while True:
            polls.begin()
            since = device.folder.read(SINCE)
            seconds = _CONFIRMATION_SECONDS if device.verifications.shown else SECONDS
            synced = await device.client.sync(since, seconds)
            await _prepare(device, synced)
            yield None
            history.begin()
            for room_id, room in synced.rooms.get("join", {}).items():
                timeline = await history.read(device, room_id, room.timeline, since)
                if timeline.gap is not None:
                    yield timeline.gap
                edits = _Edits(device, room_id, timeline.events)
                for raw in timeline.events:
                    inbound = await _handle(device, room_id, raw, edits)
                    if inbound is not None:
                        yield inbound
            device.folder.write(SINCE, synced.next_batch)
            history.end()
            await polls.end(seconds, is_empty=not synced.rooms and synced.next_batch == since)


async def _prepare(device: MatrixDevice, synced: Synced) -> None:
    """Take keys and settings, which later events need, and answer invitations."""
    attempt = device.containment.attempt
    async with device.keys.alone():
        for event in await device.keys.receive(synced):
            await attempt("event of a device", partial(device.verifications.receive, event))
        await attempt("verification", device.verifications.go_on)
    if synced.account_data.events:  # other rooms are direct messages now
        device.rooms.clear()
    for room_id, room in synced.rooms.get("invite", {}).items():
        answer = partial(_invited, device, room_id, room.invite_state)
        await attempt(f"invitation to {room_id}", answer)


async def _invited(device: MatrixDevice, room_id: str, state: EventList) -> None:
    """Accept an invitation of the owner, or to a room that replaces one of ours. Leave others
    alone."""
    room = Room(room_id)
    for raw in state.events:
        event = state_event(bytes(raw))
        if event is None:
            continue
        room.apply(event)
        is_invitation = (event.type, event.state_key) == ("m.room.member", device.me.user_id)
        if is_invitation and event.sender == device.owner:
            has_joined = await device.join(room_id)
            if has_joined and event.content.is_direct:
                await device.add_direct(event.sender, room_id)
            return
    if await device.replaces(room.predecessor, room_id):
        await device.join(room_id)
    else:
        logger.info("invitation left alone room=%s", room_id)


class _Edits:
    """The edits among the events of a room that arrive together. A message that was edited while
    the bot was away is read once, as it is now: every edit of it has the newest text, and the
    gateway drops an edit that changes nothing."""

    def __init__(self, device: MatrixDevice, room_id: str, events: Sequence[bytes]) -> None:
        self._device = device
        self._room_id = room_id
        self._raw: dict[str, list[bytes]] = {}
        """The edits of each message, oldest first. Their relations are never encrypted."""
        for raw in events:
            event = parsed(raw, RoomEvent)
            if event is not None and event.content.relation.rel_type == "m.replace":
                self._raw.setdefault(event.target, []).append(raw)

    def apply(self, event: RoomEvent) -> RoomEvent:
        """The message, or the edit, with the newest text."""
        if event.content.relation.rel_type == "m.replace":
            message = replace(event, event_id=event.target)  # by the same author
            edit = self._newest(message)
            return event if edit is None else replace(event, content=edit.content)
        edit = self._newest(event) or self._device.newest(self._room_id, event)
        return event if edit is None else event.edited(edit)

    def _newest(self, message: RoomEvent) -> RoomEvent | None:
        for raw in reversed(self._raw.get(message.event_id, [])):
            with contextlib.suppress(NoKey):  # it is reported when it is handled
                edit = self._device.read(self._room_id, raw)
                if edit is not None and edit.is_edit_of(message):
                    return edit
        return None


async def _handle(device: MatrixDevice, room_id: str, raw: bytes, edits: _Edits) -> Inbound | None:
    """Return what a user did, or None. An event that fails is set aside, and if it is the owner's,
    the owner is notified."""
    head = parsed(raw, _EventHead) or _EventHead()
    work = partial(_inbound, device, room_id, raw, edits)
    report = partial(_report_failure, device, room_id, head)
    item = f"event {head.event_id}"
    return await device.containment.attempt(item, work, report, place=f"room {room_id}")


async def _inbound(device: MatrixDevice, room_id: str, raw: bytes, edits: _Edits) -> Inbound | None:
    """Return what a user did, or None. State events are applied to the room."""
    try:
        event = device.read(room_id, raw)
    except NoKey as missing:
        await _report_missing_key(device, room_id, missing)
        return None
    if event is None:
        logger.warning("updates skipped platform=matrix room=%s", room_id)
        device.rooms.pop(room_id, None)  # it may have been a state event
        return None
    if event.state_key is not None:
        return await _state(device, room_id, event)
    if event.sender == device.me.user_id:
        return None
    if (event.content.msgtype or event.type).startswith(verification.PREFIX):
        async with device.keys.alone():
            plain = msgspec.json.decode(device.plain(room_id, raw))
            await device.verifications.receive(plain, room_id)
            await device.verifications.go_on()
        return None
    room = await device.room(room_id)
    if event.redacted:
        return events.redaction(event, room, device.known(event.redacted))
    if event.type in events.MESSAGES and room.encrypted and not event.was_encrypted:
        await _report_plaintext(device, room_id, event)
        return None
    about = await device.about(room_id, event)
    if event.type in events.MESSAGES:
        event = edits.apply(event)
        device.remember(event)
    return events.parse(event, room, device.me.user_id, device.names, about)


async def _state(device: MatrixDevice, room_id: str, event: RoomEvent) -> Inbound | None:
    """Follow a room that is replaced, and the bot into a room."""
    if room_id in device.rooms:
        device.rooms[room_id].apply(event)
    new = event.content.replacement_room
    if (event.type, event.state_key) == ("m.room.tombstone", "") and new:
        await device.join(new, is_asked=False)  # it may take an invitation
    if event.type != "m.room.member":
        return None
    device.keys.members_changed(room_id)
    me = device.me.user_id
    has_joined = event.content.membership == "join"
    if not has_joined or event.state_key != me or event.sender != me:
        return None
    device.rename(event.content.displayname)
    with tolerating_absence():  # the bot may have left since
        device.rooms.pop(room_id, None)
        room = await device.room(room_id)
        if await device.replaces(room.predecessor, room_id):
            old = await device.room(room.predecessor)
            return events.inbound(InboundKind.MOVED, event, old, moved_to=room.at())
        if event.unsigned.prev_content.membership == "invite":
            invited = replace(event, sender=event.unsigned.prev_sender or event.sender)
            return events.inbound(InboundKind.JOINED, invited, room)
    return None


async def _report_missing_key(device: MatrixDevice, room_id: str, missing: NoKey) -> None:
    """Notify the owner, once for each key."""
    logger.warning("event not decrypted platform=matrix room=%s", room_id)
    sender, session = missing.args
    if sender == device.owner:
        await _notify(device, room_id, _UNREADABLE, f"no key {session}")


async def _report_plaintext(device: MatrixDevice, room_id: str, event: RoomEvent) -> None:
    """Notify the owner, once for each room, that messages are not read that the server could have
    made up. A bridge may write many of them."""
    logger.warning("event not encrypted platform=matrix room=%s", room_id)
    if event.sender == device.owner and room_id not in device.warned:
        device.warned.add(room_id)
        await _notify(device, room_id, _NOT_ENCRYPTED, "not encrypted")


async def _report_failure(device: MatrixDevice, room_id: str, event: _EventHead, _: str) -> None:
    """Notify the owner of a message that was set aside."""
    if event.sender == device.owner and event.type in _SAID:
        await _notify(device, room_id, _SET_ASIDE, f"set aside {event.event_id}")


async def _notify(device: MatrixDevice, room_id: str, text: str, key: str) -> None:
    """Write to the owner. The same key writes once."""
    content: Any = {"msgtype": "m.notice", "body": text, "m.mentions": {}}
    try:
        await device.send(room_id, content, sending.short_key(key, room_id, length=32))
    except (Refused, Lost) as error:
        logger.warning("owner not notified platform=matrix room=%s reason=%s", room_id, error)
