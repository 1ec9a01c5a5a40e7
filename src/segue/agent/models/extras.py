"""What a provider gave us to send back verbatim, and may refuse to see again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from segue.agent.models.base import Piece, Prompt
from segue.core.errors import ModelRefused

Ask = Callable[[bool], AsyncGenerator[Piece]]
"""Asks the model, with the extras of earlier answers (True) or without them."""


async def with_extras(
    ask: Ask, prompt: Prompt, provider: str, refused_for: str
) -> AsyncGenerator[Piece]:
    """The answer to a prompt that carries the provider's extras, if any message has some. When it
    is refused for them (the reason names `refused_for`), the same is asked once more without."""
    carries = any(m.extras and provider in m.extras for m in prompt.messages)
    for included in (True, False) if carries else (False,):
        begun = False
        try:
            async with aclosing(ask(included)) as pieces:
                async for piece in pieces:
                    begun = True
                    yield piece
        except ModelRefused as error:
            if begun or not included or refused_for not in str(error.fields["reason"]):
                raise
        else:
            return
