"""A scripted stand-in for a model, for tests and for trying the program without a model.

It plays back a script. Without one, it says that it is scripted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field

from segue.agent.models.base import Call, End, Piece, Prompt, Stop, Text
from segue.agent.models.catalog import SCRIPTED
from segue.core.errors import ModelError
from segue.core.session import Usage
from segue.core.text import one_line
from segue.core.transcript import Message, Role, ToolCall, words

_REPEATED = 280
_WORDS = re.compile(r"\s*\S+\s*|\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """One scripted answer."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    error: ModelError | None = None
    """Raised after the text. The calls are not sent then."""
    stop: Stop | None = None
    """By default `done` or `calls`, depending on `calls`."""
    usage: Usage = field(default_factory=Usage)


Step = str | ToolCall | ModelError | Say
"""A text, a tool call, an error, or an answer that combines them."""
Script = Iterable[Step | Callable[[Prompt], Step]]
"""The answer to each Prompt in turn, or a function that makes one from the Prompt."""


class ScriptedModel:
    """Streams its script word by word. Without a script it repeats the user's message, and says in
    the same sentence that it is not a real model."""

    name = SCRIPTED
    images = True

    def __init__(
        self, script: Script | None = None, *, context: int = 8192, pause: float = 0.0
    ) -> None:
        """`pause` is the time between words, in seconds."""
        self.prompts: list[Prompt] = []
        """Every prompt of the script so far. Without a script, none: a gateway runs for weeks."""
        self.context = context
        self._script = None if script is None else iter(script)
        self._pause = pause

    @property
    def small(self) -> bool:
        """True without a script: the stand-in needs only a minimal prompt."""
        return self._script is None

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        """Stream the next answer of the script. Raise ModelError after the last one."""
        if self._script is not None:
            self.prompts.append(prompt)
        answer = self._next(prompt)
        await asyncio.sleep(0)
        for word in _WORDS.findall(answer.text):
            if self._pause:
                await asyncio.sleep(self._pause)
            yield Text(word)
        if answer.error is not None:
            raise answer.error
        for call in answer.calls:
            yield Call(call)
        stop = answer.stop or (Stop.CALLS if answer.calls else Stop.DONE)
        yield End(stop=stop, usage=answer.usage)

    def _next(self, prompt: Prompt) -> Say:
        if self._script is None:
            return Say(text=stand_in(prompt.messages))
        step = next(self._script, _over)
        match step(prompt) if callable(step) else step:
            case str(text):
                return Say(text=text)
            case ToolCall() as call:
                return Say(calls=(call,))
            case ModelError() as error:
                return Say(error=error)
            case say:
                return say


def stand_in(messages: tuple[Message, ...]) -> str:
    """The answer when there is no script."""
    asked = next((words(m) for m in reversed(messages) if m.role is Role.USER), "")
    said = one_line(asked, _REPEATED)
    return f"I am a scripted stand-in, not a real model, and can only repeat what I hear: {said}"


def _over(_: Prompt) -> Step:
    return ModelError(provider="The scripted model", reason="its script is at its end")
