"""Pairing: a platform user who sends a one-time code is linked to the Owner it was shown to.

The code is typed on a phone. There are 24^8, or 1.1e11, codes. A code is valid for ten minutes, at
most five are open, and each sender has five tries in that time. A thousand accounts together guess
one with a chance of 1 in 4 million. Enough accounts to try 100 codes a second for ten minutes, more
than a gateway can receive, have a chance of 1 in 370,000. So there is no need for a limit across
all senders, which strangers could use to lock the owner out.
"""

from __future__ import annotations

import hashlib
import secrets
import unicodedata

from segue.core.address import Sender
from segue.core.errors import PairingRefused
from segue.core.session import Owner
from segue.store import outbox, owners
from segue.store.base import Tx, reads, writes
from segue.store.outbox import Outgoing
from segue.store.values import text

ALPHABET = "23456789CDFGHJKMNPQRTVWX"
"""No two look alike, and without vowels no ordinary word looks like a code."""
LENGTH = 8
_HALF = LENGTH // 2
_MAX_TYPED = 4 * LENGTH
_LEAST_ENTROPY = 16


def new_code(entropy: bytes) -> str:
    """Return a code of the form `XXXX-XXXX` from at least 16 random bytes."""
    if len(entropy) < _LEAST_ENTROPY:
        raise ValueError("a pairing code needs sixteen random bytes")
    number = int.from_bytes(entropy)
    letters = ""
    for _ in range(LENGTH):
        number, letter = divmod(number, len(ALPHABET))
        letters += ALPHABET[letter]
    return f"{letters[:_HALF]}-{letters[_HALF:]}"


def normal(text: str) -> str:
    """Normalise a code for comparison: ignore case, blanks and dashes of any kind."""
    return "".join(c for c in text if not c.isspace() and unicodedata.category(c) != "Pd").upper()


def looks_like_code(text: str) -> bool:
    """Return whether `text` has the format of a code. Only the store knows whether it is valid."""
    if len(text) > _MAX_TYPED:
        return False
    letters = normal(text)
    return len(letters) == LENGTH and all(c in ALPHABET for c in letters)


CODE_SECONDS = 600.0
"""How long a code is valid."""
MAX_OPEN = 5
"""How many open codes an owner can have."""


@writes
def begin(tx: Tx, owner: str, *, seconds: float = CODE_SECONDS) -> str:
    """Create a code. The first platform user who sends it is linked to `owner`.

    Only its digest is stored. The oldest code is void when more than MAX_OPEN are open.
    """
    owners.found(tx, owner)
    tx.lock(f"pairings of {owner}")
    code = new_code(secrets.token_bytes(16))
    tx.insert("pairings", digest=_digest(code), owner=owner, until=tx.after(seconds))
    forget_old(tx, "pairings", owner)
    return code


def forget_old(tx: Tx, table: str, owner: str) -> None:
    """Delete the expired rows of `table`, and those of the owner that exceed MAX_OPEN."""
    tx.change(f"DELETE FROM {table} WHERE until <= :ticks", ticks=tx.ticks)
    tx.change(
        f"DELETE FROM {table} WHERE owner = :owner AND no NOT IN (SELECT no FROM {table}"
        " WHERE owner = :owner ORDER BY no DESC LIMIT :most)",
        owner=owner,
        most=MAX_OPEN,
    )


@writes
def redeem(tx: Tx, code: str, sender: Sender) -> Owner:
    """Link `sender` to the owner of `code`, in any spelling, and return the owner.

    Raise PairingRefused if the code is invalid, used or expired. Raise IdentityTaken if the sender
    is already linked to another owner: the code stays valid.
    """
    is_valid_id = text(sender.user_id) == sender.user_id
    if not is_valid_id or (owner := _take(tx, code)) is None:
        raise PairingRefused
    owners.link(tx, sender, owner)
    return owners.found(tx, owner)


def void(tx: Tx, code: str) -> bool:
    """Use up a code without linking its sender. Return False if the code is not valid."""
    return _take(tx, code) is not None


def _take(tx: Tx, code: str) -> str | None:
    """Delete a valid code and return its owner, or None if there is none."""
    if not looks_like_code(code):
        return None
    sql = "DELETE FROM pairings WHERE digest = :digest AND until > :ticks RETURNING owner"
    row = tx.row(sql, digest=_digest(code), ticks=tx.ticks)
    return row[0] if row else None


def reply_key(code: str) -> str:
    """The key of the message that answers the code."""
    return f"paired:{_digest(code)[:32]}"


@reads
def reply(tx: Tx, code: str) -> Outgoing | None:
    """The message that answers the code, once it was sent by a user."""
    return outbox.get(tx, reply_key(code))


@reads
def open_codes(tx: Tx) -> int:
    """How many codes of all owners are still valid."""
    return tx.one("SELECT count(*) FROM pairings WHERE until > :ticks", ticks=tx.ticks)[0]


def _digest(code: str) -> str:
    """The stored digest of a code, the same for every spelling."""
    return hashlib.sha256(normal(code).encode()).hexdigest()
