"""Gateways that are processes of their own, and can be killed at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import select
from collections.abc import AsyncGenerator, Mapping
from multiprocessing.context import ForkServerProcess

from segue import config
from segue.gateway import service
from tests import program

LATER = 0.03
"""Seconds by which it is killed later than that, at most."""
AT_BIRTH = 0.2
"""How likely one is killed while it starts, and within how many seconds."""


def _run(environment: Mapping[str, str]) -> None:
    logging.disable()
    asyncio.run(service.serve(config.load(environment)))


def started(environment: Mapping[str, str]) -> ForkServerProcess:
    """A gateway, which has just begun to start."""
    process = program.PROCESSES.Process(target=_run, args=(dict(environment),), daemon=True)
    process.start()
    return process


def kill(process: ForkServerProcess) -> None:
    """Until the kernel has cleared everything away: it is known to be dead a moment earlier."""
    assert process.pid is not None
    ended = os.pidfd_open(process.pid)
    try:
        process.kill()
        process.join()
        select.select([ended], [], [])
    finally:
        os.close(ended)
    process.close()


class Killer:
    """Kills the gateway, and starts another."""

    def __init__(self, environment: dict[str, str], chance: random.Random, most: int) -> None:
        """A gateway lives for `most` moments, or less: steps of handoffs, and messages that people
        are told of."""
        self.kills = 0
        self._environment = environment
        self._chance = chance
        self._most = most
        self._left = 0
        self._now = asyncio.Event()

    def moment(self) -> None:
        """Something has happened, so that this may be the moment."""
        self._left -= 1
        if self._left == 0:
            self._now.set()

    @contextlib.asynccontextmanager
    async def killing(self) -> AsyncGenerator[None]:
        """From now on, until `spare`; in the end none is left."""
        self._process = await asyncio.to_thread(started, self._environment)
        self._task = asyncio.create_task(self._kill())
        try:
            yield
        finally:
            await self.spare()
            kill(self._process)

    async def spare(self) -> None:
        """The one that there is now lives on."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def strike(self) -> None:
        """Kill it now; the next one begins to start."""
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
