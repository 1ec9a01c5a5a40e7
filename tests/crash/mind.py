"""A model that tells all that it has heard, in a word for each thing that was said; and that hangs
when a test wants it to."""

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
from segue.testing.models.openai import Answer, FakeOpenAI, Say
from segue.testing.models.travel import AT_ONCE, Travel

WORD = re.compile(r"\bw\d+\b")
_OWN = re.compile(r"\[This .*?\]", re.DOTALL)
"""What the program itself says to it."""
TASK = "and run it"
"""Whoever says this lets it use a tool first."""
HANDOFF = "handed off"
"""What its answer to the prompt of a handoff is counted under, after the last word before it."""
_FIRST = 600
"""Bytes of an answer that come before it hangs in the middle of it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What one request comes to."""

    words: tuple[str, ...]
    """All that its person ever said."""
    last: str
    """What was said last, by whomever."""
    used: bool
    """A tool was used since."""

    @property
    def is_handoff(self) -> bool:
        return WORD.search(self.last) is None

    @property
    def about(self) -> str:
        """What it is counted under."""
        word = self.words[-1] if self.words else ""
        return f"{HANDOFF} after {word}" if self.is_handoff else word


@dataclass(frozen=True, slots=True)
class Hang:
    """Which answer hangs."""

    about: str
    midway: bool = False
    """After its first words, rather than before."""


class Mind(FakeOpenAI):
    def __init__(self) -> None:
        super().__init__(self._answer)
        self.asked: Counter[str] = Counter()
        """How often it was asked about each thing: by the word, or see HANDOFF."""
        self.command = "true"
        """What it runs when it is told to run something; `{word}` is the word."""
        self.hanging = 0
        self._hang: Hang | None = None
        self._go = asyncio.Event()

    def hang(self, hang: Hang) -> None:
        """The next answer of that kind does not come, until `go_on`."""
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
        if TASK in asked.last and not asked.used:
            word = asked.words[-1]
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
    """What the person said of it."""
    content = message["content"]
    if not isinstance(content, str):
        content = " ".join(part.get("text", "") for part in content)
    return _OWN.sub("", content)
