"""Matrix, on the real Synapse: encrypted and not, with restarts of the server and the gateway."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Generator

import pytest

from segue.core.handoff import State
from segue.store.gateways import LinkState
from segue.testing.synapse import Server
from tests.end_to_end.conftest import tool_call, write
from tests.harness import household
from tests.harness.gateways import none_left
from tests.harness.household import HANDED_OFF, Household
from tests.harness.matrix import MatrixUser
from tests.harness.matrix import server as server
from tests.harness.rigs import Kind
from tests.harness.rigs.matrix import MatrixRig
from tests.harness.terminal import Person

pytestmark = pytest.mark.real

KINDS = (MatrixRig.dm, MatrixRig.forum, MatrixRig.encrypted_dm, MatrixRig.encrypted_room)


@pytest.fixture
def home(person: Person, runner: asyncio.Runner, server: Server) -> Generator[Household]:
    MatrixRig.server = server
    opened = household.opened(person, MatrixRig)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
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
        said = await home.sees("Sums is back here.", thread)
        assert "home again" in said.text
    assert await home.texts(None) == []


@pytest.mark.parametrize("kind", [MatrixRig.encrypted_room], ids=lambda kind: kind.name)
async def test_nothing_is_lost_when_server_and_gateway_restart(
    home: Household, server: Server, kind: Kind
):
    await home.at_home(kind)
    async with home.gateway() as gateway:
        thread = await home.arrives()
        await asyncio.to_thread(server.stop)
        await home.until_link(LinkState.DOWN)
        await asyncio.to_thread(server.start)
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
        # The buttons are gone.
        await home.rig.until(lambda view: not any(m.labels for m in view.messages), home.chat)
    assert made.exists()
    assert (await home.handoff(State.COMPLETED)).thread is not None


async def test_the_set_up_leads_from_a_password_to_a_message_in_a_thread(
    home: Household, server: Server
):
    write(home, "")
    anna: MatrixUser = home.rig.driver.users[home.anna]
    bot = await asyncio.to_thread(server.register, f"segue-{secrets.token_hex(4)}")
    name = bot.user_id.partition(":")[0][1:]
    given = ("--url", server.url, "--user", name, "--invites-from", home.anna)
    wrong = await home.shell("setup", "matrix", *given, "--password", "wrong")
    assert "the user name or the password is not right" in wrong.stdout
    words = ("setup", "matrix", *given, "--trust", "first-use", "--no-wait")
    async with none_left(home.person):
        first = await home.shell(*words, "--password", bot.password)
        assert "✓ The access token is good" in first.stdout, first
        assert "Started a gateway" in first.stdout, first
        assert bot.password not in (await home.shell("config", "show")).stdout
        (code,) = re.findall(r"Send (\S+) to the bot", first.stdout)
        room = (
            await anna.call(
                "POST",
                "/createRoom",
                {"preset": "trusted_private_chat", "is_direct": True, "invite": [bot.user_id]},
            )
        )["room_id"]
        await anna.say(room, code)
        await anna.until(room, lambda shown: any(it.author == bot.user_id for it in shown))
        second = await home.shell("setup", "matrix", "--no-wait")
        assert second.returncode == 0, second
        assert "Sent a message in a new thread" in second.stdout
        shown = await anna.until(room, lambda it: any("It works." in m.text for m in it))
        assert [m.thread is not None for m in shown if "It works." in m.text] == [True]
        checked = await home.shell("doctor")
        assert "The home room is" in checked.stdout, checked
