"""Short outages of the store: events during it are recorded afterwards, and not repeated."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import segue.store
from segue.agent.models.scripted import ScriptedModel
from segue.core.errors import StoreError, StoreUncertain
from segue.core.events import NO_ANSWER
from segue.gateway import service
from segue.gateway.turns import _conclude
from segue.handoffs import delivery
from segue.handoffs import queries as handoffs
from segue.handoffs.values import State
from segue.store import Store, deliveries, errors, inbox, outbox, retries, transcripts
from segue.store.outbox import OutgoingState
from segue.testing.platform import Rules, Shape
from segue.turns import queries
from tests.gateway.test_commands import Waiting, message_with
from tests.handoffs.conftest import Faulty
from tests.harness.house import TELEGRAM, WITHIN, House


def failures(count: int) -> list[StoreError]:
    return [errors.failed("the store", "it restarts")] * count


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "PAUSE", 0.001)


@contextlib.asynccontextmanager
async def stumbling(
    house: House, work: Any, *, fails: int = 3, uncertain: int = 0
) -> AsyncGenerator[Faulty]:
    """A gateway whose store fails at `work` that many times, and then commits it but reports an
    error."""
    opened = await segue.store.open(house.url)
    engine = Faulty(opened._engine)
    engine.work = work
    async with Store(engine) as store, house.serve(store, house.adapter()):
        engine.writes = failures(fails)
        engine.kept = [StoreUncertain(path="the store")] * uncertain
        yield engine
    assert engine.writes == engine.kept == []


async def test_a_sent_message_is_recorded_as_sent_when_the_store_is_back(house: House):
    await house.driver.rules(Rules(keys=False))
    chat = await house.chat()
    async with stumbling(house, deliveries.sent, uncertain=1):
        await house.driver.say(house.anna, chat, "one")
        await house.driver.message("(1) one", chat=chat)
        await house.driver.say(house.anna, chat, "two")
        await house.driver.message("(2) two", chat=chat)
        await house.idle()
    assert (await house.driver.look(chat)).texts == ["one", "(1) one", "two", "(2) two"]
    assert await outbox.troubled(house.store) == ()


async def test_parts_that_were_sent_are_counted_once(house: House):
    await house.driver.rules(Rules(keys=False, length=40, edits=False))
    house.model = ScriptedModel(["first part " * 3 + "\n\n" + "second part " * 3 + "\n\nthird"])
    chat = await house.chat()
    async with stumbling(house, deliveries.progress, fails=1, uncertain=1):
        await house.driver.say(house.anna, chat, "much")
        await message_with(house, chat, "third")
        await house.idle()
    parts = [m for m in (await house.driver.look(chat)).messages if m.author != house.anna]
    assert [m.text.split()[0] for m in parts] == ["first", "second", "third"]
    assert await outbox.troubled(house.store) == ()


async def test_a_message_that_another_gateway_took_over_is_not_sent_to_its_end(house: House):
    await house.driver.rules(Rules(length=40, edits=False))
    house.model = ScriptedModel(["first part " * 3 + "\n\n" + "second part " * 3])
    chat = await house.chat()
    recover: list[Any] = []

    class Taken(Faulty):
        async def write(self, work: Any, *args: Any, **kwargs: Any) -> Any:
            if work is inspect.unwrap(deliveries.progress):
                recover.append(
                    await deliveries.recover(house.store, [], alive=[], platforms=[TELEGRAM])
                )
            return await super().write(work, *args, **kwargs)

    opened = await segue.store.open(house.url)
    async with Store(Taken(opened._engine)) as store, house.serve(store, house.adapter()):
        await house.driver.say(house.anna, chat, "much")
        await house.idle()
    ((lost,),) = recover
    assert lost.state is OutgoingState.UNCERTAIN
    said = [m.text for m in (await house.driver.look(chat)).messages if m.author != house.anna]
    assert len(said) == 1


async def test_an_answer_is_stored_after_the_outage_and_the_model_is_not_asked_again(house: House):
    house.model = ScriptedModel(["the only answer"])
    chat = await house.chat()
    async with stumbling(house, queries.add):
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("the only answer", chat=chat)
        await house.idle()
    assert (await house.driver.look(chat)).texts == ["hello", "the only answer"]


async def test_the_end_of_a_turn_is_stored_after_the_outage_and_the_turn_is_not_repeated(
    house: House,
):
    house.model = ScriptedModel(["", "not asked for"])
    chat = await house.chat()
    async with stumbling(house, _conclude):
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message(NO_ANSWER, chat=chat)
        await house.idle()
    assert (await house.driver.look(chat)).texts == ["hello", NO_ANSWER]


@pytest.mark.parametrize("work", [handoffs.record_step, handoffs.complete, outbox.enqueue])
async def test_the_steps_of_a_handoff_are_recorded_after_the_outage_and_not_repeated(
    house: House, work: Any
):
    await house.driver.rules(Rules(keys=False))
    chat = await house.chat(Shape.FORUM)
    await house.home(chat, "group")
    async with stumbling(house, work), house.terminal(("What is 6 times 7?", "42.")) as desk:
        done = await desk.hand_off()
        assert (done.state, done.attempt) == (State.COMPLETED, 1), done.error
        await house.idle()
    assert len((await house.driver.look(chat)).threads) == 1


async def test_the_heartbeat_of_a_handoff_resumes_when_the_store_is_back(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(delivery, "LEASE_SECONDS", 0.04)
    chat = await house.chat(Shape.FORUM)
    await house.home(chat, "group")
    house.model = model = Waiting()
    async with (
        stumbling(house, handoffs.heartbeat) as engine,
        house.terminal(("What is 6 times 7?", "42.")) as desk,
    ):
        handing_off = asyncio.create_task(desk.hand_off())
        await model.asked.wait()
        async with asyncio.timeout(WITHIN):
            while True:
                if not engine.writes:
                    break
                await asyncio.sleep(0.005)
        (running,) = await handoffs.in_flight(house.store)
        await handoffs.cancel(house.store, running.id, "enough")
        assert (await handing_off).error == "enough"
        async with asyncio.timeout(WITHIN):
            while True:
                if not any(t.get_name().startswith("handoff ") for t in asyncio.all_tasks()):
                    break
                await asyncio.sleep(0.005)


async def test_a_message_whose_record_was_uncertain_is_answered_once(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    """The platform delivers it again, but then it is recorded already."""
    monkeypatch.setattr(service, "OVERLOOKED_SECONDS", 0.05)
    chat = await house.chat()
    async with stumbling(house, inbox.record, fails=0, uncertain=1):
        await house.driver.say(house.anna, chat, "one")
        await house.driver.message("(1) one", chat=chat)
        await house.driver.say(house.anna, chat, "two")
        await house.driver.message("(2) two", chat=chat)
        await house.idle()
    assert (await house.driver.look(chat)).texts == ["one", "(1) one", "two", "(2) two"]


@pytest.mark.parametrize("uncertain", [0, 1])
async def test_a_store_that_fails_in_a_turn_is_not_the_answer(house: House, uncertain: int):
    """Such as when the window is read: no one retries that."""
    chat = await house.chat()
    async with stumbling(house, queries.add, fails=0, uncertain=uncertain) as engine:
        engine.reads_of = transcripts.window
        engine.reads = failures(1 - uncertain)
        await house.driver.say(house.anna, chat, "one")
        await house.driver.message("(1) one", chat=chat)
        await house.idle()
        assert engine.reads == []
    assert (await house.driver.look(chat)).texts == ["one", "(1) one"]
