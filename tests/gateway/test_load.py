"""Many conversations at once on one gateway: each is answered in order, and the cost of a message
does not grow with their number. `make bench` measures the speed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import segue.store
from segue.agent.models.scripted import ScriptedModel
from segue.core.address import Sender
from segue.core.session import ME
from segue.store import owners
from segue.store.base import Row
from segue.store.sqlite import SqliteTx
from segue.testing.platform import Peer, Rules, running
from tests.harness import gateway_processes
from tests.harness.crowd import Crowd
from tests.harness.house import TELEGRAM, WITHIN, House
from tests.harness.loop_holds import MOST_CALLS, loop_holds

FEW, MANY, EACH = 4, 16, 2
MOST_STATEMENTS = 40
"""For a message and its answer, with what a gateway asks from time to time, without the bounds of
transactions."""
SOAKED = 100
"""Chats."""
MOST_GROWTH = 10.0
"""Megabytes."""


@dataclass
class Work:
    """The work done in the store."""

    statements: Counter[str] = field(default_factory=Counter[str])
    """For each process that has it open."""
    rows: Counter[str] = field(default_factory=Counter[str])


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    work, rows, change = Work(), SqliteTx.rows, SqliteTx.change

    def counted_rows(tx: SqliteTx, sql: str, **values: Any) -> list[Row]:
        found = rows(tx, sql, **values)
        work.statements[tx.process] += 1
        work.rows[tx.process] += len(found)
        return found

    def counted_change(tx: SqliteTx, sql: str, **values: Any) -> int:
        work.statements[tx.process] += 1
        return change(tx, sql, **values)

    monkeypatch.setattr(SqliteTx, "rows", counted_rows)
    monkeypatch.setattr(SqliteTx, "change", counted_change)
    return work


async def test_concurrent_chats_are_answered_in_order_at_constant_cost_per_message(
    house: House, work: Work, monkeypatch: pytest.MonkeyPatch
):
    async with house.gateway(model=ScriptedModel()) as gateway:
        crowd = await Crowd.of(house.driver, house.anna, MANY)

        async def says(chats: int, each: int) -> tuple[float, float]:
            """Write in so many chats, and return the statements and the rows per message."""
            mine = gateway._store._engine.process
            statements, rows = work.statements[mine], work.rows[mine]
            await crowd.at_once(each, chats=chats, within=WITHIN)
            await house.idle()
            messages = chats * each
            return (
                (work.statements[mine] - statements) / messages,
                (work.rows[mine] - rows) / messages,
            )

        prices: list[tuple[float, float]] = []
        for chats in (FEW, MANY):
            with loop_holds(monkeypatch) as holds:
                await says(chats, 1)  # every chat has its session now
            prices.append(await says(chats, EACH))
        talks = await crowd.talks()
    assert [len(talk.said) for talk in talks] == [2 + 2 * EACH] * FEW + [1 + EACH] * (MANY - FEW)
    assert all(talk.answered == talk.said for talk in talks)
    (few, few_rows), (many, many_rows) = prices
    assert many < 1.5 * few, prices
    assert many < MOST_STATEMENTS, prices
    assert many_rows < 1.5 * few_rows, prices
    assert holds.longest[0][0] < MOST_CALLS, holds.longest


@pytest.mark.fuzz
@pytest.mark.timeout(600)
async def test_a_long_running_gateway_loses_no_message_and_does_not_grow(
    peer: Peer, tmp_path: Path, seed: int
):
    chance = random.Random(seed)
    environment = gateway_processes.environment(tmp_path, peer, TELEGRAM)
    async with peer.driver() as driver:
        anna = await driver.user("Anna")
        async with await segue.store.open(environment["SEGUE_STORE"]) as store:
            await owners.ensure(store, ME)
            await owners.introduced(store, ME)
            await owners.link(store, Sender(platform=TELEGRAM, user_id=anna), ME)
        crowd = await Crowd.of(driver, anna, SOAKED)
        async with gateway_processes.gateway(environment, driver) as gateway:
            await crowd.at_once(2, within=120)
            before = gateway.memory
            for _ in range(20):
                each, chats = chance.randint(1, 3), chance.randint(1, SOAKED)
                await crowd.at_once(each, chats=chats, within=120)
            grown = gateway.memory - before
        assert all(talk.answered == talk.said for talk in await crowd.talks())
        assert grown < MOST_GROWTH


@pytest.fixture
def peer() -> Generator[Peer]:
    """The platform in a separate process, without echoes, typing and edits."""
    with running(Rules(echo=False, typing=False, edits=False)) as peer:
        yield peer
