"""Verification by emoji (SAS), which the owner begins in their client: between two devices, or
with a message in a room.

The bot cannot see whether the emoji are the same, so the owner looks at both: their client shows
them, and so does `segue verify`, which confirms them. The two meet in the private folder of the
device.
"""

from __future__ import annotations

import hashlib
import logging
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace
from nio.api import Api
from nio.crypto import Sas
from nio.event_builders import ToDeviceMessage
from unpaddedbase64 import encode_base64

from segue.platforms.errors import converted
from segue.platforms.matrix.events import Relation
from segue.platforms.matrix.folder import FILE, PendingVerification, PrivateFolder
from segue.platforms.matrix.keys import Keys

logger = logging.getLogger(__name__)

PREFIX = "m.key.verification."
_METHOD = "m.sas.v1"
_MAC = "hkdf-hmac-sha256.v2"
_PATIENCE = timedelta(minutes=10)


class Verifications:
    """The verifications of the owner's devices, and of the owner's identity with them."""

    def __init__(self, keys: Keys, folder: PrivateFolder) -> None:
        self._keys = keys
        self._folder = folder
        self.shown: Sas | None = None
        """The one whose emoji the owner has to compare."""
        self._proven = ""
        """The identity whose MAC was right. Empty if there was none."""

    async def receive(self, event: dict[str, Any], room_id: str = "") -> None:
        """Take an event of another device, or of a user in a room. Only the owner may verify, and
        other clients of the bot's account, so that they sign its device."""
        content = converted(event.get("content"), dict[str, Any]) or {}
        name = str(content.get("msgtype") or event.get("type"))
        if not name.startswith(PREFIX):
            return
        olm = self._keys.olm
        sender = str(event.get("sender"))
        if sender not in (self._keys.identity.owner, olm.user_id):
            logger.warning("verification refused sender=%s", sender)
            return
        kind = name.removeprefix(PREFIX)
        transaction = content.get("transaction_id")
        if room_id:
            transaction = self._request_in_room(room_id, event, content)
        if not isinstance(transaction, str):
            return
        if kind == "request":
            device = str(content.get("from_device"))
            given = {"methods": [_METHOD], "from_device": olm.device_id}
            await self._send("ready", sender, device, transaction, **given)
        if kind == "start":  # matrix-nio has to know the device
            await self._keys.query([sender])
        self._keys.take({**event, "content": {**content, "transaction_id": transaction}})
        sas: Sas | None = olm.key_verifications.get(transaction)
        if sas is not None and not sas.canceled and kind == "start":
            await self._keys.send(_accept(sas, content))
        if sas is not None and not sas.canceled and kind == "key":
            self._show(sas)  # before the other side can, so that `segue verify` finds it
        if sas is not None and sas is self.shown and kind == "mac":
            self._proven = self._proof(sas, content)
        await self._keys.reply()

    def _request_in_room(
        self, room_id: str, event: dict[str, Any], content: dict[str, Any]
    ) -> str | None:
        """The request that an event of a room belongs to, or None if it is not to the bot."""
        relation = converted(content.get("m.relates_to"), Relation)
        request = str(event["event_id"])
        if content.get("to") == self._keys.olm.user_id:
            self._keys.rooms[request] = room_id
        elif relation is not None:
            request = relation.event_id
        return request if self._keys.rooms.get(request) == room_id else None

    async def go_on(self) -> None:
        """Confirm the emoji if the owner has confirmed them, and trust the device if both sides
        have."""
        sas = self.shown
        pending = self._folder.load(PendingVerification, FILE)
        if sas is None or pending is None or _is_over(sas, pending):
            self.shown = None
            if pending is not None and not pending.verified:
                (self._folder.path / FILE).unlink()
            return
        if pending.confirmed and not sas.sas_accepted:
            sas.accept_sas()
            await self._keys.send(self._macs(sas))
        if sas.verified and sas.verified_devices:  # matrix-nio takes a MAC of no device, too
            device = sas.other_olm_device
            self.shown = None
            self._keys.trust(device, self._proven)
            self._folder.save(FILE, replace(pending, verified=True))
            logger.info("device verified user=%s device=%s", device.user_id, device.id)
            await self._send("done", device.user_id, device.id, sas.transaction_id)

    def _show(self, sas: Sas) -> None:
        """Show the emoji to the owner."""
        self.shown = sas
        other = sas.other_olm_device
        emoji = _emoji(sas)
        self._proven = ""
        shown = PendingVerification(sas.transaction_id, other.user_id, other.id, emoji)
        self._folder.save(FILE, shown)
        text = " ".join(f"{sign} {name}" for sign, name in emoji)
        logger.info("verification waits for `segue verify` device=%s emoji=%s", other.id, text)

    async def _send(self, kind: str, user: str, device: str, name: str, **content: Any) -> None:
        content["transaction_id"] = name
        await self._keys.send(ToDeviceMessage(PREFIX + kind, user, device, content))

    def _macs(self, sas: Sas) -> Any:
        """The MACs of our device and, if it is ours, of the identity of the bot's account."""
        made: Any = sas.get_mac()
        master = self._keys.identity.master
        if master:
            macs = made.content["mac"]
            macs[f"ed25519:{master}"] = _mac(sas, master, f"ed25519:{master}", ours=True)
            made.content["keys"] = _mac(sas, ",".join(sorted(macs)), "KEY_IDS", ours=True)
        return made

    def _proof(self, sas: Sas, content: dict[str, Any]) -> str:
        """The owner's identity, if it has a MAC. Else an empty string."""
        theirs = self._keys.identity.theirs
        name = f"ed25519:{theirs}"
        macs = converted(content.get("mac"), dict[str, str]) or {}
        is_right = macs.get(name) == _mac(sas, theirs, name, ours=False)
        return theirs if is_right else ""


def _emoji(sas: Sas) -> tuple[tuple[str, str], ...]:
    """The emoji to compare. Those of matrix-nio 0.26 are wrong: it takes the seven numbers of
    vodozemac for bytes."""
    made: Any = sas
    numbers = made.established_sas.bytes(made._extra_info).emoji_indices
    return tuple(made.emoji[number] for number in numbers)


def _mac(sas: Sas, key: str, name: str, *, ours: bool) -> str:
    """The MAC of a key with that name, by us or by the other side."""
    made: Any = sas.established_sas
    us = sas.own_user + sas.own_device
    other = sas.other_olm_device
    them = other.user_id + other.id
    info = f"{us}{them}" if ours else f"{them}{us}"
    return made.calculate_mac(key, f"MATRIX_KEY_VERIFICATION_MAC{info}{sas.transaction_id}{name}")


def _is_over(sas: Sas, pending: PendingVerification) -> bool:
    is_late = datetime.now() - sas.creation_time > _PATIENCE  # noqa: DTZ005 - as matrix-nio does
    return sas.canceled or is_late or pending.transaction != sas.transaction_id


def _accept(sas: Sas, start: dict[str, Any]) -> ToDeviceMessage:
    """Accept, in the terms of the specification. matrix-nio 0.26 writes the commitment in
    hexadecimal, and gives the newer way to make a MAC the name of the older: other clients would
    find that nothing matches."""
    if _MAC in start.get("message_authentication_codes", ()):
        sas._mac_normal = _MAC  # pyright: ignore[reportPrivateUsage]
        made = sas.pubkey.encode() + Api.to_canonical_json(start).encode()
        sas.commitment = encode_base64(hashlib.sha256(made).digest())
    return sas.accept_verification()
