"""Verification by emoji as the specification has it, from the side of a user's client.

It is written without matrix-nio, which differs from the specification here.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
from typing import Any

import vodozemac

from tests.harness.matrix import MatrixUser


class EmojiVerification:
    def __init__(self, user: MatrixUser, bot: str, device: str) -> None:
        self._user, self._bot, self._device = user, bot, device
        self._name = secrets.token_hex(8)
        self._sas = vodozemac.Sas()
        self._since = ""
        self._heard: dict[str, Any] = {}

    async def send(self, kind: str, **content: Any) -> dict[str, Any]:
        content = {"transaction_id": self._name, **content}
        where = f"/sendToDevice/m.key.verification.{kind}/{secrets.token_hex(8)}"
        given = {"messages": {self._bot: {self._device: content}}}
        await self._user.call("PUT", where, given)
        return content

    async def heard(self, seconds: float = 0.0) -> dict[str, Any]:
        """The messages of the bot."""
        answer = await self._user.call("GET", f"/sync?timeout={seconds * 1000:.0f}{self._since}")
        self._since = f"&since={answer['next_batch']}"
        for event in answer.get("to_device", {}).get("events", []):
            self._heard[event["type"].removeprefix("m.key.verification.")] = event["content"]
        return self._heard

    async def hear(self, kind: str) -> dict[str, Any]:
        """Wait for that message of the bot."""
        async with asyncio.timeout(15):
            while kind not in self._heard:
                await self.heard(0.2)
        return self._heard[kind]

    async def request(self) -> None:
        mine = self._user.account.device_id
        await self.send("request", from_device=mine, methods=["m.sas.v1"], timestamp=1)
        assert "m.sas.v1" in (await self.hear("ready"))["methods"]

    async def start(self) -> dict[str, Any]:
        return await self.send(
            "start",
            from_device=self._user.account.device_id,
            method="m.sas.v1",
            key_agreement_protocols=["curve25519-hkdf-sha256"],
            hashes=["sha256"],
            message_authentication_codes=["hkdf-hmac-sha256.v2", "hkdf-hmac-sha256"],
            short_authentication_string=["emoji", "decimal"],
        )

    async def compare(self) -> list[int]:
        """Exchange keys, and return the numbers of the emoji."""
        mine = self._user.account.device_id
        await self.request()
        start = await self.start()
        accept = await self.hear("accept")
        assert accept["message_authentication_code"] == "hkdf-hmac-sha256.v2"
        ours = self._sas.public_key.to_base64()
        await self.send("key", key=ours)
        theirs = (await self.hear("key"))["key"]
        canonical = json.dumps(start, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        digest = hashlib.sha256((theirs + canonical).encode()).digest()
        assert accept["commitment"] == base64.b64encode(digest).decode().rstrip("=")
        key = vodozemac.Curve25519PublicKey.from_base64(theirs)
        self._agreed = self._sas.diffie_hellman(key)
        parts = ("MATRIX_KEY_VERIFICATION_SAS", self._user.id, mine, ours)
        info = "|".join((*parts, self._bot, self._device, theirs, self._name))
        return list(self._agreed.bytes(info).emoji_indices)

    async def confirm(self) -> None:
        """Say that the emoji are the same, check that the bot has the key that the server says, and
        that it finishes."""
        me, mine = self._user.id, self._user.account.device_id
        assert self._user.nio.olm is not None
        ours = self._user.nio.olm.account.identity_keys["ed25519"]
        info = f"MATRIX_KEY_VERIFICATION_MAC{me}{mine}{self._bot}{self._device}{self._name}"
        name = f"ed25519:{mine}"
        calculate = self._agreed.calculate_mac
        await self.send(
            "mac",
            mac={name: calculate(ours, info + name)},
            keys=calculate(name, f"{info}KEY_IDS"),
        )
        mac = (await self.hear("mac"))["mac"]
        keys = await self._user.call("POST", "/keys/query", {"device_keys": {self._bot: []}})
        name = f"ed25519:{self._device}"
        theirs = keys["device_keys"][self._bot][self._device]["keys"][name]
        info = f"MATRIX_KEY_VERIFICATION_MAC{self._bot}{self._device}{me}{mine}{self._name}"
        assert mac[name] == calculate(theirs, info + name)
        await self.hear("done")
        await self.send("done")
