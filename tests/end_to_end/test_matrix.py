"""Matrix, on the real Synapse: encrypted and not, with restarts of the server and the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from segue.handoffs.values import State
from segue.store.gateways import LinkState
from tests.end_to_end.conftest import asks_under_an_answer, tool_call
from tests.fakes.matrix import MatrixPeer
from tests.fakes.matrix import peer as peer
from tests.harness import household
from tests.harness.household import HANDED_OFF, Household
from tests.harness.terminal import Person
from tests.rigs import Kind
from tests.rigs.matrix import MatrixRig

pytestmark = pytest.mark.real


@pytest.fixture
def home(person: Person, runner: asyncio.Runner, peer: MatrixPeer) -> Generator[Household]:
    opened = household.opened(person, MatrixRig)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


@pytest.mark.parametrize("kind", MatrixRig.kinds, ids=lambda kind: kind.name)
async def test_a_session_goes_to_each_kind_of_room_and_comes_back(home: Household, kind: Kind):
    await home.at_home(kind)
    async with home.gateway():
        async with home.terminal("what is 2 and 2?") as shown:
            shown.say("/handoff matrix")
            assert await shown.end() == 0
        thread = await home.thread()
        await home.sees(HANDED_OFF, thread)
        await home.writes("go on", thread)
        await home.sees("(3) go on", thread)
        async with home.person.opens("resume", "sums") as back:
            await back.shows("(3) go on")
            await back.ready()
            await home.types(back, "home again", after=3)
            back.say("/handoff matrix")
            assert await back.end() == 0
        said = await home.sees("“Sums” is back here.", thread)
        assert "home again" in said.text
    assert await home.texts(None) == []


@pytest.mark.parametrize("kind", [MatrixRig.encrypted_room], ids=lambda kind: kind.name)
async def test_nothing_is_lost_when_server_and_gateway_restart(
    home: Household, peer: MatrixPeer, kind: Kind
):
    await home.at_home(kind)
    async with home.gateway() as gateway:
        thread = await home.arrives()
        await asyncio.to_thread(peer.server.stop)
        await home.until_link(LinkState.DOWN)
        await asyncio.to_thread(peer.server.start)
        await home.until_link(LinkState.CONNECTED)
        await home.writes("after the server", thread)
        await home.sees("(3) after the server", thread)
        gateway.kill()
    await home.writes("while nobody listens", thread)
    await home.writes("and more", thread)
    async with home.gateway():
        await home.sees("(5) and more", thread)
        said = await home.texts(thread)
    assert said[2:] == ["(3) after the server", "(4) while nobody listens", "(5) and more"]


async def test_a_call_is_approved_by_a_reaction(home: Household):
    made = home.person.cwd / "made"
    await home.at_home(home.rig.dm)
    async with home.gateway():
        thread = await home.arrives()
        home.model.plans.append(tool_call("shell", command=f"touch {made}"))
        await home.writes("make it", thread)
        view = await home.rig.until(lambda view: any(m.labels for m in view.messages), home.chat)
        (asked,) = [message for message in view.messages if message.labels]
        assert asked.thread == thread
        await home.rig.press(home.anna, home.chat, asked, asked.labels[0])
        await home.sees("(3) make it", thread)
        # The choices are gone.
        await home.rig.until(lambda view: not any(m.labels for m in view.messages), home.chat)
    assert made.exists()
    assert (await home.handoff(State.COMPLETED)).thread is not None


async def test_in_an_encrypted_room_a_call_is_approved_only_by_typing(home: Household):
    made = home.person.cwd / "made"
    await home.at_home(MatrixRig.encrypted_dm)
    async with home.gateway():
        thread = await home.arrives()
        home.model.plans.append(tool_call("shell", command=f"touch {made}"))
        await home.writes("make it", thread)
        view = await home.rig.until(
            lambda view: any("/approve 1" in m.text for m in view.messages), home.chat
        )
        (asked,) = [message for message in view.messages if "/approve 1" in message.text]
        assert not asked.labels, "no reaction is offered"
        assert isinstance(home.rig, MatrixRig)
        await home.rig.driver.users[home.anna].react(home.chat, asked.id, "👍")
        await home.rig.until(
            lambda view: any("Type /approve 1 instead." in m.text for m in view.messages), home.chat
        )
        assert not made.exists()
        await home.writes("/approve 1", thread)
        await home.sees("(3) make it", thread)
    assert made.exists()


async def test_a_thread_under_an_answer_knows_the_answer(home: Household):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        await asks_under_an_answer(home)
