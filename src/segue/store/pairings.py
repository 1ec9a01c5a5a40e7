"""Pairing: linking a platform user to the Owner who was shown a one-time code, or a one-time link.

A code is sent to the bot as a message. It is typed on a phone. There are 24^8, or 1.1e11, codes. A
code is valid for ten minutes, at most five are open, and each sender has five tries in that time. A
thousand accounts together guess one with a chance of 1 in 4 million. Enough accounts to try 100
codes a second for ten minutes, more than a gateway can receive, have a chance of 1 in 370,000. So
there is no need for a limit across all senders, which strangers could use to lock the owner out.

A link opens the web page in a browser, which from then on is a platform user of its own. The
browser and the gateway prove to each other that they have the same secret, without sending it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import unicodedata
from dataclasses import dataclass

from msgspec import Struct

from segue.core.address import Platform, Sender
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
CODE_SECONDS = 600.0
"""How long a code is valid."""
MAX_OPEN = 5
"""How many open codes an owner can have."""
_LINK_ID = 32
_BROWSER_ID = 16


# Codes


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


# Links and browsers


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofExchange:
    """The values that both sides sign. The nonces are hexadecimal.

    Each proof is an HMAC over both nonces and the origin that the page was loaded from. It is valid
    for one connection to one address: it cannot be replayed, nor relayed to a gateway on another
    port.
    """

    origin: str
    """The origin as the browser sees it, such as `http://127.0.0.1:8790`."""
    browser_nonce: str
    server_nonce: str

    def server_proof(self, secret: str) -> str:
        return self._mac(secret, "segue server")

    def browser_proof(self, secret: str) -> str:
        return self._mac(secret, "segue browser")

    def new_browser(self, secret: str) -> tuple[str, str]:
        """Derive the id and secret of the browser that pairs with a link of this secret.

        Both sides derive them, so the browser's secret never crosses the network.
        """
        browser = self._mac(secret, "segue browser id")[:_BROWSER_ID]
        return browser, self._mac(secret, "segue browser secret")

    def _mac(self, secret: str, purpose: str) -> str:
        words = (purpose, self.origin, self.browser_nonce, self.server_nonce)
        return _mac(bytes.fromhex(secret), "\n".join(words))


def link_keys(token: str) -> tuple[str, str]:
    """Derive the id and secret of a link from its token."""
    key = token.encode()
    return _mac(key, "segue link id")[:_LINK_ID], _mac(key, "segue link secret")


def _mac(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode(), hashlib.sha256).hex()


class Credential(Struct, frozen=True, kw_only=True):
    """The secret that a browser must prove it has."""

    secret: str
    owner: str
    is_link: bool
    """True for a link, which pairs a browser; False for a browser that is paired."""


@writes
def link(tx: Tx, owner: str, *, process: str | None = None, seconds: float = CODE_SECONDS) -> str:
    """Create a token. The first browser that proves it has the token is paired with `owner`.

    Only the gateway `process` accepts it; None means this one. The token itself is not stored.
    """
    owners.found(tx, owner)
    tx.lock(f"page links of {owner}")
    token = secrets.token_urlsafe(16)  # short, so that the link fits on a line and in a QR code
    key, secret = link_keys(token)
    tx.insert(
        "page_links",
        id=key,
        secret=secret,
        owner=owner,
        process=process or tx.process,
        until=tx.after(seconds),
    )
    forget_old(tx, "page_links", owner)
    return token


@reads
def credential(tx: Tx, key: str, origin: str) -> Credential | None:
    """The credential that a page loaded from `origin` must prove, or None.

    `key` is the id of a browser that was paired at this origin, or of a link to this gateway.
    """
    browser = tx.row(
        "SELECT b.secret, i.owner FROM browsers b"
        " JOIN identities i ON i.platform = 'web' AND i.user_id = b.id"
        " WHERE b.id = :id AND b.origin = :origin",
        id=text(key),
        origin=text(origin),
    )
    if browser is not None:
        return Credential(secret=browser[0], owner=browser[1], is_link=False)
    sql = "SELECT secret, owner FROM page_links WHERE id = :id AND process = :me AND until > :ticks"
    link = tx.row(sql, id=text(key), me=tx.process, ticks=tx.ticks)
    return Credential(secret=link[0], owner=link[1], is_link=True) if link else None


@writes
def admit(tx: Tx, key: str, sender: Sender, secret: str, origin: str) -> None:
    """Pair a browser through the link with this id: the browser becomes a platform user linked
    to the owner. Raise PairingRefused if the link was used or has expired."""
    if (owner := use_link(tx, key)) is None:
        raise PairingRefused
    owners.link(tx, sender, owner)
    tx.insert("browsers", id=sender.user_id, secret=secret, origin=text(origin), made=tx.now)


@writes
def use_link(tx: Tx, key: str) -> str | None:
    """Use up the link with this id, and return its owner. None if it was used or has expired."""
    sql = (
        "DELETE FROM page_links WHERE id = :id AND process = :me AND until > :ticks RETURNING owner"
    )
    used = tx.row(sql, id=text(key), me=tx.process, ticks=tx.ticks)
    return used[0] if used else None


@reads
def is_link_used(tx: Tx, token: str) -> bool:
    """Whether the link with this token no longer exists."""
    key, _ = link_keys(token)
    return tx.row("SELECT 1 FROM page_links WHERE id = :id", id=key) is None


@writes
def forget_browsers(tx: Tx, port: int) -> int:
    """Unpair the browsers that were paired on this port, and return how many there were."""
    found = tx.rows("SELECT id FROM browsers WHERE origin LIKE :origin", origin=f"%:{port}")
    for (browser,) in found:
        tx.change("DELETE FROM browsers WHERE id = :id", id=browser)
        owners.unlink(tx, Platform.WEB, browser)
    return len(found)
