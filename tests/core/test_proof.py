"""The proofs of browser and gateway. The page's scripts compute the same."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

from segue.core import proof
from segue.core.proof import ProofExchange

SECRET = "0f" * 32
EXCHANGE = ProofExchange(
    origin="http://127.0.0.1:8790", browser_nonce="aa" * 32, server_nonce="bb" * 32
)


def expected(purpose: str) -> str:
    text = f"segue {purpose}\nhttp://127.0.0.1:8790\n{'aa' * 32}\n{'bb' * 32}"
    return hmac.digest(b"\x0f" * 32, text.encode(), hashlib.sha256).hex()


def test_each_side_signs_the_origin_and_both_nonces_for_its_own_purpose():
    assert EXCHANGE.server_proof(SECRET) == expected("server")
    assert EXCHANGE.browser_proof(SECRET) == expected("browser")
    browser, secret = EXCHANGE.new_browser(SECRET)
    assert browser == expected("browser id")[:16]
    assert secret == expected("browser secret")


def test_a_proof_is_valid_for_one_origin_one_pair_of_nonces_and_one_secret():
    others = [
        replace(EXCHANGE, origin="http://127.0.0.1:8791").browser_proof(SECRET),
        replace(EXCHANGE, browser_nonce="ab" * 32).browser_proof(SECRET),
        replace(EXCHANGE, server_nonce="ab" * 32).browser_proof(SECRET),
        EXCHANGE.browser_proof("0e" * 32),
        EXCHANGE.server_proof(SECRET),
        EXCHANGE.browser_proof(SECRET),
    ]
    assert len(set(others)) == len(others)


def test_the_id_of_a_link_does_not_reveal_its_secret():
    key, secret = proof.of_link("nvkrgBTiLnHp0HebhKDkyg")
    token = b"nvkrgBTiLnHp0HebhKDkyg"
    assert key == hmac.digest(token, b"segue link id", hashlib.sha256).hex()[:32]
    assert secret == hmac.digest(token, b"segue link secret", hashlib.sha256).hex()
