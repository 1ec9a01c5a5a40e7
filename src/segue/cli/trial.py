"""A short test turn with a model, to see that it works and how fast it is."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from segue.agent.models.base import End, Model, Prompt, Text
from segue.agent.models.catalog import Server
from segue.agent.models.choice import choose, connect
from segue.config import Settings
from segue.core.errors import ModelError
from segue.core.text import one_line
from segue.core.transcript import Message, Role

_QUESTION = "Say hello in one short sentence."
# Enough for a model that reasons before it answers.
_MOST_TOKENS = 1024
_SHOWN = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of a test turn."""

    name: str
    answer: str
    first: float
    """Seconds until the first word."""
    whole: float
    """Seconds until the last word."""
    tokens: int
    """Tokens of the answer, including reasoning; 0 if the model does not report them."""

    def lines(self) -> list[str]:
        told = [
            one_line(self.name),
            f"  {one_line(self.answer, _SHOWN)}",
            f"  first word after {self.first:.2f} s, all after {self.whole:.2f} s",
        ]
        writing = self.whole - self.first
        if self.tokens > 1 and writing > 0:
            rate = (self.tokens - 1) / writing
            told.append(f"  {self.tokens} tokens, {rate:,.0f} per second once it had begun")
        return told


async def run(settings: Settings, wanted: str | None, servers: Sequence[Server]) -> Trial:
    """Ask the model `wanted`, or the default one. Raises a ModelError if it does not answer."""
    choice = await choose(settings, wanted, servers=servers)
    model = connect(choice, settings, servers=servers)
    try:
        return await _ask(model)
    finally:
        await model.close()


async def _ask(model: Model) -> Trial:
    asked = Message(role=Role.USER, content=_QUESTION, at=datetime.now(UTC))
    prompt = Prompt(system="", messages=(asked,), max_tokens=_MOST_TOKENS)
    began = time.monotonic()
    first, answer, tokens = 0.0, "", 0
    async with contextlib.aclosing(model.stream(prompt)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Text):
                first = first or time.monotonic() - began
                answer += piece.text
            elif isinstance(piece, End):
                tokens = piece.usage.output
    if not one_line(answer):
        raise ModelError(provider=model.name, reason="an answer without a word")
    return Trial(
        name=model.name,
        answer=answer,
        first=first,
        whole=time.monotonic() - began,
        tokens=tokens,
    )
