"""A whole turn as the program runs it: store, agent, store."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import segue.store
from benchmarks.agent import samples, server
from benchmarks.figures import Figure, median, milliseconds
from segue import config
from segue.agent.models.base import Model
from segue.core.address import Platform
from segue.core.approval import Policy
from segue.core.events import TurnDone
from segue.core.session import ME
from segue.turns import Turns
from segue.turns.agents import Agents


def measure(*, quick: bool) -> Iterator[Figure]:
    runs = 10 if quick else 40
    with server.running("openai") as url:
        for length in samples.LENGTHS:
            took = asyncio.run(_turns(url, length, runs))
            yield milliseconds(f"take_turn with a tool on SQLite, {length:,} messages", took)


class _One:
    """Provides a single model."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def get(self, wanted: str | None) -> Model:
        return self._model

    async def close(self) -> None:
        await self._model.close()


async def _turns(url: str, length: int, runs: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        settings = config.load({"SEGUE_STORE": f"sqlite://{folder}/segue.db"})
        settings = replace(settings, approvals=config.Approvals(policy=Policy.AUTO))
        models = _One(samples.model("openai", url))
        async with (
            await segue.store.open(settings.store) as store,
            Turns(store, Agents(store, settings, models), titles=False) as turns,
        ):
            await store.owners.ensure(ME)
            session = await store.sessions.create(ME, Platform.LOCAL, cwd=str(Path(folder)))
            lease = await store.leases.acquire(session.id, "the past")
            await store.transcripts.append(lease, samples.history(length)[:-1])
            await store.leases.release(lease)
            took: list[float] = []
            for _ in range(runs + 1):
                began = time.perf_counter()
                events = [event async for event in turns.take_turn(session.id, "Look once more.")]
                took.append(time.perf_counter() - began)
                assert events[-1] == TurnDone()
            return median(took[1:])
