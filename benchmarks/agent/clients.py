"""A turn with one tool call (two requests) against an instant server.

The baseline, measured in the same run, is the same two requests sent with plain httpx2.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx2

from benchmarks.agent import samples, server
from benchmarks.figures import Figure, median, milliseconds
from segue.core.events import TextDelta, TurnDone
from segue.core.transcript import Message, Transcript

WIRES = ("openai", "anthropic", "gemini")
_BEYOND = 2.0
"""The maximum ratio of the time of a turn to that of the plain requests."""
_FIRST = {10: 10.0, 1_000: 15.0, 5_000: 40.0}
"""Target in milliseconds until the first word of a one-request answer, by history length."""


def measure(*, quick: bool) -> Iterator[Figure]:
    runs = 10 if quick else 40
    bare: dict[int, float] = {}
    with server.running("openai") as url:
        for length in samples.LENGTHS:
            bare[length] = asyncio.run(_bare(url, length, runs))
            yield milliseconds(f"two bare requests, {length:,} messages", bare[length])
    for wire in WIRES:
        with server.running(wire) as url:
            for length in samples.LENGTHS:
                turn, first = asyncio.run(_turn(wire, url, length, runs))
                target = bare[length] * 1000 * _BEYOND
                yield milliseconds(f"{wire}: turn with a tool, {length:,} messages", turn, target)
                name = f"{wire}: first word beyond the server's, {length:,} messages"
                yield milliseconds(name, first, _FIRST[length])


async def _bare(url: str, length: int, runs: int) -> float:
    messages = [_plain(message) for message in samples.history(length)]
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:

        async def twice() -> None:
            for _ in range(2):
                body = json.dumps({"messages": messages, "stream": True}).encode()
                async with client.stream("POST", "/chat/completions", content=body) as response:
                    async for line in response.aiter_lines():
                        if line.startswith("data: {"):
                            json.loads(line[6:])

        return median(await _each(twice, runs))


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


async def _turn(wire: str, url: str, length: int, runs: int) -> tuple[float, float]:
    """The seconds of a whole turn, and the seconds from the second request to the first word."""
    model = samples.model(wire, url)
    agent = samples.agent(model)
    transcript = Transcript(tuple(samples.history(length)))
    firsts: list[float] = []

    async def turn() -> None:
        asked, first = 0.0, 0.0
        async for event in agent.turn(transcript, asyncio.Event()):
            if isinstance(event, TextDelta):
                first = first or time.perf_counter() - asked
            elif not isinstance(event, TurnDone):
                asked = time.perf_counter()
        firsts.append(first)

    try:
        took = await _each(turn, runs)
    finally:
        await model.close()
    return median(took), median(firsts)


async def _each(work: Callable[[], Awaitable[None]], runs: int) -> list[float]:
    """The seconds of each run, without the first, which connects."""
    took: list[float] = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        await work()
        took.append(time.perf_counter() - began)
    return took[1:]
