"""The one-time code with which a platform user proves to be an Owner. It is typed on a phone.

There are 24^8, or 1.1e11, codes. A code is valid for ten minutes, at most five are open, and each
sender has five tries in that time. A thousand accounts together guess one with a chance of 1 in 4
million. Enough accounts to try 100 codes a second for ten minutes, more than a gateway can receive,
have a chance of 1 in 370,000. So there is no need for a limit across all senders, which strangers
could use to lock the owner out.
"""

from __future__ import annotations

import unicodedata

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
