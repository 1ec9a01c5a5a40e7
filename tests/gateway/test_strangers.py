"""Unknown senders have no effect with any action, in any place, in any state of the gateway: no
text for the model, no tool, no reply, no session, no row, and no effect on running work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

import msgspec
import pytest

from segue.agent.models.base import Prompt
from segue.agent.models.scripted import ScriptedModel
from segue.core.transcript import Role
from segue.platforms.base import Inbound
from segue.store import Topic, bubbles
from segue.store.base import Row, Tx
from segue.testing.platform import Rules, Shape
from tests.gateway.strangers import ACTS, EVE, Encounter
from tests.gateway.test_commands import Waiting, message_with
from tests.harness.house import TELEGRAM, House, echoing
from tests.turns.conftest import call

_QUIET = Rules(typing_seconds=60.0)
"""Typing is not shown again while the unknown sender is active."""


# Places


async def _own_chat(house: House) -> Encounter:
    chat, anna_chat = await house.driver.chat(Shape.DM, [house.eve]), await house.chat()
    return Encounter(house, chat, anna_chat)


async def _group(house: House) -> Encounter:
    chat = await house.chat(Shape.GROUP, house.eve)
    return Encounter(house, chat, chat)


async def _thread_of_a_handoff(house: House) -> Encounter:
    chat = await house.chat(Shape.FORUM, house.eve)
    await house.home(chat, "group")
    async with house.gateway(), house.terminal(("What is 6 times 7?", "42.")) as desk:
        done = await desk.hand_off()
        await house.idle()
    assert done.thread is not None
    thread = done.thread.thread_id
    assert thread is not None
    return Encounter(house, chat, chat, thread, before=2)


PLACES: Mapping[str, Callable[[House], Awaitable[Encounter]]] = {
    "in a chat of their own": _own_chat,
    "in a group with the owner": _group,
    "in the thread of a handoff": _thread_of_a_handoff,
}


# States of the gateway


@contextlib.asynccontextmanager
async def _idle(encounter: Encounter) -> AsyncGenerator[None]:
    """The gateway is idle; the next message is answered as usual."""
    async with encounter.house.gateway(model=encounter.model):
        await encounter.anna_says("one")
        await encounter.answered(f"({encounter.before + 1}) one")
        await encounter.house.idle()
        yield
        await encounter.anna_says("two")
        await encounter.answered(f"({encounter.before + 2}) two")
        await encounter.house.idle()
    assert len(encounter.model.prompts) == 2


@contextlib.asynccontextmanager
async def _busy(encounter: Encounter) -> AsyncGenerator[None]:
    """A turn runs and a message is queued; both are answered as written."""
    encounter.model, encounter.answers = (model := Waiting()), 2
    async with encounter.house.gateway(model=model):
        await _begun(encounter, model)
        yield
        model.go.set()
        await encounter.answered(f"({encounter.before + 2}) two")
        await encounter.house.idle()
    assert (
        f"({encounter.before + 1}) one"
        in (await encounter.house.driver.look(encounter.anna_chat)).texts
    )
    assert len(model.prompts) == 2


@contextlib.asynccontextmanager
async def _draining(encounter: Encounter) -> AsyncGenerator[None]:
    """The gateway is stopping and finishes its turn; the next one answers the queued message, and
    receives what the unknown sender did meanwhile."""
    house = encounter.house
    encounter.model, encounter.answers = (model := Waiting()), 2
    ready, stop = asyncio.get_running_loop().create_future(), asyncio.Event()

    async def serve() -> None:
        async with house.gateway(model=model) as gateway:
            await _begun(encounter, model)
            ready.set_result(gateway)
            await stop.wait()

    serving = asyncio.create_task(serve())
    (listening,) = (await ready)._connections.values()
    stop.set()
    await asyncio.wait({listening})
    yield
    assert not serving.done()
    model.go.set()
    await serving
    assert f"({encounter.before + 1}) one" in (await house.driver.look(encounter.anna_chat)).texts
    async with house.gateway(model=echoing()):
        await encounter.answered(f"({encounter.before + 2}) two")
        await house.idle()
    assert len(model.prompts) == len(house.model.prompts) == 1


async def _begun(encounter: Encounter, model: Waiting) -> None:
    """A turn runs, a message is queued, and the chat shows progress."""
    await encounter.anna_says("one")
    await model.asked.wait()
    encounter.waits = await encounter.anna_says("two")
    await encounter.house.driver.until(lambda shown: shown.calls.get("typing", 0) > 0)
    await encounter.house.idle_but_for(2)


@contextlib.asynccontextmanager
async def _asking(encounter: Encounter) -> AsyncGenerator[None]:
    """A tool waits for the owner's approval, which still counts."""
    made = encounter.house.settings.gateway_log.with_name("made")

    def result(prompt: Prompt) -> str:
        found = next(m for m in reversed(prompt.messages) if m.role is Role.TOOL)
        return f"result: {found.content[:40]}"

    encounter.model = ScriptedModel([call("shell", command=f"echo x >> {made}"), result])
    house = encounter.house
    async with house.gateway(model=encounter.model):
        await encounter.anna_says("make it")
        encounter.question = await message_with(house, encounter.anna_chat, "May I do this?")
        await message_with(house, encounter.anna_chat, "Waiting for your answer")
        async with house.store.listen(Topic.OUTBOX) as wake:
            while not await bubbles.shown(house.store, [TELEGRAM]):
                await wake.wait(0.01)
        yield
        assert not made.exists()
        await house.driver.press(house.anna, encounter.question.id, "Allow")
        await message_with(house, encounter.anna_chat, "result:")
        await house.idle()
    assert made.read_text() == "x\n"
    assert len(encounter.model.prompts) == 2


