"""How a browser and the gateway prove to each other that they hold the same secret, without sending
it.

Each proof is an HMAC over both nonces and the origin that the page was loaded from. It is good for
one connection to one address: it cannot be replayed, nor relayed to a gateway on another port.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

_LINK_ID = 32
_BROWSER_ID = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What both sides sign. The nonces are hexadecimal."""

    origin: str
    """`http://127.0.0.1:8790`, as the browser knows it."""
    browser_nonce: str
    server_nonce: str

    def server_proof(self, secret: str) -> str:
        return self._mac(secret, "segue server")

    def browser_proof(self, secret: str) -> str:
        return self._mac(secret, "segue browser")

    def new_browser(self, secret: str) -> tuple[str, str]:
        """Id and secret of the browser that is paired by a link with this secret. Both sides derive
        them, so that the secret crosses no network."""
        browser = self._mac(secret, "segue browser id")[:_BROWSER_ID]
        return browser, self._mac(secret, "segue browser secret")

    def _mac(self, secret: str, purpose: str) -> str:
        words = (purpose, self.origin, self.browser_nonce, self.server_nonce)
        return _mac(bytes.fromhex(secret), "\n".join(words))


def of_link(token: str) -> tuple[str, str]:
    """Id and secret of the link with this token."""
    key = token.encode()
    return _mac(key, "segue link id")[:_LINK_ID], _mac(key, "segue link secret")


def _mac(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode(), hashlib.sha256).hex()
