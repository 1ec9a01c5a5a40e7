"""A gateway that has run out of file descriptors pauses, logs it once, and continues."""

from __future__ import annotations

import asyncio
import socket
from asyncio import constants

import pytest

from segue.gateway.watchdog import EXHAUSTION_SECONDS, Exhaustion
from segue.testing.clock import FakeClock
from tests.harness.descriptors import exhausted
from tests.harness.house import WITHIN


async def test_connections_wait_until_descriptors_are_free_and_the_log_stays_short(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(constants, "ACCEPT_RETRY_DELAY", 0.01)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(Exhaustion())
    served = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    client = socket.socket()
    client.setblocking(False)
    with exhausted():
        await loop.sock_connect(client, server.sockets[0].getsockname())
        await asyncio.sleep(0.1)
        assert not served.is_set()
    async with asyncio.timeout(WITHIN):
        await served.wait()
    client.close()
    server.close()
    await server.wait_closed()
    (line,) = [r.getMessage() for r in caplog.records if "Too many open files" in r.getMessage()]
    assert "run `ulimit -n 4096`" in line
    assert "Traceback" not in caplog.text


async def test_repeated_errors_are_logged_periodically_with_their_count(
    caplog: pytest.LogCaptureFixture,
):
    clock = FakeClock()
    handler = Exhaustion(lambda: clock.ticks() / 1_000_000)
    loop = asyncio.get_running_loop()
    for _ in range(3):
        for _ in range(500):
            handler(loop, {"message": "accept", "exception": OSError(24, "Too many open files")})
        clock.advance(EXHAUSTION_SECONDS)
    said = [record.getMessage().partition("attempts=")[2].split()[0] for record in caplog.records]
    assert said == ["1", "500", "500"]


async def test_any_other_error_is_logged_as_usual(caplog: pytest.LogCaptureFixture):
    Exhaustion()(asyncio.get_running_loop(), {"message": "odd", "exception": OSError(5, "I/O")})
    assert "odd" in caplog.text
