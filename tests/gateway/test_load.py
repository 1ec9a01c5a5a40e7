"""Many conversations at once on one gateway: each is answered in order, and a message costs the
same beside many as beside few. How quick that is, `make bench` tells."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from segue.agent.models.scripted import ScriptedModel
from segue.store.base import Row
from segue.store.sqlite import SqliteTx
from segue.testing.crowd import Crowd
from tests.gateway.conftest import WITHIN, House

FEW, MANY, EACH = 4, 30, 2


@dataclass
class Work:
    """What was done in the store."""

    statements: Counter[str] = field(default_factory=Counter[str])
    """For each of those who have it open."""
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


async def test_chats_that_write_at_once_are_each_answered_in_order_for_the_same_price(
    house: House, work: Work
):
    async with house.gateway(model=ScriptedModel()) as gateway:
        crowd = await Crowd.of(house.hands, house.anna, MANY)

        async def says(chats: int, each: int) -> tuple[float, float]:
            """In so many chats; the statements and the rows for each of the messages."""
            mine, asked = gateway._store._engine.process, len(house.model.prompts)
            statements, rows = work.statements[mine], work.rows[mine]
            await crowd.at_once(each, chats=chats, within=WITHIN)
            await house.idle()
            messages = chats * each
            assert len(house.model.prompts) - asked == messages
            return (
                (work.statements[mine] - statements) / messages,
                (work.rows[mine] - rows) / messages,
            )

        prices: list[tuple[float, float]] = []
        for chats in (FEW, MANY):
            await says(chats, 1)  # every chat has its session from now on
            prices.append(await says(chats, EACH))
        talks = await crowd.talks()
    assert [len(talk.said) for talk in talks] == [2 + 2 * EACH] * FEW + [1 + EACH] * (MANY - FEW)
    assert all(talk.answered == talk.said for talk in talks)
    (few, few_rows), (many, many_rows) = prices
    assert many < 1.5 * few, prices
    assert many_rows < 1.5 * few_rows, prices
