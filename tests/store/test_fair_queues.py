"""Many messages wait to be sent: no chat waits for the queue of another, and claiming the next ones
costs the same however many wait. Counted in sends and in statements, not in seconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count

import pytest

from segue.core.address import Address, Platform
from segue.store import Store, deliveries, outbox
from segue.store.base import Tx
from segue.store.outbox import Draft
from segue.store.sqlite import SqliteTx
from tests.store.samples import DM

TELEGRAM = Platform.TELEGRAM
ROOM = 4
"""Messages that are claimed together."""
MANY = 1_000
numbers = count()


def chat(name: object) -> Address:
    return replace(DM, chat_id=f"{name}")


def queue(tx: Tx, drafts: Iterable[Draft]) -> None:
    for draft in drafts:
        outbox.enqueue(tx, draft)


async def wait_there(store: Store, chats: Iterable[object]) -> None:
    """Queue one message in each of these chats."""
    drafts = [Draft(key=f"{next(numbers):09}", address=chat(name), body="words") for name in chats]
    await store.write(queue, drafts)


async def sends(
    store: Store, *, until: object = None, most: int = 10**6, busy: Iterable[object] = ()
) -> list[str]:
    """Send what is queued, as a gateway does, until a message in the chat `until` is sent. Return
    the chats in the order of the sends. Chats that are `busy` are never ready."""
    sent: list[str] = []
    served: dict[Platform, str] = {}
    paused = {str(name) for name in busy}
    while claimed := await deliveries.claim(store, [TELEGRAM], limit=ROOM, served=served):
        for outgoing in claimed:
            name = outgoing.address.chat_id
            if name in paused:
                await deliveries.retry(store, outgoing, "too many", seconds=3600, asked=True)
                continue
            sent.append(name)
            await deliveries.sent(store, outgoing)
            if name == str(until) or len(sent) >= most:
                return sent
    return sent


async def test_a_new_chat_does_not_wait_for_those_in_which_a_message_waits(store: Store):
    await wait_there(store, range(MANY))
    await sends(store, most=10)
    await wait_there(store, ["new"])
    assert len(await sends(store, until="new")) <= ROOM


async def test_a_new_chat_does_not_wait_for_the_queue_of_another(store: Store):
    await wait_there(store, ["flooded"] * MANY)
    await sends(store, most=10)
    await wait_there(store, ["new"])
    assert len(await sends(store, until="new")) <= ROOM


async def test_a_chat_between_two_long_queues_has_its_turn(store: Store):
    await wait_there(store, ["first"] * 200 + ["between"] + ["last"] * 200)
    assert len(await sends(store, until="between")) <= 2 * ROOM


async def test_a_chat_between_many_others_has_its_turn_while_new_ones_keep_coming(store: Store):
    others = 150
    await wait_there(store, [*range(others), "between", *range(others, 2 * others)])
    sent: list[str] = []
    while "between" not in sent:
        await wait_there(store, [f"new {len(sent)}"] * ROOM)
        sent += await sends(store, most=ROOM)
        assert len(sent) <= 6 * others


async def test_a_chat_waits_for_no_number_of_chats_that_the_platform_slows_down(store: Store):
    slow = [f"slow {n}" for n in range(300)]
    await wait_there(store, [*slow, "between", *slow])
    assert await sends(store, busy=slow) == ["between"]


async def test_messages_in_one_chat_stay_in_order(store: Store):
    chats = [f"{(n * 7) % 13}" for n in range(400)]
    await wait_there(store, chats)
    served: dict[Platform, str] = {}
    keys: dict[str, list[str]] = {}
    while claimed := await deliveries.claim(store, [TELEGRAM], limit=ROOM, served=served):
        assert len({outgoing.address for outgoing in claimed}) == len(claimed)
        for outgoing in claimed:
            keys.setdefault(outgoing.address.chat_id, []).append(outgoing.key)
            await deliveries.sent(store, outgoing)
    assert sum(map(len, keys.values())) == len(chats)
    assert all(found == sorted(found) for found in keys.values())


async def test_a_platform_that_is_away_does_not_hold_up_another(store: Store):
    await wait_there(store, range(MANY))
    slack = replace(DM, platform=Platform.SLACK)
    await outbox.enqueue(store, Draft(key="slack", address=slack, body="words"))
    await wait_there(store, [f"later {n}" for n in range(200)])
    (found,) = await deliveries.claim(store, [Platform.SLACK], limit=ROOM)
    assert found.key == "slack"


@pytest.mark.parametrize("kind", ["one chat", "many chats"])
async def test_the_work_for_a_message_does_not_grow_with_the_queue(
    store: Store, url: str, kind: str
):
    if not url.startswith("sqlite"):
        pytest.skip("counts steps of SQLite")

    start = 0

    async def work(more: int) -> int:
        nonlocal start
        one = kind == "one chat"
        await wait_there(store, ["flooded" if one else n for n in range(start, start + more)])
        start += more
        return await store.write(_steps)

    few, many = await work(200), await work(2_000)
    assert many < 1.5 * few


def _steps(tx: Tx) -> int:
    """The work of claiming the next messages and of finishing one of them, in steps of SQLite's
    virtual machine."""
    assert isinstance(tx, SqliteTx)
    steps = 0

    def step() -> bool:
        nonlocal steps
        steps += 1
        return False

    tx._connection.set_progress_handler(step, 1)
    try:
        first, *_ = deliveries.claim(tx, [TELEGRAM], limit=ROOM)
        deliveries.finish(tx, first, outbox.OutgoingState.SENT)
    finally:
        tx._connection.set_progress_handler(None)
    return steps
