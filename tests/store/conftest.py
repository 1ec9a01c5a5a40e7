"""A store to test: the same tests for SQLite and, marked `real`, for PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path

import pytest

import segue.store
from segue.core.address import Platform
from segue.core.session import Session
from segue.store import Store
from segue.testing import postgres
from segue.testing.clock import FakeClock
from tests import made

OpenStore = Callable[[], Awaitable[Store]]


@pytest.fixture(scope="session")
def postgres_server() -> Generator[postgres.Server]:
    with postgres.running() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_database(postgres_server: postgres.Server) -> Generator[str]:
    """One database for the whole run: making one takes longer than most tests."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty store, for `open_store`. A test that opens it by itself finds none there yet."""
    is_made = "open_store" in request.fixturenames
    if request.param == "sqlite":
        path = tmp_path / "segue.db"
        return made.store(path) if is_made else f"sqlite://{path}"
    database: str = request.getfixturevalue("postgres_database")
    return made.emptied(database) if is_made else made.without(database)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def open_store(url: str, clock: FakeClock, runner: asyncio.Runner) -> Generator[OpenStore]:
    """Opens the store once more, as another process would; closes all of them afterwards."""
    opened: list[Store] = []

    async def open_one() -> Store:
        opened.append(await segue.store.open(url, clock=clock))
        return opened[-1]

    yield open_one
    for store in opened:
        runner.run(store.close())


@pytest.fixture
def store(open_store: OpenStore, runner: asyncio.Runner) -> Store:
    """An open store with one owner, `me`."""

    async def prepare() -> Store:
        store = await open_store()
        await store.owners.ensure("me", "Me")
        return store

    return runner.run(prepare())


@pytest.fixture
def session(store: Store, runner: asyncio.Runner) -> Session:
    """A session of `me`, with nothing said in it yet."""
    return runner.run(store.sessions.create("me", Platform.LOCAL, cwd="/home/me/project"))
