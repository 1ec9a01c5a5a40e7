"""A gateway that is stopped while its store is gone: it ends in time, and loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec.structs import replace

import segue.store
from segue.gateway import background, containment, service
from segue.gateway.service import Gateway
from segue.store import Store, errors, gateways, retries
from segue.store.base import Engine
from segue.store.gateways import LinkState
from segue.testing.platform import Shape
from segue.turns import Turns
from segue.turns.agents import Agents
from tests.handoffs.conftest import Faulty
from tests.harness.house import House, Offered, Slow

STOPPED = 15.0


class Failing(Faulty):
    """A real engine that can fail or hang at everything."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.error: Exception | None = None
        self.hangs_at: Any = None
        """The work that never ends, while it is set."""
        self.hung = asyncio.Event()

    async def read(self, *args: Any, **kwargs: Any) -> Any:
        if self.error is not None:
            raise self.error
        return await super().read(*args, **kwargs)

    async def write(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        if self.error is not None:
            raise self.error
        if self.hangs_at is not None and inspect.unwrap(self.hangs_at) is work:
            self.hung.set()
            await asyncio.Event().wait()
        return await super().write(work, *args, **kwargs)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "PAUSE", 0.001)
    monkeypatch.setattr(service, "STOP_TIMEOUT", 0.05)
    monkeypatch.setattr(service, "FLUSH_TIMEOUT", 0.05)
    monkeypatch.setattr(service, "CLOSE_TIMEOUT", 0.5)
    monkeypatch.setattr(containment, "CANCEL_AGAIN_SECONDS", 0.5)


class Running:
    def __init__(self, engine: Failing, stop: asyncio.Event, task: asyncio.Task[None]) -> None:
        self.engine = engine
        self._stop = stop
        self.task = task

    async def stops(self) -> None:
        self._stop.set()
        done, _ = await asyncio.wait({self.task}, timeout=STOPPED)
        assert done, "it has not stopped"


@contextlib.asynccontextmanager
async def running(house: House) -> AsyncGenerator[Running]:
    """A gateway whose store can fail, and which the test stops."""
    engine = Failing((await segue.store.open(house.url))._engine)
    stop = asyncio.Event()
    async with Store(engine) as store:
        agents = Agents(store, house.settings, Offered(house.model))
        async with Turns(store, agents, titles=False) as turns:
            gateway = Gateway(store, turns, house.settings, [house.adapter()])
            task = asyncio.create_task(gateway.run(stop))
            await house.until_link(LinkState.CONNECTED)
            yield Running(engine, stop, task)
            task.cancel()
            await asyncio.wait({task})


ERRORS = [
    errors.failed("the store", "the server is gone"),
    errors.full("the store"),
]


@pytest.mark.parametrize("error", ERRORS)
async def test_a_gateway_whose_store_is_gone_during_a_model_call_stops_and_loses_nothing(
    house: House, error: Exception, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    house.model = model = Slow("think")
    chat = await house.chat()
    async with running(house) as gateway:
        await house.driver.say(house.anna, chat, "think about it")
        await model.thinks.wait()
        gateway.engine.error = error
        await gateway.stops()
        gateway.engine.error = None
    assert "gateway has stopped" in caplog.text
    model.go.set()
    async with house.gateway(model=model):
        await house.driver.message("(1) think about it", chat=chat)
        await house.idle()
    said = [text for text in (await house.driver.look(chat)).texts if text.startswith("(")]
    assert said == ["(1) think about it"]


@pytest.mark.parametrize("error", ERRORS)
async def test_a_gateway_stops_although_the_end_of_an_answer_cannot_be_stored(
    house: House, error: Exception
):
    house.model = model = Slow("think")
    chat = await house.chat()
    async with running(house) as gateway:
        await house.driver.say(house.anna, chat, "think about it")
        await model.thinks.wait()
        gateway.engine.error = error
        model.go.set()
        await gateway.stops()
        gateway.engine.error = None
    async with house.gateway(model=model):
        await house.driver.message("(1) think about it", chat=chat)


async def test_a_gateway_stops_although_the_store_is_gone_during_a_handoff(house: House):
    house.model = model = Slow("handed off")
    await house.home(await house.chat(Shape.FORUM), "group")
    async with running(house) as gateway, house.terminal(("What is 6 times 7?", "42.")) as desk:
        handing_off = asyncio.create_task(desk.hand_off())
        await model.thinks.wait()
        gateway.engine.error = ERRORS[0]
        await gateway.stops()
        gateway.engine.error = None
        handing_off.cancel()
        await asyncio.wait({handing_off})


async def test_a_renewal_of_the_presence_that_hangs_is_given_up_and_repeated(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service, "HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr(service, "PRESENCE_TIMEOUT", 0.1)
    monkeypatch.setattr(containment, "FIRST_PAUSE", 0.01)
    chat = await house.chat()
    async with running(house) as gateway:
        gateway.engine.hangs_at = gateways.announce
        await gateway.engine.hung.wait()
        gateway.engine.hangs_at = None
        announced = (await present(house))[0]
        async with asyncio.timeout(STOPPED):
            while True:
                if (await present(house))[0] != announced:
                    break
                await asyncio.sleep(0.01)
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await gateway.stops()


async def test_a_gateway_whose_presence_hangs_again_and_again_exits_with_an_error(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service, "HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr(service, "PRESENCE_TIMEOUT", 0.02)
    monkeypatch.setattr(containment, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(containment, "MAX_PAUSE", 0.01)
    async with running(house) as gateway:
        gateway.engine.hangs_at = gateways.announce
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(gateway.task), STOPPED)


async def present(house: House) -> tuple[int, ...]:
    """Until when the gateways are present."""
    rows = await house.store.read(lambda tx: tx.rows("SELECT until FROM gateways"))
    return tuple(until for (until,) in rows)


async def test_a_task_that_goes_on_after_a_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(containment, "CANCEL_AGAIN_SECONDS", 0.01)

    async def stubborn(times: int) -> None:
        for _ in range(times):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        await asyncio.Event().wait()

    once = asyncio.create_task(stubborn(1))
    never = asyncio.create_task(stubborn(100))
    await asyncio.sleep(0)
    async with asyncio.timeout(STOPPED):
        await containment.cancel(once, never)
    assert once.cancelled()
    assert not never.done()
    while not never.done():
        never.cancel()
        await asyncio.sleep(0)


def test_a_process_that_does_not_exit_after_a_stop_signal_is_ended():
    script = (
        "import time\n"
        "from segue.gateway import log_file, watchdog\n"
        "watchdog.EXIT_TIMEOUT = 0.01\n"
        "log_file.write_to(None)\n"
        "watchdog.ExitDeadline().start()\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=40)
    assert done.returncode == 1
    assert "did not stop within" in done.stderr
    assert "The next gateway continues its work" in done.stderr


async def test_stopping_a_gateway_looks_at_its_process_if_the_store_is_gone(house: House):
    engine = Failing((await segue.store.open(house.url))._engine)
    async with Store(engine) as store:
        gateway = await gateways.announce(store, "a gateway", [])
        engine.error = ERRORS[0]
        assert await background._left(store, [gateway]) == [gateway]
        ended = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
        await ended.wait()
        name = gateway.process.replace(f"-{os.getpid()}-", f"-{ended.pid}-")
        assert await background._left(store, [replace(gateway, process=name)]) == []
        engine.error = None
