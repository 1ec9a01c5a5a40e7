"""The gateway's HTTP server: connections, requests and frames of a WebSocket.

The server runs in a separate process, so that only its own cost is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

from benchmarks import bare
from benchmarks.alternation import of_process
from benchmarks.figures import Base, Figure, milliseconds
from tests.web.bare_server import read_answer
from tests.web.handshake import opened

CONNECTION = 12.0
"""The most that each may cost, as a multiple of a bare echo."""
REQUEST = 10.0
FRAME = 10.0
_PROGRAM = """
import asyncio, sys
import segue.store
from segue.web.page import WebPage
from segue.web.server import Server

async def main():
    async with await segue.store.open(f"sqlite://{sys.argv[1]}/segue.db") as store:
        server = Server()
        server.page = WebPage(store)
        place = await server.start(0)
        print(place.port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def measure(*, quick: bool) -> Iterator[Figure]:
    connection, request, frame, echo = asyncio.run(_measure(2 if quick else 6))
    base = Base(name="a bare echo", value=echo)
    name = "page: CPU of a request on a new connection"
    yield milliseconds(name, connection, base, CONNECTION)
    name = "page: CPU of a request on an open connection"
    yield milliseconds(name, request, base, REQUEST)
    yield milliseconds("page: CPU of a ping on a WebSocket", frame, base, FRAME)


async def _measure(rounds: int) -> tuple[float, float, float, float]:
    async with _server() as (process, port), bare.echo() as echo:
        ways = {
            "connection": lambda: _connections(port, 200),
            "request": lambda: _requests(port, 300),
            "frame": lambda: _frames(port, 300),
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        echoes: list[float] = []
        for _ in range(rounds):
            for name, way in ways.items():
                used = of_process(process)
                number = await way()
                found[name].append((of_process(process) - used) / number)
            echoes.append(await _echo(echo, 300))
        least = {name: min(costs) for name, costs in found.items()}
        return least["connection"], least["request"], least["frame"], min(echoes)


@contextlib.asynccontextmanager
async def _server() -> AsyncGenerator[tuple[int, int]]:
    """Yield the process and the port of a server of the page."""
    with tempfile.TemporaryDirectory() as folder:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _PROGRAM, folder), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            yield process.pid, int(await process.stdout.readline())
        finally:
            process.terminate()
            await process.wait()


def _request(port: int) -> bytes:
    return f"GET /icon.svg HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()


async def _connections(port: int, number: int) -> int:
    for _ in range(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_request(port))
        await read_answer(reader)
        writer.close()
        await writer.wait_closed()
    return number


async def _requests(port: int, number: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(number):
        writer.write(_request(port))
        await read_answer(reader)
    writer.close()
    await writer.wait_closed()
    return number


async def _frames(port: int, number: int) -> int:
    async with opened(f"http://127.0.0.1:{port}") as wire:
        for _ in range(number):
            await (await wire.ping(b"x"))
    return number


async def _echo(once: Callable[[], Awaitable[object]], number: int) -> float:
    """The processor seconds of this process for an echo, of which the other process uses as
    many."""
    used = time.process_time()
    for _ in range(number):
        await once()
    return (time.process_time() - used) / number
