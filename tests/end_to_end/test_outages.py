"""Network failures: nothing is lost or duplicated, and the gateway recovers without a restart."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

import pytest

from segue.handoffs.values import Failure, State
from segue.store import outbox
from segue.store.gateways import LinkState
from segue.testing.contract.rig import Act
from segue.testing.peers import Trouble
from tests import rigs
from tests.end_to_end.conftest import on
from tests.harness.household import HANDED_OFF, Household

NO_PATIENCE: dict[str, float | str] = {
    "segue.handoffs.delivery.ARRIVAL_TIMEOUT": 3600.0,
    "segue.handoffs.delivery.OUTAGE_TIMEOUT": 0.0,
}
"""A handoff fails as soon as the gateway knows that the platform is unreachable, or never."""


@contextlib.asynccontextmanager
async def cut_off(home: Household) -> AsyncGenerator[None]:
    """Inside the block the platform is unreachable, and the gateway knows it."""
    await home.rig.down()
    await home.until_link(LinkState.DOWN)
    yield
    await home.rig.up()
    await home.until_link(LinkState.CONNECTED)


@on(rigs.TelegramRig, rigs.SlackRig)
async def test_messages_of_both_sides_during_an_outage_arrive_once(home: Household):
    await home.at_home(home.rig.dm)
    async with home.gateway():
        thread = await home.arrives()
        home.model.hold("think")
        await home.writes("think about it", thread)
        await home.model.hears("think about it")
        async with cut_off(home):
            home.model.let_go()
            await home.writes("and then?", thread)
            await home.writes("and then what?", thread)
        await home.sees("(5) and then what?", thread)
        said = await home.texts(thread)
    assert said[2:] == ["(3) think about it", "(4) and then?", "(5) and then what?"]
    assert len(said) == 5
    assert thread is None or await home.texts(None) == []
    assert await outbox.troubled(home.store) == ()


@on(rigs.DiscordRig, rigs.WhatsAppRig)
async def test_a_handoff_during_an_outage_leaves_the_session_where_it_is(home: Household):
    await home.at_home(home.rig.forum)
    home.set_constants(NO_PATIENCE)
    async with home.gateway(), home.desk("one") as desk:
        async with cut_off(home):
            failed = await desk.hand_off(home.rig.platform)
            assert (failed.state, failed.failure) == (State.FAILED, Failure.ERROR)
            await desk.says("two")
        assert (await home.rig.look(home.chat)).threads == ()
        assert (await desk.hand_off(home.rig.platform)).state is State.COMPLETED
        await home.sees(HANDED_OFF, await home.thread())


@on(rigs.GenericRig)
async def test_a_return_to_a_thread_during_an_outage_leaves_the_session_where_it_is(
    home: Household,
):
    await home.at_home(home.rig.forum)
    home.set_constants(NO_PATIENCE)
    async with home.gateway():
        thread = await home.arrives()
        async with home.sits_down(await home.session()) as desk:
            async with cut_off(home):
                failed = await desk.hand_off(home.rig.platform)
                assert (failed.state, failed.failure) == (State.FAILED, Failure.ERROR)
            assert (await desk.hand_off(home.rig.platform)).state is State.COMPLETED
        await home.writes("go on", thread)
        await home.sees("(4) go on", thread)
        arrivals = [text for text in await home.texts(thread) if text.startswith("“Sums”")]
        assert len(arrivals) == 2, "a handoff that failed says nothing"
        assert not [text for text in await home.texts(thread) if "stayed where it was" in text]


@on(rigs.TelegramRig, among=rigs.KEYLESS_THREADED)
async def test_a_thread_that_may_exist_is_not_opened_again_automatically(home: Household):
    await home.at_home(home.rig.forum)
    opened = home.rig.methods[Act.OPEN_THREAD]
    async with home.gateway(), home.desk("one") as desk:
        await home.rig.fail(Act.OPEN_THREAD, Trouble.DROP_AFTER)
        assert (await desk.hand_off(home.rig.platform)).state is State.FAILED
        assert (await home.rig.look()).calls[opened] == 1
        done = await desk.hand_off(home.rig.platform)
        assert done.state is State.COMPLETED
    left, used = (await home.rig.look(home.chat)).threads
    assert done.thread is not None
    assert done.thread.thread_id == used.id
    assert await home.texts(left.id) == []


@on(rigs.TelegramRig, among=rigs.KEYLESS)
async def test_an_answer_that_may_have_arrived_is_reported_and_not_sent_again(home: Household):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        thread = await home.arrives()
        await home.rig.fail(Act.SEND, Trouble.DROP_AFTER)
        await home.writes("go on", thread)
        await home.sees("(3) go on", thread)
        await home.writes("and on", thread)
        await home.sees("and on", thread)
        assert "uncertain" in (await home.shell("gateway", "status")).stdout
        _, _, first, second = await home.texts(thread)
    assert first == "(3) go on"
    assert second.endswith("and on")  # the agent may have been notified of the first by then


@pytest.mark.parametrize("home", [rigs.WhatsAppRig], indirect=True)
async def test_an_answer_that_may_have_arrived_is_found_by_its_status(home: Household):
    await home.at_home(home.rig.dm)
    async with home.gateway():
        await home.arrives()
        await home.rig.fail(Act.SEND, Trouble.DROP_AFTER)
        await home.writes("go on")
        await home.sees("(3) go on")
        await home.rig.confirmed()
        assert await outbox.troubled(home.store) == ()
        await home.writes("and on")
        await home.sees("(4) and on")
        assert (await home.texts())[2:] == ["(3) go on", "(4) and on"]
