"""The delivery of a fake's answer: slow, in pieces, or incomplete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from segue.testing.http import HangUp


@dataclass(frozen=True, slots=True, kw_only=True)
class Travel:
    """How the bytes of an answer reach the client."""

    chunk: int = 0
    """Bytes sent at a time; 0 sends all at once."""
    pause: float = 0.0
    """Seconds between chunks."""
    hang_up_after: int | None = None
    """Bytes after which the connection is dropped."""
    end_after: int | None = None
    """Bytes after which the response ends normally, although the answer is incomplete."""
    stall_after: int | None = None
    """Bytes after which nothing more is sent, while the connection stays open."""
    drip_after: int | None = None
    """Bytes after which only comments are sent until the client disconnects.

    OpenRouter does this while it waits (openrouter.ai/docs/api-reference/streaming).
    """


AT_ONCE = Travel()


async def travelling(stream: bytes, travel: Travel, left: asyncio.Event) -> AsyncGenerator[bytes]:
    """Yield the stream as `travel` delivers it. Sets `left` if the client disconnects early."""
    ends = (travel.hang_up_after, travel.end_after, travel.stall_after, travel.drip_after)
    sent = stream[: min((end for end in ends if end is not None), default=len(stream))]
    size = travel.chunk or len(sent) or 1
    try:
        for at in range(0, len(sent), size):
            yield sent[at : at + size]
            if travel.pause:
                await asyncio.sleep(travel.pause)
        if travel.hang_up_after is not None:
            raise HangUp
        if travel.stall_after is not None:
            await asyncio.Event().wait()
        while travel.drip_after is not None:
            yield b": still here\n\n"
            await asyncio.sleep(0.01)
    except GeneratorExit:
        left.set()
        raise
