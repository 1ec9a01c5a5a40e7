"""Verification by emoji (SAS), which the owner begins in their client.

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
from segue.platforms.folder import PrivateFolder
from segue.platforms.matrix.keys import Keys
from segue.platforms.matrix.state import FILE, PendingVerification

logger = logging.getLogger(__name__)

_PREFIX = "m.key.verification"
_METHOD = "m.sas.v1"
_MAC = "hkdf-hmac-sha256.v2"
_PATIENCE = timedelta(minutes=10)


class Verifications:
    """The verifications of the owner's devices."""

    def __init__(self, keys: Keys, folder: PrivateFolder, owner: str) -> None:
        self._keys, self._folder, self._owner = keys, folder, owner
        self.shown: Sas | None = None
        """The one whose emoji the owner has to compare."""

    async def receive(self, event: dict[str, Any]) -> None:
        """Take what another device sent. Only the owner may verify."""
        prefix, _, kind = str(event.get("type")).rpartition(".")
        content, olm = converted(event.get("content"), dict[str, Any]), self._keys.olm
        if prefix != _PREFIX or content is None:
            return
        if event.get("sender") != self._owner:
            logger.warning("verification refused sender=%s", event.get("sender"))
            return
        name, other = str(content.get("transaction_id")), str(content.get("from_device"))
        if kind == "request":
            given = {"methods": [_METHOD], "from_device": olm.device_id}
            await self._send("ready", other, name, **given)
        if kind == "start":  # matrix-nio has to know the device
            await self._keys.query([self._owner])
        self._keys.take(event)
        sas: Sas | None = olm.key_verifications.get(name)
        if sas is not None and not sas.canceled and kind == "start":
            await self._keys.send(_accept(sas, content))
        if sas is not None and not sas.canceled and kind == "key":
            self._show(sas)  # before the other side can, so that `segue verify` finds it
        await self._keys.reply()

    async def go_on(self) -> None:
        """Confirm the emoji if the owner has, and trust the device if both sides have."""
        sas, pending = self.shown, self._folder.load(PendingVerification, FILE)
        if sas is None or pending is None or _is_over(sas, pending):
            self.shown = None
            if pending is not None and not pending.verified:
                (self._folder.path / FILE).unlink()
            return
        if pending.confirmed and not sas.sas_accepted:
            sas.accept_sas()
            await self._keys.send(sas.get_mac())
        if sas.verified and sas.verified_devices:  # matrix-nio takes a MAC of no device, too
            device, self.shown = sas.other_olm_device, None
            self._keys.trust(device)
            await self._send("done", device.id, sas.transaction_id)
            logger.info("device verified user=%s device=%s", device.user_id, device.id)
            self._folder.save(FILE, replace(pending, verified=True))

    def _show(self, sas: Sas) -> None:
        """Show the emoji to the owner."""
        self.shown, other, emoji = sas, sas.other_olm_device, tuple(sas.get_emoji())
        shown = PendingVerification(sas.transaction_id, other.user_id, other.id, emoji)
        self._folder.save(FILE, shown)
        text = " ".join(f"{sign} {name}" for sign, name in emoji)
        logger.info("verification waits for `segue verify` device=%s emoji=%s", other.id, text)

    async def _send(self, kind: str, device_id: str, name: str, **content: Any) -> None:
        content["transaction_id"] = name
        message = ToDeviceMessage(f"{_PREFIX}.{kind}", self._owner, device_id, content)
        await self._keys.send(message)


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
