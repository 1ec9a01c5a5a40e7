"""Repeats a request without the content that the provider rejected."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from segue.agent.models import pictures
from segue.agent.models.base import Piece, Prompt
from segue.core.errors import ModelRefused

IMAGE = "image"

Ask = Callable[[frozenset[str]], AsyncGenerator[Piece]]
"""Sends the request with the given optional content."""


def carried(prompt: Prompt, *, images: bool, extras: Mapping[str, str]) -> frozenset[str]:
    """The optional content in the prompt that the provider may reject.

    Each item is a keyword that appears in the error message if that content is rejected: IMAGE for
    pictures, if the model accepts `images`, and the keywords in `extras` (by provider) for content
    to send back verbatim.
    """
    kept = {word for provider, word in extras.items() if _has_extras(prompt, provider)}
    return frozenset(kept | {IMAGE} if images and pictures.any_in(prompt.messages) else kept)


async def conceding(ask: Ask, included: frozenset[str]) -> AsyncGenerator[Piece]:
    """Stream the answer, leaving out the content that the provider rejects (see `carried`).

    A broken picture is part of every later request too, so it must not end the conversation.
    """
    while True:
        begun = False
        try:
            async with aclosing(ask(included)) as pieces:
                async for piece in pieces:
                    begun = True
                    yield piece
            return
        except ModelRefused as error:
            reason = str(error.fields["reason"]).lower()
            refused = {word for word in included if word in reason}
            if begun or not refused:
                raise
            included -= refused


def _has_extras(prompt: Prompt, provider: str) -> bool:
    return any(m.extras and provider in m.extras for m in prompt.messages)
