"""A model that repeats one word of each message it has received, and can be made to hang."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from segue.core.transcript import ToolCall
from segue.testing.http import Request, Response
from tests.fakes.models.openai import Answer, FakeOpenAI, Say
from tests.fakes.models.travel import AT_ONCE, Travel

WORD = re.compile(r"\bw\d+\b")
_OWN = re.compile(r"\[This .*?\]", re.DOTALL)
"""Text that the program itself adds to a prompt."""
TASK = "and run it"
"""A message with this text makes the model use a tool first."""
HANDOFF = "handed off"
"""The answer to a handoff prompt is counted under this text and the last word before it."""
_FIRST = 600
"""The number of bytes of an answer that are sent before it hangs midway."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A parsed request."""

    words: tuple[str, ...]
    """All words of the user so far."""
    last: str
    """The last message, from the user or the program."""
    used: bool
    """Whether a tool was used since the last message."""

    @property
    def is_handoff(self) -> bool:
        return WORD.search(self.last) is None

    @property
    def about(self) -> str:
        """The key under which the request is counted."""
        word = self.words[-1] if self.words else ""
        return f"{HANDOFF} after {word}" if self.is_handoff else word


@dataclass(frozen=True, slots=True)
class Hang:
    """Selects the answer that hangs."""

    about: str
    midway: bool = False
    """Hang after the first bytes, not before."""


class WordModel(FakeOpenAI):
    def __init__(self) -> None:
        super().__init__(self._answer)
        self.asked: Counter[str] = Counter()
        """The number of requests about each word or handoff; see HANDOFF."""
        self.command = "true"
        """The command that the tool runs; `{word}` is replaced by the word."""
        self.hanging = 0
        self._hang: Hang | None = None
        self._go = asyncio.Event()

    def hang(self, hang: Hang) -> None:
        """Hold the next matching answer back until `go_on`."""
        self._hang = hang
        self._go = asyncio.Event()

    def go_on(self) -> None:
        self._hang = None
        self._go.set()

    def _answer(self, request: dict[str, Any]) -> Answer:
        if "tools" not in request:
            return Say(text="A title")
        asked = _asked(request)
        self.asked[asked.about] += 1
        heard = " ".join(asked.words)
        if asked.is_handoff:
            return Say(text=f"I am here, and I heard {heard}.")
        word = asked.words[-1]  # an unanswered message is joined with the next one
        if f"{word} {TASK}" in asked.last and not asked.used:
            command = self.command.format(word=word)
            arguments = msgspec.json.encode({"command": command}).decode()
            calls = (ToolCall(f"call_{word}", "shell", arguments),)
            return Say(text=f"I run it for {word}.", calls=calls)
        return Say(text=f"I heard {heard}.")

    async def _handle(self, request: Request) -> Response:
        hang = self._wanted(request)
        if hang is not None and not hang.midway:
            await self._wait()
        self.travel = Travel(chunk=_FIRST) if hang is not None and hang.midway else AT_ONCE
        response = await super()._handle(request)
        if hang is None or not hang.midway or isinstance(response.body, bytes):
            return response
        return replace(response, body=self._midway(response.body))

    def _wanted(self, request: Request) -> Hang | None:
        if self._hang is None or not request.target.endswith("/completions"):
            return None
        asked = _asked(msgspec.json.decode(request.body))
        return self._hang if asked.about == self._hang.about else None

    async def _midway(self, body: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
        async for part in body:
            yield part
            await self._wait()

    async def _wait(self) -> None:
        self.hanging += 1
        try:
            await self._go.wait()
        finally:
            self.hanging -= 1


def _asked(request: dict[str, Any]) -> Asked:
    messages = request["messages"]
    said = [(n, _text(m)) for n, m in enumerate(messages) if m["role"] == "user"]
    place, last = said[-1] if said else (0, "")
    words = tuple(word for _, text in said for word in WORD.findall(text))
    used = any(message["role"] == "tool" for message in messages[place:])
    return Asked(words, last, used)


def _text(message: dict[str, Any]) -> str:
    """The message without the text that the program added."""
    content = message["content"]
    if not isinstance(content, str):
        content = " ".join(part.get("text", "") for part in content)
    return _OWN.sub("", content)
