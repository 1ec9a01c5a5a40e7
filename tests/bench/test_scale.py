"""The stores of `make bench scale`, with few sessions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.scale import operations, stores
from benchmarks.scale.stores import PER_OWNER, Size
from segue import store
from segue.core.address import Platform
from segue.store import Tx, inbox, outbox, search, sessions, transcripts
from tests.fakes import postgres

SIZE = Size(sessions=100)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("built") / "segue.db"
    url = f"sqlite://{path}"
    stores.build(url, SIZE)
    return url


def _messages(tx: Tx) -> int:
    return tx.one("SELECT count(*) FROM messages")[0]


async def test_a_built_store_has_what_the_public_operations_look_for(built: str):
    async with operations.opened(built, SIZE) as scene:
        s = scene.store
        assert await sessions.count(s) == SIZE.sessions
        assert await s.read(_messages) == SIZE.messages
        (first, *_) = await sessions.list_sessions(s, "me", platform=Platform.SIGNAL)
        assert first.source is Platform.SIGNAL
        assert await sessions.list_sessions(s, "me", ended=True)
        assert await sessions.list_sessions(s, "me", ended=False)
        newest = await inbox.newest(s, Platform.TELEGRAM, stores.ACCOUNT)
        assert newest[scene.address] == scene.receipt
        assert await outbox.sent_as(s, scene.address, scene.receipt)
        transcript = await transcripts.load(s, scene.session.id)
        assert [len(message.tool_calls) for message in transcript] == [0, 1] + 5 * [0] + [1, 0, 0]


async def test_every_operation_runs_on_a_built_store(built: str):
    await run_operations(built)


@pytest.mark.real
async def test_every_operation_runs_on_a_built_postgres_store():
    with postgres.running() as server, server.database() as url:
        await asyncio.to_thread(stores.build, url, SIZE)
        await run_operations(url)


async def run_operations(url: str) -> None:
    async with operations.opened(url, SIZE) as scene:
        for way in operations.reading_and_writing(scene).values():
            await way()
        async with operations.waiting(scene) as send:
            for _ in range(3):
                await send()


async def test_a_search_finds_what_is_indexed_in_bulk(built: str):
    async with operations.opened(built, SIZE) as scene:
        await stores.index(scene.store, SIZE, SIZE.sessions // 2, SIZE.sessions)
        assert await scene.store.read(stores.indexed) == await scene.store.read(_messages)
        hits = await search.messages(scene.store, "me", f"ticket {scene.receipt}")
        assert scene.session.id in {hit.session_id for hit in hits}


def test_the_sessions_of_one_owner_are_shared_out(tmp_path: Path):
    size = Size(sessions=PER_OWNER + 40, has_many_owners=True)
    one = tmp_path / "one.db"
    many = tmp_path / "many.db"
    stores.build(f"sqlite://{one}", Size(sessions=size.sessions))
    stores.share_out(size, one, many)
    assert asyncio.run(_count(f"sqlite://{many}", "me1")) == 40
    assert asyncio.run(_count(f"sqlite://{many}", "me")) == PER_OWNER


async def _count(url: str, owner: str) -> int:
    async with await store.open(url) as s:
        return len(await sessions.list_sessions(s, owner, limit=2 * PER_OWNER))