STATES: Mapping[str, Callable[[Encounter], contextlib.AbstractAsyncContextManager[None]]] = {
    "idle": _idle,
    "busy": _busy,
    "draining": _draining,
    "asking": _asking,
}


# Traces

_TABLES = (
    *("owners", "identities", "homes", "bindings", "messages", "inbox", "outbox", "bubbles"),
    *("approvals", "pairings"),
)


def _rows(tx: Tx) -> dict[str, list[Row]]:
    """Everything in the store, except what heartbeats change."""
    rows = {table: tx.rows(f"SELECT * FROM {table} ORDER BY 1") for table in _TABLES}
    rows["sessions"] = tx.rows("SELECT id, epoch, last_seq, title, ended, active FROM sessions")
    rows["handoffs"] = tx.rows("SELECT id, state, step, fence, attempt FROM handoffs")
    return rows


def _senders(tx: Tx) -> set[str]:
    """The number of rows ever written."""
    bodies = tx.rows("SELECT body FROM inbox")
    return {msgspec.json.decode(body, type=Inbound).sender.user_id for (body,) in bodies}


async def _traces(encounter: Encounter) -> dict[str, object]:
    """Every trace that an action could leave."""
    calls = (await encounter.house.driver.look()).calls
    return {
        "calls to the platform": {k: n for k, n in calls.items() if k not in ("updates", "me")},
        "words to the model": len(encounter.model.prompts),
        **await encounter.house.store.write(_rows),
    }


@pytest.mark.parametrize("meanwhile", STATES)
@pytest.mark.parametrize("where", PLACES)
async def test_an_unknown_sender_has_no_effect(house: House, where: str, meanwhile: str):
    await house.driver.rules(_QUIET)
    encounter = await PLACES[where](house)
    async with STATES[meanwhile](encounter):
        before, rows = await _traces(encounter), await house.store.write(_rows)
        for name, act in ACTS.items():
            await act(encounter)
            if meanwhile != "draining":  # no gateway is receiving
                await house.driver.until(lambda shown: shown.unconfirmed == 0)
            assert await _traces(encounter) == before, name
    heard = [
        m.content for p in (*encounter.model.prompts, *house.model.prompts) for m in p.messages
    ]
    assert not [words for words in heard if EVE in words]
    shown = (await house.driver.look(encounter.chat)).messages
    assert encounter.chat == encounter.anna_chat or {m.author for m in shown} == {house.eve}
    after = await house.store.write(_rows)
    assert await house.store.write(_senders) == {house.anna}
    assert len(after["outbox"]) == len(rows["outbox"]) + encounter.answers
    for table in ("owners", "identities", "homes", "bindings", "approvals", "pairings"):
        assert len(after[table]) == len(rows[table]), table
    assert len(after["sessions"]) == len(rows["sessions"])
