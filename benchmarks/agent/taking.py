"""A whole turn as the program runs it: store, agent, store."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

import segue.store
from benchmarks.agent import samples, server
from benchmarks.figures import Base, Figure, milliseconds
from segue import config
from segue.agent.models.base import Model
from segue.core.address import Platform
from segue.core.approval import Policy
from segue.core.events import TurnDone
from segue.core.session import ME
from segue.core.transcript import Transcript
from segue.jobs import reminders
from segue.store import leases, owners, sessions, transcripts
from segue.turns import Turns
from segue.turns.agents import Agents

BEYOND = 2.5
"""The maximum ratio to the agent's own turn, without the store."""


def measure(*, quick: bool) -> Iterator[Figure]:
    runs = 5 if quick else 20
    with server.running("openai") as url, server.running("openai") as other:
        for length in samples.LENGTHS:
            took, alone = asyncio.run(_turns(url, other, length, runs))
            base = Base(name="the agent without a store", value=alone)
            name = f"take_turn with a tool on SQLite, {length:,} messages"
            yield milliseconds(name, took, base, BEYOND)


class _One:
    """Provides a single model."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def get(self, wanted: str | None) -> Model:
        return self._model

    async def close(self) -> None:
        await self._model.close()


async def _turns(url: str, other: str, length: int, runs: int) -> tuple[float, float]:
    """The least processor seconds of a turn, and of the same turn without a store."""
    with tempfile.TemporaryDirectory() as folder:
        settings = config.load({"SEGUE_STORE": f"sqlite://{folder}/segue.db"})
        settings = structs.replace(settings, approvals=config.Approvals(policy=Policy.AUTO))
        models = _One(samples.model("openai", url))
        async with (
            await segue.store.open(settings.store) as store,
            Turns(
                store, Agents(store, settings, models, more_tools=reminders.tools), titles=False
            ) as turns,
        ):
            await owners.ensure(store, ME)
            session = await sessions.create(store, ME, Platform.LOCAL, cwd=str(Path(folder)))
            lease = await leases.acquire(store, session.id, "the past")
            await transcripts.append(store, lease, samples.history(length)[:-1])
            await leases.release(store, lease)
            history = Transcript(tuple(samples.history(length)))
            model = samples.model("openai", other)
            agent = samples.agent(model)
            took: list[float] = []
            alone: list[float] = []
            for _ in range(runs + 1):
                began = time.process_time()
                events = [event async for event in turns.take_turn(session.id, "Look once more.")]
                between = time.process_time()
                assert [event async for event in agent.turn(history, asyncio.Event())]
                alone.append(time.process_time() - between)
                took.append(between - began)
                assert events[-1] == TurnDone()
            await model.close()
            return min(took[1:]), min(alone[1:])
