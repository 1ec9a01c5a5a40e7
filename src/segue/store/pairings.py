"""Pairing: who sends a one-time code to the bot is the Owner who was shown it."""

from __future__ import annotations

import hashlib
import secrets

from segue.core import pairing
from segue.core.address import Sender
from segue.core.errors import PairingRefused
from segue.core.session import Owner
from segue.store import owners
from segue.store.base import Engine, Tx
from segue.store.leases import until
from segue.store.values import text

SECONDS = 600.0
"""How long a code can be used."""
MOST_OPEN = 5
"""So many codes of one owner can wait at a time."""


class Pairings:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def begin(self, owner: str, *, seconds: float = SECONDS) -> str:
        """A code that makes whoever sends it first that owner. Only its digest is kept. The oldest
        is void when more than MOST_OPEN wait."""
        code = pairing.new_code(secrets.token_bytes(16))
        await self._engine.write(begin, owner, digest(code), seconds)
        return code

    async def redeem(self, code: str, sender: Sender) -> Owner:
        """Link `sender` to the owner who was shown `code`, however it is spelt; PairingRefused when
        it is no code, was used, or its time is over. IdentityTaken when the sender is another
        owner's already: the code can still be used."""
        if not pairing.looks_like_code(code):
            raise PairingRefused
        return await self._engine.write(redeem, digest(code), sender)

    async def open_codes(self) -> int:
        """How many can still be used, of all owners."""
        return await self._engine.read(open_codes)


def begin(tx: Tx, owner: str, digest: str, seconds: float) -> None:
    owners.found(tx, owner)
    tx.lock(f"pairings of {owner}")
    tx.change(
        "INSERT INTO pairings (digest, owner, until) VALUES (:digest, :owner, :until)",
        digest=digest,
        owner=owner,
        until=until(tx, seconds),
    )
    tx.change("DELETE FROM pairings WHERE until <= :ticks", ticks=tx.ticks)
    tx.change(
        "DELETE FROM pairings WHERE owner = :owner AND no NOT IN (SELECT no FROM pairings"
        " WHERE owner = :owner ORDER BY no DESC LIMIT :most)",
        owner=owner,
        most=MOST_OPEN,
    )


def redeem(tx: Tx, digest: str, sender: Sender) -> Owner:
    if text(sender.user_id) != sender.user_id:  # nobody's id, so nobody can be linked to it
        raise PairingRefused
    owner = _take(tx, digest)
    if owner is None:
        raise PairingRefused
    owners.link(tx, sender, owner)
    return owners.found(tx, owner)


def void(tx: Tx, digest: str) -> bool:
    """Use a code up without linking its sender; False when there is no such code."""
    return _take(tx, digest) is not None


def _take(tx: Tx, digest: str) -> str | None:
    """Whose code it was; None when there is no such code."""
    row = tx.row(
        "DELETE FROM pairings WHERE digest = :digest AND until > :ticks RETURNING owner",
        digest=digest,
        ticks=tx.ticks,
    )
    return row[0] if row else None


def open_codes(tx: Tx) -> int:
    return tx.one("SELECT count(*) FROM pairings WHERE until > :ticks", ticks=tx.ticks)[0]


def digest(code: str) -> str:
    """What is kept of a code, however it is spelt."""
    return hashlib.sha256(pairing.normal(code).encode()).hexdigest()
