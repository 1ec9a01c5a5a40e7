"""An instant model server: it answers every first request with a tool call, every second with text.

It reads no more of a request than it must, and runs in a separate process, so that its CPU time is
not counted as the client's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Generator, Iterator
from itertools import cycle

WORDS = ("Four ", "words ", "are ", "enough.")


def _openai(*, call: bool) -> Iterator[dict[str, object]]:
    function = {"name": "look", "arguments": "{}"}
    calls = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
    deltas = [{"tool_calls": calls}] if call else [{"content": word} for word in WORDS]
    for delta in deltas:
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = "tool_calls" if call else "stop"
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    yield {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}


def _anthropic(*, call: bool) -> Iterator[dict[str, object]]:
    usage = {"input_tokens": 9, "output_tokens": 1}
    yield {"type": "message_start", "message": {"usage": usage}}
    if call:
        block: dict[str, object] = {"type": "tool_use", "id": "toolu_1", "name": "look"}
        yield {"type": "content_block_start", "index": 0, "content_block": {**block, "input": {}}}
        deltas = [{"type": "input_json_delta", "partial_json": "{}"}]
    else:
        yield {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        }
        deltas = [{"type": "text_delta", "text": word} for word in WORDS]
    for delta in deltas:
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = "tool_use" if call else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 4}}
    yield {"type": "message_stop"}


def _gemini(*, call: bool) -> Iterator[dict[str, object]]:
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}
    parts: list[dict[str, object]] = (
        [{"functionCall": {"name": "look", "args": {}}}]
        if call
        else [{"text": word} for word in WORDS]
    )
    for part in parts:
        yield {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]}
    last = {"index": 0, "content": {"role": "model", "parts": [{"text": ""}]}}
    yield {"candidates": [{**last, "finishReason": "STOP"}], "usageMetadata": usage}


_WIRES = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini}
_ENDINGS = {"openai": b"data: [DONE]\n\n"}


def _response(wire: str, *, call: bool) -> bytes:
    events = b"".join(
        (f"event: {event['type']}\n" if "type" in event else "").encode()
        + b"data: "
        + json.dumps(event).encode()
        + b"\n\n"
        for event in _WIRES[wire](call=call)
    )
    body = events + _ENDINGS.get(wire, b"")
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def _serve(wire: str) -> None:
    answers = cycle((_response(wire, call=True), _response(wire, call=False)))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                (length,) = (
                    int(line.partition(b":")[2])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                )
                await reader.readexactly(length)
                writer.write(next(answers))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=64 * 1024 * 1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until the parent process is gone


@contextlib.contextmanager
def running(wire: str) -> Generator[str]:
    """Run a server with the wire format of `wire`, and yield its URL."""
    process = subprocess.Popen(
        [sys.executable, __file__, wire],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
