"""Identities: the keys of a whole account, which sign its devices (cross-signing).

Current clients accept only devices that their account has signed, so the bot's account gets an
identity. And once the identity of the owner is verified, the bot trusts each device that it signs.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa
from nio.api import Api
from unpaddedbase64 import encode_base64
from vodozemac import Ed25519PublicKey, Ed25519Signature

from segue.platforms.errors import Refused, converted
from segue.platforms.matrix.client import MatrixClient
from segue.platforms.matrix.events import IdentityKey, QueriedKeys
from segue.platforms.matrix.folder import PrivateFolder

logger = logging.getLogger(__name__)

_MASTER = "master"
_DEVICES = "self_signing"
_USERS = "user_signing"
"""The keys of an identity. The first signs the others, which sign devices and users."""
_SEEDS = "identity"
_OWNER = "owner"
"""The files with our private keys, and with the identity of the owner that was verified."""
CHANGED = "changed"
_SIGN_IN = "Type `segue setup matrix --user {}` and give the password, which the server asks for."
_SIGN_ELSEWHERE = (
    "The account has an identity that another client made. There, signed in as {}, verify the "
    "session {} by emoji, and type `segue verify`."
)


class MatrixIdentity:
    """The identity of the bot's account, and that of the owner."""

    def __init__(self, client: MatrixClient, root: Path, user_id: str, owner: str) -> None:
        self.client = client
        self.user_id = user_id
        self.owner = owner
        self._folder = PrivateFolder(root, quote(user_id, safe="@"))  # of all devices
        self.master = ""
        """The public key of the bot's identity. Empty if it is not ours, or there is none."""
        self.fix = ""
        """What the user must do to sign the bot's device. Empty if it is signed."""
        self.theirs = ""
        """The public key of the owner's identity, according to the server."""

    # The bot's

    async def publish(self, **auth: object) -> QueriedKeys:
        """Give the account an identity unless it has one, and return its keys."""
        given = {"device_keys": {self.user_id: list[str]()}}
        async with self._folder.locked():
            found = await self.client.post("/keys/query", given, QueriedKeys)
            if self.user_id in found.master_keys:
                return found
            if not self._own():  # they may not have been uploaded
                seeds = {use: secrets.token_hex(32) for use in (_MASTER, _DEVICES, _USERS)}
                self._folder.save(_SEEDS, seeds)
            own = self._own()
            signed = dict[str, Any]()
            for use, key in own.items():
                document = {"user_id": self.user_id, "usage": [use], "keys": {key.name: key.public}}
                signed[f"{use}_key"] = own[_MASTER].sign(self.user_id, document)
            await self._upload("/keys/device_signing/upload", {**signed, **auth})
            return await self.client.post("/keys/query", given, QueriedKeys)

    async def sign(self, device_id: str, keys: Mapping[str, str]) -> None:
        """Sign the bot's device, which has these keys, if the identity is ours."""
        me = self.user_id
        found = await self.publish()
        own = self._own()
        device = found.device_keys.get(me, {}).get(device_id, {})
        master = _public(found.master_keys.get(me), _MASTER)
        is_ours = bool(own) and own[_MASTER].public == master
        self.master = master if is_ours else ""
        is_signed = _is_signed(device, me, _public(found.self_signing_keys.get(me), _DEVICES))
        if self.master and not is_signed and device.get("keys") == named(device_id, keys):
            signature = own[_DEVICES].sign(me, device)
            is_signed = await self._upload("/keys/signatures/upload", {me: {device_id: signature}})
        if is_signed:
            self.fix = ""
            return
        fix = _SIGN_IN if master == self.master else _SIGN_ELSEWHERE
        self.fix = fix.format(me, device_id)
        logger.warning("device not signed platform=matrix device=%s", device_id)

    async def _upload(self, where: str, given: object) -> bool:
        """Upload keys or signatures. Return whether the server takes them: it may ask for the
        password, or not know identities."""
        try:
            answer = await self.client.post(where, given, dict[str, Any])
        except Refused as refused:
            if refused.status == 429 or refused.status >= 500:
                raise
            logger.warning("identity not uploaded call=%s reason=%s", where, refused)
            return False
        return not answer.get("failures")

    def _own(self) -> dict[str, _SigningKey]:
        """Our private keys by their use. Empty if there are none."""
        seeds = self._folder.load(dict[str, str], _SEEDS) or {}
        return {use: _SigningKey(seed) for use, seed in seeds.items()}

    # The owner's

    @property
    def verified(self) -> str:
        """The identity that the owner has proven, or CHANGED if the owner has another one since.
        Empty if there is none."""
        saved = self._folder.load(dict[str, str], _OWNER) or {}
        return saved.get(self.owner, "")

    def verify(self, master: str) -> None:
        """Keep the identity that the owner has proven. Empty if their client has none."""
        self._folder.save(_OWNER, {self.owner: master})

    def vouched(self, found: QueriedKeys) -> dict[str, Any] | None:
        """The keys of each device that the owner's identity vouches for. None if that identity is
        not the one that was verified: then it vouches for no device any more."""
        owner = self.owner
        verified = self.verified
        self.theirs = _public(found.master_keys.get(owner), _MASTER) or self.theirs
        if verified and self.theirs and verified != self.theirs:
            if verified != CHANGED:
                logger.warning("identity of the owner changed user=%s", owner)
                self.verify(CHANGED)
            return None
        signing = found.self_signing_keys.get(owner)
        key = ""
        if verified and _is_signed(signing, owner, verified):
            key = _public(signing, _DEVICES)
        vouched: dict[str, Any] = {}
        for name, device in found.device_keys.get(owner, {}).items():
            if _is_signed(device, owner, key):
                vouched[name] = device.get("keys")
        return vouched


class _SigningKey:
    def __init__(self, seed: str) -> None:
        key = ECC.construct(curve="Ed25519", seed=bytes.fromhex(seed))
        self._signer = eddsa.new(key, "rfc8032")
        self.public = encode_base64(key.public_key().export_key(format="raw"))
        self.name = f"ed25519:{self.public}"

    def sign(self, user_id: str, document: dict[str, Any]) -> dict[str, Any]:
        """The document of that user with our signature."""
        signature = encode_base64(self._signer.sign(_canonical(document)))
        return {**document, "signatures": {user_id: {self.name: signature}}}


def named(device_id: str, keys: Mapping[str, str]) -> dict[str, str]:
    """The keys of a device under the names that they have in its document."""
    return {f"{kind}:{device_id}": key for kind, key in keys.items()}


def _canonical(document: dict[str, Any]) -> bytes:
    """The bytes of a document that are signed."""
    signed = {name: it for name, it in document.items() if name not in ("signatures", "unsigned")}
    return Api.to_canonical_json(signed).encode()


def _is_signed(document: Any, user_id: str, key: str) -> bool:
    """Whether that public key of the user has signed the document."""
    try:
        signature = Ed25519Signature.from_base64(document["signatures"][user_id][f"ed25519:{key}"])
        Ed25519PublicKey.from_base64(key).verify_signature(_canonical(document), signature)
    except (LookupError, TypeError, ValueError):  # it may be malformed
        return False
    return True


def _public(document: object, use: str) -> str:
    """The public key in a document for that use. Empty if there is none."""
    found = converted(document, IdentityKey)
    if found is None or use not in found.usage:
        return ""
    return next(iter(found.keys.values()), "")
