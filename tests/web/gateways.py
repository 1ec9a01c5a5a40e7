"""Gateways in separate processes, which can be killed at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import select
from collections.abc import AsyncGenerator, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from segue import config
from segue.gateway import service
from tests import program

LATER = 0.03
"""The maximum delay in seconds before a kill."""
AT_BIRTH = 0.2
"""The probability that a gateway is killed while it starts, and the seconds within which."""


def _run(environment: Mapping[str, str]) -> None:
    logging.disable()
    asyncio.run(service.serve(config.load(environment)))


def started(environment: Mapping[str, str]) -> ForkServerProcess:
    """A gateway that has just begun to start."""
    process = program.PROCESSES.Process(target=_run, args=(dict(environment),), daemon=True)
    process.start()
    return process


def kill(process: ForkServerProcess) -> None:
    """Kill the process and wait until the kernel has released its resources.

    `join` returns slightly earlier than that.
    """
    assert process.pid is not None
    ended = os.pidfd_open(process.pid)
    try:
        process.kill()
        process.join()
        select.select([ended], [], [])
    finally:
        os.close(ended)
    process.close()


def environment(folder: Path, port: int) -> dict[str, str]:
    """An environment with a fixed port for the page, which no other test uses.

    A page that reconnects must not reach another test's gateway.
    """
    settings = folder / "config.toml"
    settings.write_text(f"[web]\nport = {port}\nlan = false\n")
    settings.chmod(0o600)
    return {
        "SEGUE_CONFIG": str(settings),
        "SEGUE_STORE": f"sqlite://{folder}/segue.db",
        "SEGUE_GATEWAY_LOG": f"{folder}/gateway.log",
    }


class Killer:
    """Kills the gateway and starts another."""

    def __init__(self, environment: dict[str, str], chance: random.Random, most: int) -> None:
        """A gateway lives for at most `most` moments: handoff steps, and messages that readers
        receive."""
        self.kills = 0
        self._environment = environment
        self._chance = chance
        self._most = most
        self._left = 0
        self._now = asyncio.Event()

    def moment(self) -> None:
        """Count an event. The gateway is killed after a random number of them."""
        self._left -= 1
        if self._left == 0:
            self._now.set()

    @contextlib.asynccontextmanager
    async def killing(self) -> AsyncGenerator[None]:
        """Kill gateways until `spare`. None is left at the end."""
        self._process = await asyncio.to_thread(started, self._environment)
        self._task = asyncio.create_task(self._kill())
        try:
            yield
        finally:
            await self.spare()
            kill(self._process)

    async def spare(self) -> None:
        """Stop killing: the current gateway stays alive."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def strike(self) -> None:
        """Kill the gateway now and start the next."""
        kill(self._process)
        self.kills += 1
        self._process = started(self._environment)

    async def _kill(self) -> None:
        while True:
            await self._its_moment()
            self.strike()

    async def _its_moment(self) -> None:
        if self._chance.random() < AT_BIRTH:
            await asyncio.sleep(self._chance.uniform(0, AT_BIRTH))
            return
        self._now.clear()
        self._left = self._chance.randint(1, self._most)
        await self._now.wait()
        await asyncio.sleep(self._chance.uniform(0, LATER))
