"""The keys of the bot's device: encryption and decryption with matrix-nio.

matrix-nio does the cryptography, and we make the calls, so that each is known to have arrived or
not. Outbound keys of rooms are kept in memory only: a process that starts makes new ones.
"""

from __future__ import annotations

import contextlib
import logging
import os
import uuid
from collections.abc import AsyncGenerator, Iterable
from functools import partial
from typing import Any

import msgspec
import nio
from nio.crypto import Olm, OlmDevice
from nio.exceptions import EncryptionError
from nio.store import SqliteStore

from segue.platforms.errors import NONSENSE, Lost, Refused, converted, parsed
from segue.platforms.matrix import events
from segue.platforms.matrix.client import path
from segue.platforms.matrix.events import Room
from segue.platforms.matrix.folder import PrivateFolder
from segue.platforms.matrix.identity import MatrixIdentity, named
from segue.platforms.updates import Containment
from segue.system import files

logger = logging.getLogger(__name__)

FILE = "keys.db"
REFUSED = "refused"
"""The file that says that the server has other keys of this device, so that ours are of no use."""
ALGORITHM = "m.megolm.v1.aes-sha2"
"""The one way to encrypt rooms that Matrix has."""
_PICKLE = "segue"  # the folder is private
_LOST = (
    "the keys of the bot's device are not on this machine; type `segue setup matrix --user NAME` "
    "to sign in with a new one"
)
VERIFY = (
    "verify the bot from your client and type `segue verify`, or type "
    "`segue config set platforms.matrix.trust first-use`"
)
_MALFORMED = (AssertionError, EncryptionError, LookupError, TypeError, ValueError)
"""What matrix-nio and vodozemac raise for events of other devices that make no sense."""


class NoKey(Exception):
    """The key of an event did not reach us. Its arguments are the sender and the key's id."""


