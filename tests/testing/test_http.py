"""The HTTP server of the fakes."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from segue.testing import http


async def _answer(request: http.Request) -> http.Response:
    return http.Response()


@pytest.mark.parametrize("steps", range(6))
async def test_no_connection_outlives_the_server(steps: int) -> None:
    """`steps` of the event loop after the client connected: before the server accepts it, and at
    each point until the server waits for a request."""
    bound = http.bind()
    port: int = bound.getsockname()[1]
    async with http.serving(_answer, bound):
        client = socket.create_connection(("127.0.0.1", port))
        for _ in range(steps):
            await asyncio.sleep(0)
    client.setblocking(False)
    with client, contextlib.suppress(ConnectionResetError):
        assert client.recv(1) == b""  # raises BlockingIOError while the connection is open
