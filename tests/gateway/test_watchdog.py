"""The log says how long the event loop was held, and by which task."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from segue.gateway import watchdog
from segue.gateway.watchdog import Watchdog, watched


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when the watchdog has looked at what holds the loop."""
    monkeypatch.setattr(watchdog, "ASK_SECONDS", 0.001)
    event = threading.Event()
    line = Watchdog._running_line

    def running_line(self: Watchdog) -> str:
        found = line(self)
        event.set()
        return found

    monkeypatch.setattr(Watchdog, "_running_line", running_line)
    return event


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records]
    return [line for line in said if line.startswith("event loop held seconds=")]


async def until_logged(caplog: pytest.LogCaptureFixture) -> str:
    async with asyncio.timeout(40):
        while True:
            if found := lines(caplog):
                return found[0]
            await asyncio.sleep(0.001)


async def test_a_held_loop_is_logged_with_the_task_that_held_it(
    caplog: pytest.LogCaptureFixture, seen: threading.Event
):
    async def hold() -> None:
        seen.wait()

    with watched(asyncio.get_running_loop()):
        await asyncio.create_task(hold(), name="send 42")
        line = await until_logged(caplog)
    assert "task='send 42'" in line
    assert " processor=" in line


async def test_the_log_names_our_line_and_not_that_of_a_library(
    caplog: pytest.LogCaptureFixture, seen: threading.Event
):
    here: dict[str, Any] = {"__name__": "segue.somewhere"}
    exec("def hold(seen):\n    seen.wait()\n", here)
    with watched(asyncio.get_running_loop()):
        asyncio.get_running_loop().call_soon(here["hold"], seen)
        line = await until_logged(caplog)
    assert "at=segue.somewhere:2 " in line
    assert "task=''" in line


async def test_an_idle_loop_is_not_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(watchdog, "MAX_HOLD", 60.0)
    monkeypatch.setattr(watchdog, "ASK_SECONDS", 0.001)
    with watched(asyncio.get_running_loop()):
        for _ in range(20):
            await asyncio.sleep(0.001)
    assert lines(caplog) == []


def test_many_holds_are_one_line(caplog: pytest.LogCaptureFixture):
    watching = Watchdog(asyncio.new_event_loop(), threading.get_ident())
    try:
        for seconds in (0.2, 0.1, 0.2, 0.1, 0.3):
            watching._report(seconds, 0.1, "send", "segue.somewhere:1")
    finally:
        watching._loop.close()
    holds = [(line.split()[3], line.split()[-1]) for line in lines(caplog)]
    assert holds == [("seconds=0.200", "holds=1"), ("seconds=0.300", "holds=4")]
