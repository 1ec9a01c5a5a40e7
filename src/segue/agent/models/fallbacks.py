"""What a provider may refuse to see, and can be asked without."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from segue.agent.models import pictures
from segue.agent.models.base import Piece, Prompt
from segue.core.errors import ModelRefused

IMAGE = "image"

Ask = Callable[[frozenset[str]], AsyncGenerator[Piece]]
"""Asks the model, with all that is named."""


def carried(prompt: Prompt, *, images: bool, extras: Mapping[str, str]) -> frozenset[str]:
    """What the prompt carries that may be refused, by a word that the reason then has in it:
    pictures, if the model takes `images`; and what a provider gave us to send back verbatim, by
    the provider's name and its word in `extras`."""
    kept = {word for provider, word in extras.items() if _has_extras(prompt, provider)}
    return frozenset(kept | {IMAGE} if images and pictures.any_in(prompt.messages) else kept)


async def conceding(ask: Ask, included: frozenset[str]) -> AsyncGenerator[Piece]:
    """The answer to a prompt that carries what may be refused (see `carried`). What is refused is
    left out, and the same is asked again: one broken picture, which goes with every request from
    then on, must not end a conversation."""
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
