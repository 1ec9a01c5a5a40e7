"""A model that is none: it says what a script says, and that it is scripted where there is no
script. For tests, and for trying the program without any model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field

from segue.agent.models.base import Call, End, Piece, Prompt, Stop, Text
from segue.core.errors import ModelError
from segue.core.session import Usage
from segue.core.text import one_line
from segue.core.transcript import Message, Role, ToolCall, words

NAME = "scripted"
_REPEATED = 280
_WORDS = re.compile(r"\s*\S+\s*|\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """One answer."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    error: ModelError | None = None
    """What goes wrong after the text; the calls do not come then."""
    stop: Stop | None = None
    """`done` or `calls`, as fits, unless told otherwise."""
    usage: Usage = field(default_factory=Usage)


Step = str | ToolCall | ModelError | Say
"""A text, a tool call, an error, or an answer of several of these."""
Script = Iterable[Step | Callable[[Prompt], Step]]
"""What is said to each Prompt in turn, or made of it."""


class ScriptedModel:
    """Streams its script word by word. Without a script it repeats what it was asked, and says in
    the same sentence that it is no real model."""

    def __init__(
        self, script: Script | None = None, *, context: int = 8192, pause: float = 0.0
    ) -> None:
        """`pause` is the time between words, in seconds."""
        self.prompts: list[Prompt] = []
        """Everything that it was asked."""
        self._script = None if script is None else iter(script)
        self._context = context
        self._pause = pause

    @property
    def name(self) -> str:
        return NAME

    @property
    def context(self) -> int:
        return self._context

    @property
    def small(self) -> bool:
        """Without a script nothing more than the least is of any use to it."""
        return self._script is None

    @property
    def images(self) -> bool:
        return True

    async def close(self) -> None:
        """There is nothing to let go of."""

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        """The next answer of the script, piece by piece; a ModelError when there is none left."""
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
    """The one sentence that is said without a script."""
    asked = next((words(m) for m in reversed(messages) if m.role is Role.USER), "")
    said = one_line(asked, _REPEATED)
    return f"I am a scripted stand-in, not a real model, and can only repeat what I hear: {said}"


def _over(_: Prompt) -> Step:
    return ModelError(provider="The scripted model", reason="its script is at its end")
