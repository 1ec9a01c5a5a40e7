"""A turn with one tool call (two requests) against an instant server.

The base, measured by turns, is the same two requests sent with plain httpx2. All in processor time:
the server is another process.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2

from benchmarks.agent import samples, server
from benchmarks.figures import Base, Figure, milliseconds
from segue.core.events import TextDelta, TurnDone
from segue.core.transcript import Message, Transcript

WIRES = ("openai", "anthropic", "gemini")
_BARE = "bare httpx2"
_BEYOND = 2.0
"""The maximum ratio of the time of a turn to that of the plain requests."""
_FIRST = 2.0
"""The maximum ratio of the time until the first word of the second answer to that of the plain
request."""

_Once = Callable[[], Awaitable[float]]
"""Two requests. Returns the seconds from the second one to the first word of its answer."""


def measure(*, quick: bool) -> Iterator[Figure]:
    yield from asyncio.run(_measure(5 if quick else 20))


async def _measure(runs: int) -> list[Figure]:
    found: list[Figure] = []
    for length in samples.LENGTHS:
        async with AsyncExitStack() as stack:
            ways: dict[str, _Once] = {}
            url = stack.enter_context(server.running("openai"))
            ways[_BARE] = await stack.enter_async_context(_bare(url, length))
            for wire in WIRES:
                url = stack.enter_context(server.running(wire))
                ways[wire] = await stack.enter_async_context(_turns(wire, url, length))
            wholes, firsts = await _each(ways, runs)
        base = Base(name=_BARE, value=wholes[_BARE])
        first = Base(name=_BARE, value=firsts[_BARE])
        for wire in WIRES:
            name = f"{wire}: turn with a tool, {length:,} messages"
            found.append(milliseconds(name, wholes[wire], base, _BEYOND))
            name = f"{wire}: to the first word of the second answer, {length:,} messages"
            found.append(milliseconds(name, firsts[wire], first, _FIRST))
    return found


@asynccontextmanager
async def _bare(url: str, length: int) -> AsyncGenerator[_Once]:
    messages = [_plain(message) for message in samples.history(length)]
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:

        async def twice() -> float:
            first = 0.0
            for _ in range(2):
                asked = time.process_time()
                first = 0.0
                body = json.dumps({"messages": messages, "stream": True}).encode()
                async with client.stream("POST", "/chat/completions", content=body) as response:
                    async for line in response.aiter_lines():
                        if line.startswith("data: {"):
                            json.loads(line[6:])
                            first = first or time.process_time() - asked
            return first

        yield twice


def _plain(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        plain["tool_call_id"] = message.tool_call_id
    return plain


@asynccontextmanager
async def _turns(wire: str, url: str, length: int) -> AsyncGenerator[_Once]:
    model = samples.model(wire, url)
    agent = samples.agent(model)
    transcript = Transcript(tuple(samples.history(length)))

    async def turn() -> float:
        asked = 0.0
        first = 0.0
        async for event in agent.turn(transcript, asyncio.Event()):
            if isinstance(event, TextDelta):
                first = first or time.process_time() - asked
            elif not isinstance(event, TurnDone):
                asked = time.process_time()
        return first

    try:
        yield turn
    finally:
        await model.close()


async def _each(ways: Mapping[str, _Once], runs: int) -> tuple[dict[str, float], dict[str, float]]:
    """The least processor seconds of each of the ways, by turns: of all of it, and to the first
    word. The first run, which connects, does not count."""
    wholes: dict[str, list[float]] = {name: [] for name in ways}
    firsts: dict[str, list[float]] = {name: [] for name in ways}
    for run in range(runs + 1):
        for name, once in ways.items():
            began = time.process_time()
            first = await once()
            if run:
                wholes[name].append(time.process_time() - began)
                firsts[name].append(first)
    return _least(wholes), _least(firsts)


def _least(costs: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: min(each) for name, each in costs.items()}
