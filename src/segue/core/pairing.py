"""The code by which a platform user proves to be an Owner: shown once, typed on a phone.

There are 24^8, or 1.1e11, codes. One is valid for ten minutes, five are open at most, and each
sender has five tries in that time. A thousand accounts together hit one with a chance of 1 in 4
million. As many accounts as it takes to try 100 codes a second for ten minutes, more than a gateway
takes in, have 1 in 370,000. So no limit is needed on all senders together, by which strangers could
lock the owner out.
"""

from __future__ import annotations

import unicodedata

ALPHABET = "23456789CDFGHJKMNPQRTVWX"
"""Nothing here looks like anything else, and nothing that people say in passing is made of it."""
LENGTH = 8
_HALF = LENGTH // 2
_MOST_TYPED = 4 * LENGTH
_LEAST_ENTROPY = 16


def new_code(entropy: bytes) -> str:
    """`XXXX-XXXX`, from at least 16 random bytes."""
    if len(entropy) < _LEAST_ENTROPY:
        raise ValueError("a pairing code needs sixteen random bytes")
    number = int.from_bytes(entropy)
    letters = ""
    for _ in range(LENGTH):
        number, letter = divmod(number, len(ALPHABET))
        letters += ALPHABET[letter]
    return f"{letters[:_HALF]}-{letters[_HALF:]}"


def normal(text: str) -> str:
    """A code as it is compared: case, blanks and dashes of any kind do not matter."""
    return "".join(c for c in text if not c.isspace() and unicodedata.category(c) != "Pd").upper()


def looks_like_code(text: str) -> bool:
    """Whether `text` has the shape of a code; whether it is one, only the store knows."""
    if len(text) > _MOST_TYPED:
        return False
    letters = normal(text)
    return len(letters) == LENGTH and all(c in ALPHABET for c in letters)
