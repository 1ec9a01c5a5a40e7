"""A store with a session, and helpers to take turns in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import segue.store
from segue import config
from segue.agent.models.base import Model
from segue.agent.models.scripted import Script, ScriptedModel
from segue.config import Settings
from segue.core.address import Platform
from segue.core.events import Event
from segue.core.session import Session
from segue.core.transcript import Message, ToolCall
from segue.jobs import reminders
from segue.store import Store, owners, sessions, transcripts
from segue.turns import Place, Turns
from segue.turns.agents import Agents
from tests.harness import stores
from tests.harness.house import Offered

OpenStore = Callable[[], Awaitable[Store]]


class SmallModel(ScriptedModel):
    """A model that is too small for most tools."""

    @property
    def small(self) -> bool:
        return True


def call(name: str, number: int = 1, **arguments: object) -> ToolCall:
    return ToolCall(f"c{number}", name, json.dumps(arguments))


class Desk:
    """One open store, and operations on it."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings

    @asynccontextmanager
    async def turns(
        self, model: Model | Script | Offered, *, titles: bool = False, **changes: Any
    ) -> AsyncGenerator[Turns]:
        if isinstance(model, Iterable):
            model = ScriptedModel(model)
        offered = model if isinstance(model, Offered) else Offered(model)
        settings = replace(self.settings, **changes)
        async with Turns(
            self.store,
            Agents(self.store, settings, offered, more_tools=reminders.tools),
            titles=titles,
        ) as turns:
            yield turns

    async def take(
        self,
        model: Model | Script | Offered,
        session: Session,
        said: str | Message | None = "hi",
        place: Place = Place(),  # noqa: B008 - a value
        **more: Any,
    ) -> list[Event]:
        """Take one complete turn and return its events."""
        async with self.turns(model) as turns:
            return [event async for event in turns.take_turn(session.id, said, place, **more)]

    async def transcript(self, session: Session) -> list[tuple[str, str]]:
        return [(m.role.value, m.content) for m in await transcripts.load(self.store, session.id)]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Default settings."""
    return config.load({"SEGUE_CONFIG": f"{tmp_path}/config.toml", "SEGUE_STORE": "sqlite:///none"})


@pytest.fixture
def open_store(tmp_path: Path, runner: asyncio.Runner) -> Generator[OpenStore]:
    """Open the store again, as another process would. All are closed afterwards."""
    opened: list[Store] = []
    url = stores.create(tmp_path / "segue.db")

    async def open_one() -> Store:
        opened.append(await segue.store.open(url))
        return opened[-1]

    yield open_one
    for store in opened:
        runner.run(store.close())


@pytest.fixture
def desk(open_store: OpenStore, settings: Settings, runner: asyncio.Runner) -> Desk:
    async def prepare() -> Desk:
        store = await open_store()
        await owners.ensure(store, "me", "Me")
        return Desk(store, settings)

    return runner.run(prepare())


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def session(desk: Desk, cwd: Path, runner: asyncio.Runner) -> Session:
    return runner.run(sessions.create(desk.store, "me", Platform.LOCAL, cwd=str(cwd)))
