"""Mutual proof that a browser and the gateway hold the same secret, without sending it.

Each proof is an HMAC over both nonces and the origin that the page was loaded from. It is valid for
one connection to one address: it cannot be replayed, nor relayed to a gateway on another port.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

_LINK_ID = 32
_BROWSER_ID = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofExchange:
    """The values that both sides sign. The nonces are hexadecimal."""

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


def of_link(token: str) -> tuple[str, str]:
    """Derive the id and secret of a link from its token."""
    key = token.encode()
    return _mac(key, "segue link id")[:_LINK_ID], _mac(key, "segue link secret")


def _mac(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode(), hashlib.sha256).hex()
