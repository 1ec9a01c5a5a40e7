"""The keys of the bot's device: encryption and decryption with matrix-nio.

matrix-nio does the cryptography, and we make the calls, so that each is known to have arrived or
not. Outbound keys of rooms are kept in memory only: a process that starts makes new ones.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import vodozemac
from nio import KeysClaimResponse, KeysQueryResponse, KeysUploadResponse, ToDeviceEvent
from nio.crypto import Olm, OlmDevice
from nio.exceptions import EncryptionError
from nio.store import SqliteStore

from segue.platforms.errors import NONSENSE, Lost, Refused, parsed
from segue.platforms.matrix import wire
from segue.platforms.matrix.client import UNVERIFIED, MatrixClient, path
from segue.platforms.matrix.rooms import Room
from segue.platforms.matrix.state import DeviceFolder

logger = logging.getLogger(__name__)

_FILE = "keys.db"
_PICKLE = "segue"  # the folder is private


_MALFORMED = (AssertionError, EncryptionError, LookupError, TypeError, ValueError)
"""What matrix-nio and vodozemac raise for events of other devices that make no sense."""


class NoKey(Exception):
    """The key of an event did not reach us."""


class Keys:
    def __init__(self, folder: DeviceFolder, me: wire.DeviceIdentity, *, first_use: bool) -> None:
        """`first_use`: trust each device from the first time that it is seen. matrix-nio refuses
        one whose keys change."""
        self._folder = folder
        self._first_use = first_use
        os.close(os.open(folder.path / _FILE, os.O_RDWR | os.O_CREAT, 0o600))
        self._store: Any = SqliteStore(me.user_id, me.device_id, str(folder.path), _PICKLE, _FILE)
        self.olm: Any = Olm(me.user_id, me.device_id, self._store)
        self._version = self._data_version()
        self._encrypted: set[str] = self._store.load_encrypted_rooms()
        self._handled: frozenset[bytes] = frozenset()
        for name in ("nio", "nio.crypto", "peewee"):
            logging.getLogger(name).setLevel(logging.ERROR)

    def close(self) -> None:
        self._store.database.close()

    def _data_version(self) -> Any:
        """It changes when another process has written."""
        return self._store.database.execute_sql("PRAGMA data_version").fetchone()

    def _refresh(self) -> None:
        """Take what another process has changed: to use the same key twice would break it."""
        if (version := self._data_version()) != self._version:
            self._version = version
            self.olm.session_store = self._store.load_sessions()
            self.olm.device_store = self._store.load_device_keys()
            self.olm.account = self._store.load_account() or self.olm.account

    # Our own keys, and those of others

    async def publish(self, client: MatrixClient, count: int | None = None) -> None:
        """Upload our keys, if the server has too few. `count`: how many it has."""
        self.olm.uploaded_key_count = count
        if self.olm.should_upload_keys:
            async with self._folder.locked():
                self._refresh()
                if self.olm.should_upload_keys:
                    await self._upload(client)

    async def _upload(self, client: MatrixClient) -> None:
        given = self.olm.share_keys()
        # If we are killed now, the same keys are uploaded again.
        self.olm.save_account()
        counts = await client.post("/keys/upload", dict[str, dict[str, int]], given)
        found = counts.get("one_time_key_counts", {}).get("signed_curve25519", 0)
        self.olm.handle_response(KeysUploadResponse(0, found))

    async def receive(self, client: MatrixClient, synced: wire.Synced) -> list[dict[str, Any]]:
        """Take the keys that other devices sent us. Return these events."""
        raw = [bytes(it) for it in synced.to_device.events]
        new = [it for it in raw if it not in self._handled]
        found = [msgspec.json.decode(it, type=dict[str, Any]) for it in new]
        if found:
            async with self._folder.locked():
                self._refresh()
                for event in found:
                    if event.get("type") == "m.room.encrypted":
                        self.take(event)
                await self.reply(client)
        self._handled = frozenset(raw)
        tracked = self.olm.tracked_users.intersection(synced.device_lists.changed)
        if tracked:
            self.olm.add_changed_users(tracked)
            self.olm.outbound_group_sessions.clear()
        await self.publish(client, synced.key_counts.get("signed_curve25519", 0))
        return found

    def take(self, event: dict[str, Any]) -> None:
        """Give an event to matrix-nio."""
        kinds: Any = ToDeviceEvent
        found = kinds.parse_event(event)
        if isinstance(found, ToDeviceEvent):
            try:
                self.olm.handle_to_device_event(found)
            except _MALFORMED as error:  # anyone can send one
                logger.warning("update skipped platform=matrix reason=%r", error)

    async def reply(self, client: MatrixClient) -> None:
        """Start new sessions with devices that lost our keys, and send what matrix-nio replies."""
        if self.olm.wedged_devices:
            await self._claim(client, self.olm.get_users_for_key_claiming())
        for message in list(self.olm.outgoing_to_device_messages):
            await self.send(client, message)
            self.olm.outgoing_to_device_messages.remove(message)

    async def send(self, client: MatrixClient, message: Any) -> None:
        """Send a ToDeviceMessage, which is only partly typed."""
        await self._deliver(
            client, message.type, {message.recipient: {message.recipient_device: message.content}}
        )

    async def _deliver(self, client: MatrixClient, kind: str, messages: object) -> None:
        where = f"/sendToDevice{path(kind, uuid.uuid4().hex)}"
        await client.put(where, dict[str, Any], {"messages": messages})

    async def _query(self, client: MatrixClient, users: Iterable[str]) -> None:
        given = {"device_keys": {user: list[str]() for user in users}}
        answer = await client.post("/keys/query", dict[str, Any], given)
        found = KeysQueryResponse.from_dict(answer)
        if not isinstance(found, KeysQueryResponse):
            raise Lost(NONSENSE, arrived=True)
        self.olm.handle_response(found)
        if found.changed:
            self.olm.outbound_group_sessions.clear()

    async def _claim(self, client: MatrixClient, devices: dict[str, list[str]]) -> None:
        wanted = {user: dict.fromkeys(ids, "signed_curve25519") for user, ids in devices.items()}
        answer = await client.post("/keys/claim", dict[str, Any], {"one_time_keys": wanted})
        found = KeysClaimResponse.from_dict(answer)
        if not isinstance(found, KeysClaimResponse):
            raise Lost(NONSENSE, arrived=True)
        self.olm.handle_response(found)

    def device(self, user_id: str, device_id: str) -> OlmDevice | None:
        return self.olm.device_store[user_id].get(device_id)

    async def find(self, client: MatrixClient, user_id: str, device_id: str) -> OlmDevice | None:
        """A device of a user, of which the server is asked."""
        async with self._folder.locked():
            self._refresh()
            await self._query(client, [user_id])
        return self.device(user_id, device_id)

    def knows(self, user_id: str) -> bool:
        """Whether a device of the user is verified."""
        return any(map(self.is_trusted, self.olm.device_store.active_user_devices(user_id)))

    def trust(self, device: OlmDevice) -> None:
        self.olm.verify_device(device)
        self.olm.outbound_group_sessions.clear()

    def is_trusted(self, device: OlmDevice) -> bool:
        return self._first_use or self.olm.is_device_verified(device)

    # Rooms and events

    def is_encrypted(self, room_id: str, *, says: bool) -> bool:
        """Whether a room is encrypted, or ever was: a server that denies it later is not
        believed."""
        if says and room_id not in self._encrypted:
            self._encrypted.add(room_id)
            self._store.save_encrypted_rooms({room_id})
        return room_id in self._encrypted

    def members_changed(self, room_id: str) -> None:
        """Make a new key before the next message: only those who are there now may read it."""
        self.olm.outbound_group_sessions.pop(room_id, None)

    async def encrypt(
        self, client: MatrixClient, room: Room, kind: str, given: dict[str, Any]
    ) -> dict[str, Any]:
        """The content of the encrypted event. Raise Refused if no device may read it."""
        while self.olm.should_share_group_session(room.id):
            async with self._folder.locked():
                self._refresh()
                # Another message may have done it, and a new member may have undone it.
                if self.olm.should_share_group_session(room.id):
                    await self._share(client, room)
        made = self.olm.group_encrypt(room.id, {"content": given, "type": kind})
        if relation := given.get("m.relates_to"):
            made["m.relates_to"] = relation
        return made

    async def _share(self, client: MatrixClient, room: Room) -> None:
        """Make a key for the room, and send it to the devices that may read it."""
        olm, users = self.olm, list(room.members)
        unknown = [
            it for it in users if it not in olm.tracked_users or it in olm.users_for_key_query
        ]
        if unknown:
            await self._query(client, unknown)
        if missing := olm.get_missing_sessions(users):
            await self._claim(client, dict(missing))
        olm.create_outbound_group_session(room.id)
        session = olm.outbound_group_sessions[room.id]
        devices = [
            device
            for user in users
            for device in olm.device_store.active_user_devices(user)
            if (device.user_id, device.id) != (olm.user_id, olm.device_id)
        ]
        others = [device for device in devices if not self.is_trusted(device)]
        session.users_ignored.update((device.user_id, device.id) for device in others)
        if others:
            self._report(room, others)
        if others and len(others) == len(devices):
            raise Refused(403, "no verified devices", code=UNVERIFIED)
        while True:
            shared, given = olm.share_group_session(
                room.id, users, ignore_missing_sessions=True, ignore_unverified_devices=True
            )
            if not shared:
                break
            await self._deliver(client, "m.room.encrypted", given["messages"])
            session.users_shared_with.update(shared)
        session.shared = True

    def _report(self, room: Room, devices: Sequence[OlmDevice]) -> None:
        names = ", ".join(f"{device.user_id} {device.id}" for device in devices)
        logger.warning("unverified devices skipped room=%s devices=%s", room.id, names)

    def decrypt(self, room_id: str, event: wire.RoomEvent, raw: bytes) -> wire.RoomEvent | None:
        """The event that is in an encrypted one, or None if it is malformed. Raise NoKey."""
        found = parsed(raw, _EncryptedEvent)
        if found is None:
            return None
        content = found.content
        session = self.olm.inbound_group_store.get(room_id, content.sender_key, content.session_id)
        if session is None:
            raise NoKey
        try:
            plain, index = session.decrypt(content.ciphertext)
        except (vodozemac.MegolmDecryptionException, vodozemac.DecodeException):
            return None
        inner = parsed(plain, _Decrypted)
        device = self.olm.device_store.device_from_sender_key(event.sender, content.sender_key)
        forged = device is not None and device.ed25519 != session.ed25519
        names = {"sender_key": content.sender_key, "session_id": content.session_id}
        replay = SimpleNamespace(**names, event_id=event.event_id, server_timestamp=0)
        if forged or not self.olm.message_index_ok(index, replay):
            logger.warning("encrypted event refused room=%s event=%s", room_id, event.event_id)
            return None
        if inner is None or inner.room_id != room_id:
            return None
        # The relation is not encrypted.
        body = msgspec.json.encode({"m.relates_to": content.relation, **inner.content})
        return msgspec.structs.replace(event, type=inner.type, content=msgspec.Raw(body))


class _EncryptedContent(msgspec.Struct, frozen=True):
    sender_key: str
    session_id: str
    ciphertext: str
    relation: dict[str, Any] = msgspec.field(name="m.relates_to", default={})


class _EncryptedEvent(msgspec.Struct, frozen=True):
    content: _EncryptedContent


class _Decrypted(msgspec.Struct, frozen=True):
    type: str
    content: dict[str, Any]
    room_id: str