class Keys:
    def __init__(
        self,
        identity: MatrixIdentity,
        folder: PrivateFolder,
        device_id: str,
        containment: Containment,
        *,
        first_use: bool,
    ) -> None:
        """With `first_use`, trust each device from the first time that it is seen. matrix-nio
        refuses a device whose keys change."""
        self.identity = identity
        self._folder = folder
        self._first_use = first_use
        self._containment = containment
        self._client = identity.client
        me = identity.user_id
        self.rooms: dict[str, str] = {}
        """The rooms of verifications that began in one, by the ids of their requests."""
        os.close(files.open_file(folder.path / FILE))
        self._store: Any = SqliteStore(me, device_id, str(folder.path), _PICKLE, FILE)
        self.olm: Any = Olm(me, device_id, self._store)
        self._version = self._data_version()
        self._encrypted: set[str] = self._store.load_encrypted_rooms()
        self._handled: frozenset[bytes] = frozenset()
        for name in ("nio", "nio.crypto", "peewee"):
            logging.getLogger(name).setLevel(logging.ERROR)

    def close(self) -> None:
        self._store.database.close()

    def _data_version(self) -> Any:
        """A number that changes when another process writes to the store."""
        return self._store.database.execute_sql("PRAGMA data_version").fetchone()

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Lock the keys against other processes, and load what those have changed: a key that two
        processes use at once is broken."""
        async with self._folder.locked():
            version = self._data_version()
            if version != self._version:
                self._version = version
                self.olm.load()
                self.olm.account = self._store.load_account() or self.olm.account
            yield

    # Our own keys, and those of others

    async def publish(self, count: int | None = None) -> None:
        """Upload our keys if the server has too few. `count` is how many it has, if known."""
        self.olm.uploaded_key_count = count
        if not self.olm.should_upload_keys:
            return
        given = self.olm.share_keys()
        # If the process is killed now, the same keys are uploaded again.
        self.olm.save_account()
        try:
            answer = await self._client.post("/keys/upload", given)
        except Refused as refused:
            if refused.says("one time key"):
                self._folder.write(REFUSED, "")
                raise Refused(refused.status, _LOST) from refused
            raise
        count = answer.key_counts.get("signed_curve25519", 0)
        self.olm.handle_response(nio.KeysUploadResponse(0, count))

    async def receive(self, synced: events.Synced) -> list[dict[str, Any]]:
        """Take the keys that other devices sent us. Return the events of those devices."""
        raw = [bytes(it) for it in synced.to_device.events]
        found = [parsed(it, dict[str, Any]) for it in raw if it not in self._handled]
        new = [event for event in found if event is not None]
        for event in new:
            if event.get("type") == "m.room.encrypted":
                self._containment.parse("event of a device", partial(self.take, event))
        await self.reply()
        self._handled = frozenset(raw)
        changed = self.olm.tracked_users.intersection(synced.device_lists.get("changed", ()))
        if changed:
            self.olm.add_changed_users(changed)
            self.olm.outbound_group_sessions.clear()
        await self.publish(synced.key_counts.get("signed_curve25519", 0))
        return new

    def take(self, event: dict[str, Any]) -> None:
        """Give an event to matrix-nio."""
        kinds: Any = nio.ToDeviceEvent
        try:
            found = kinds.parse_event(event)
            if isinstance(found, nio.ToDeviceEvent):
                self.olm.handle_to_device_event(found)
        except _MALFORMED as error:  # anyone can send one
            logger.warning("update skipped platform=matrix reason=%r", error)

    async def reply(self) -> None:
        """Start new sessions with devices that lost our keys, and send what matrix-nio replies."""
        attempt = self._containment.attempt
        if self.olm.wedged_devices:
            wanted = self.olm.get_users_for_key_claiming()
            await attempt("keys of devices", partial(self._claim, wanted), self._give_up)
        for message in list(self.olm.outgoing_to_device_messages):
            await attempt("reply to a device", partial(self.send, message))
            self.olm.handle_response(nio.ToDeviceResponse(message))

    async def _give_up(self, _: str) -> None:
        """Start no sessions with the devices that lost our keys. They can ask again."""
        self.olm.wedged_devices.clear()

    async def send(self, message: Any) -> None:
        """Send a ToDeviceMessage, which is only partly typed. If it belongs to a verification in a
        room, send it there."""
        content = dict(message.content)
        room_id = self.rooms.get(content.get("transaction_id", ""))
        if room_id is None:
            given = {message.recipient: {message.recipient_device: content}}
            await self._deliver(message.type, given)
            return
        request = content.pop("transaction_id")
        content["m.relates_to"] = {"rel_type": "m.reference", "event_id": request}
        where = f"/rooms{path(room_id)}/send{path(message.type, uuid.uuid4().hex)}"
        # Not encrypted: it is no secret, and the owner's devices may not be trusted yet.
        await self._client.put(where, content)

    async def _deliver(self, kind: str, messages: object) -> None:
        where = f"/sendToDevice{path(kind, uuid.uuid4().hex)}"
        await self._client.put(where, {"messages": messages})

    async def _ask(self, where: str, given: object, kind: Any) -> dict[str, Any]:
        """Ask for keys of others, and give the answer to matrix-nio."""
        answer = await self._client.post(where, given, dict[str, Any])
        response = kind.from_dict(answer)
        if not isinstance(response, kind):
            raise Lost(NONSENSE, arrived=True)
        self.olm.handle_response(response)
        return answer

    async def query(self, users: Iterable[str]) -> None:
        """Ask for the devices of these users. Trust those that the owner's identity vouches for,
        and none of the owner's if that has changed."""
        given = {"device_keys": {user: list[str]() for user in users}}
        answer = await self._ask("/keys/query", given, nio.KeysQueryResponse)
        found = converted(answer, events.QueriedKeys) or events.QueriedKeys()
        vouched = self.identity.vouched(found)
        for device in self.olm.device_store.active_user_devices(self.identity.owner):
            if vouched is None:
                self.olm.unverify_device(device)
            elif vouched.get(device.id) == named(device.id, device.keys):
                self.olm.verify_device(device)

    async def _claim(self, devices: dict[str, list[str]]) -> None:
        wanted = {user: dict.fromkeys(ids, "signed_curve25519") for user, ids in devices.items()}
        await self._ask("/keys/claim", {"one_time_keys": wanted}, nio.KeysClaimResponse)

    def is_verified(self, user_id: str) -> bool:
        """Whether a device of the user is verified."""
        devices = self.olm.device_store.active_user_devices(user_id)
        return any(map(self.olm.is_device_verified, devices))

    def trust(self, device: OlmDevice, master: str) -> None:
        """Trust a device and, if it is the owner's, that identity."""
        self.olm.verify_device(device)
        if device.user_id == self.identity.owner:
            self.identity.verify(master)
            self.olm.add_changed_users({device.user_id})
        self.olm.outbound_group_sessions.clear()

    # Rooms and events

    def is_encrypted(self, room_id: str, *, says: bool) -> bool:
        """Whether a room is encrypted, or ever was: a server that denies it later is not believed.
        `says`: whether its state says that it is encrypted."""
        if says and room_id not in self._encrypted:
            self._encrypted.add(room_id)
            self._store.save_encrypted_rooms({room_id})
        return room_id in self._encrypted

    def members_changed(self, room_id: str) -> None:
        """Make a new key before the next message: only those who are there now may read it."""
        self.olm.outbound_group_sessions.pop(room_id, None)

    async def encrypt(self, room: Room, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        """The content of the encrypted event. Raise Refused if no device may read it."""
        async with self.alone():
            while self.olm.should_share_group_session(room.id):  # a new member may undo it
                await self._share(room)
            made = self.olm.group_encrypt(room.id, {"content": content, "type": kind})
        relation = content.get("m.relates_to")
        if relation:
            made["m.relates_to"] = relation  # never encrypted
        return made

    async def _share(self, room: Room) -> None:
        """Make a key for the room, and send it to the devices that may read it."""
        olm = self.olm
        users = list(room.members)
        unknown = set(users) - (olm.tracked_users - olm.users_for_key_query)
        if unknown:
            await self.query(unknown)
        missing = olm.get_missing_sessions(users)
        if missing:
            await self._claim(dict(missing))
        olm.create_outbound_group_session(room.id)
        session = olm.outbound_group_sessions[room.id]
        devices: list[OlmDevice] = []
        for user in users:
            devices += olm.device_store.active_user_devices(user)
        others = [it for it in devices if (it.user_id, it.id) != (olm.user_id, olm.device_id)]
        unverified: list[OlmDevice] = []
        if not self._first_use:
            unverified = [it for it in others if not olm.is_device_verified(it)]
        if unverified:
            names = ", ".join(f"{it.user_id} {it.id}" for it in unverified)
            logger.warning("unverified devices skipped room=%s devices=%s", room.id, names)
            if len(unverified) == len(others):
                raise Refused(403, f"no device that reads this room is verified; {VERIFY}")
        session.users_ignored.update((it.user_id, it.id) for it in unverified)
        share = olm.share_group_session_parallel
        for _, given in share(room.id, users, ignore_unverified_devices=True):
            await self._deliver("m.room.encrypted", given["messages"])
        session.shared = True

    def decrypt(self, room_id: str, raw: bytes) -> bytes:
        """The event inside an encrypted one. Empty if it is malformed. Raise NoKey."""
        parse: Any = nio.Event.parse_event
        event = parse(msgspec.json.decode(raw))
        if not isinstance(event, nio.MegolmEvent):
            return b""
        try:
            found = self.olm.decrypt_megolm_event(event, room_id).source
        except _MALFORMED as error:
            known = self.olm.inbound_group_store.get(room_id, event.sender_key, event.session_id)
            if known is None:
                raise NoKey(event.sender, event.session_id) from error
            logger.warning("encrypted event refused room=%s reason=%s", room_id, error)
            return b""
        if found.get("room_id") != room_id:
            return b""
        unsigned = event.source.get("unsigned", {})
        return msgspec.json.encode({**found, "unsigned": unsigned})
