"""A store to test: the same tests run on SQLite and, marked `real`, on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path

import pytest

import segue.store
from segue.core.address import Platform
from segue.core.session import Session
from segue.store import Store, owners, sessions
from segue.testing.clock import FakeClock
from tests.fakes import postgres
from tests.harness import stores

OpenStore = Callable[[], Awaitable[Store]]


@pytest.fixture(scope="session", autouse=True)
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """An upgrade of a PostgreSQL store puts a backup into the user's data folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Generator[postgres.Server]:
    with postgres.running() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_database(postgres_server: postgres.Server) -> Generator[str]:
    """One database for the whole run, because creating one takes longer than most tests."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store for `open_store`.

    Without that fixture, no store exists there yet.
    """
    is_made = "open_store" in request.fixturenames
    if request.param == "sqlite":
        path = tmp_path / "segue.db"
        return stores.create(path) if is_made else f"sqlite://{path}"
    database: str = request.getfixturevalue("postgres_database")
    return stores.empty(database) if is_made else stores.drop(database)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def open_store(url: str, clock: FakeClock, runner: asyncio.Runner) -> Generator[OpenStore]:
    """Open the store again, as another process would. All are closed afterwards."""
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
        await owners.ensure(store, "me", "Me")
        return store

    return runner.run(prepare())


@pytest.fixture
def session(store: Store, runner: asyncio.Runner) -> Session:
    """An empty session of `me`."""
    return runner.run(sessions.create(store, "me", Platform.LOCAL, cwd="/home/me/project"))
