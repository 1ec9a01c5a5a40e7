"""The code by which a platform user proves to be an Owner: shown once, typed on a phone."""

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
