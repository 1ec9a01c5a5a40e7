"""The text of a message as the model reads it. Each line that others wrote is marked, so that no
text can pass for the user's own."""

from __future__ import annotations

import json

from segue.core.text import one_line
from segue.platforms.base import Inbound, Quote

_AUTHOR_LENGTH = 80
_QUOTE_LENGTH = 4096
"""Maximum characters shown of a message that is replied to."""
_OWN_QUOTE_LENGTH = 300
"""The same for a message that the agent wrote and already knows."""


def words(inbound: Inbound) -> str:
    """The text of a message, preceded by the message it replies to. Forwarded text is quoted."""
    said = inbound.text
    if inbound.forwarded_from is not None:
        author = _name(inbound.forwarded_from)
        said = _quoted(f"[The user forwarded this. It was written by {author}:]", said)
    if inbound.quote is None:
        return said
    return f"{_replied(inbound.quote)}\n\n{said}".rstrip()


def _replied(quote: Quote) -> str:
    author = "you" if quote.ours else _name(quote.author)
    most = _OWN_QUOTE_LENGTH if quote.ours else _QUOTE_LENGTH
    text = quote.text if len(quote.text) <= most else f"{quote.text[:most]}…"
    return _quoted(f"[The user replies to this message. It was written by {author}:]", text)


def _quoted(header: str, text: str) -> str:
    """Prefix every line of `text`, splitting at every character that ends a line."""
    return "\n".join((header, *(f"> {line}" for line in text.splitlines())))


def _name(author: str) -> str:
    """The name in quotes that it cannot close."""
    name = one_line(author, _AUTHOR_LENGTH)
    return json.dumps(name, ensure_ascii=False) if name else "an unknown author"
