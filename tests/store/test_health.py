"""The health of the store."""

from __future__ import annotations

from pathlib import Path

import pytest

import segue.store
from segue.core.address import Platform
from segue.store import Store, database, owners, sessions


async def test_health_reports_the_size_of_the_store_and_no_faults(store: Store, url: str):
    found = await database.health(store)
    assert 10_000 < found.size < 100_000_000
    assert found.faults == (() if url.startswith("sqlite:") else None)


async def test_a_large_store_is_not_checked_in_full(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(database, "CHECK_LIMIT", 1000)
    assert (await database.health(store)).faults is None


async def test_damage_is_found(tmp_path: Path):
    path = tmp_path / "segue.db"
    async with await segue.store.open(f"sqlite://{path}") as store:
        await owners.ensure(store, "me")
        for number in range(50):
            await sessions.create(store, "me", Platform.LOCAL, title=f"title {number}")
    data = bytearray(path.read_bytes())
    place = data.rindex(b"title 7")
    page = place // 4096 * 4096
    data[page + 1 : page + 12] = b"\xff" * 11
    path.write_bytes(data)
    path.with_name("segue.db-wal").unlink()
    async with await segue.store.open(f"sqlite://{path}") as store:
        assert (await database.health(store)).faults
