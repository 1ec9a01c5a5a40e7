"""Verification by emoji (SAS), which the owner begins in their client.

The bot cannot see whether the emoji are the same, so the owner looks at both: their client shows
them, and so does `segue verify`, which confirms them. The two meet in the private folder of the
device.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING, Any

from nio.api import Api
from nio.crypto import Sas
from nio.event_builders import ToDeviceMessage
from unpaddedbase64 import encode_base64

from segue.platforms.matrix.client import FAILURES
from segue.platforms.matrix.state import CONFIRMED, PENDING, PendingVerification, write_pending

if TYPE_CHECKING:
    from segue.platforms.matrix.device import MatrixDevice

logger = logging.getLogger(__name__)

PREFIX = "m.key.verification."
_METHOD = "m.sas.v1"
_MAC = "hkdf-hmac-sha256.v2"
_LOOK = 0.2
_PATIENCE = 600.0


class Verifications:
    def __init__(self, device: MatrixDevice) -> None:
        self._device = device
        self._waiting: dict[str, asyncio.Task[None]] = {}
        """Those whose emoji the owner has to compare."""
        device.folder.write(PENDING, "")

    async def close(self) -> None:
        for task in (tasks := list(self._waiting.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def receive(self, events: list[dict[str, Any]]) -> None:
        """Take what other devices sent. Only the owner may verify."""
        for event in events:
            kind, content = str(event.get("type", "")), event.get("content")
            if not kind.startswith(PREFIX) or not isinstance(content, dict):
                continue
            if event.get("sender") != self._device.owner:
                logger.warning("verification refused sender=%s", event.get("sender"))
                continue
            await self._take(kind.removeprefix(PREFIX), event)

    async def _take(self, kind: str, event: dict[str, Any]) -> None:
        content, olm = event["content"], self._device.keys.olm
        name, other = str(content.get("transaction_id", "")), str(content.get("from_device", ""))
        if kind == "request":
            given = {"methods": [_METHOD], "from_device": self._device.me.device_id}
            await self._send("ready", other, name, **given)
            return
        if kind == "start":  # matrix-nio has to know the device
            await self._device.keys.find(self._device.client, event["sender"], other)
        self._device.keys.take(event)
        if (sas := olm.key_verifications.get(name)) is None:
            self._forget(name)
        elif kind == "start" and not sas.canceled:
            await self._device.keys.send(self._device.client, _accept(sas, content))
        await self._device.keys.reply(self._device.client)
        if sas is not None and kind == "key" and not sas.canceled:
            self._show(sas)
        if sas is not None and kind == "mac":
            await self._conclude(sas)

    def _show(self, sas: Sas) -> None:
        """Show the emoji to the owner, and wait until they are confirmed."""
        other, emoji = sas.other_olm_device, tuple(sas.get_emoji())
        shown = PendingVerification(sas.transaction_id, other.user_id, other.id, emoji)
        write_pending(self._device.folder, shown)
        text = " ".join(f"{sign} {name}" for sign, name in emoji)
        logger.info("verification waits for `segue verify` device=%s emoji=%s", other.id, text)
        self._waiting[sas.transaction_id] = asyncio.create_task(self._wait(sas))

    async def _wait(self, sas: Sas) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                # Another process writes it.
                while self._device.folder.read(CONFIRMED) != sas.transaction_id:  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK)
            sas.accept_sas()
            await self._device.keys.send(self._device.client, sas.get_mac())
            await self._conclude(sas)
        except (TimeoutError, *FAILURES.all) as error:
            logger.warning("verification failed reason=%s", error or "not confirmed")
            self._forget(sas.transaction_id)

    async def _conclude(self, sas: Sas) -> None:
        """Trust the device, if both sides have confirmed."""
        device = sas.other_olm_device
        if sas.verified:
            self._device.keys.trust(device)
            await self._send("done", device.id, sas.transaction_id)
            logger.info("device verified user=%s device=%s", device.user_id, device.id)
        if sas.verified or sas.canceled:
            self._forget(sas.transaction_id)

    def _forget(self, name: str) -> None:
        task = self._waiting.pop(name, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        for file in (PENDING, CONFIRMED):
            self._device.folder.write(file, "")

    async def _send(self, kind: str, device_id: str, name: str, **content: Any) -> None:
        content["transaction_id"] = name
        message = ToDeviceMessage(f"{PREFIX}{kind}", self._device.owner, device_id, content)
        await self._device.keys.send(self._device.client, message)


def _accept(sas: Sas, start: dict[str, Any]) -> ToDeviceMessage:
    """Accept, in the terms of the specification. matrix-nio 0.26 writes the commitment in
    hexadecimal, and gives the newer way to make a MAC the name of the older: other clients would
    find that nothing matches."""
    if _MAC in start.get("message_authentication_codes", ()):
        sas._mac_normal = _MAC  # pyright: ignore[reportPrivateUsage]
        made = sas.pubkey.encode() + Api.to_canonical_json(start).encode()
        sas.commitment = encode_base64(hashlib.sha256(made).digest())
    return sas.accept_verification()
