"""What only Slack has: its kinds of chats, and sockets that it asks the bot to leave."""

from __future__ import annotations

import pytest

from segue.core.address import ChatType
from segue.core.session import ME
from segue.handoffs.values import State
from segue.store import outbox, owners
from segue.testing.peers import Trouble
from tests.fakes import slack
from tests.fakes.models.openai import Say
from tests.fakes.models.travel import AT_ONCE, Travel
from tests.fakes.slack import BOT, Settings, Shown
from tests.harness.cases import brief
from tests.harness.household import WITHIN, Household, told
from tests.rigs import Kind, SlackRig

pytestmark = pytest.mark.parametrize("home", [SlackRig], indirect=True)


@pytest.mark.parametrize(
    "kind", brief(SlackRig.kinds, [SlackRig.dm, SlackRig.forum]), ids=lambda kind: kind.name
)
async def test_a_session_goes_to_each_kind_of_chat_and_comes_back(home: Household, kind: Kind):
    await home.at_home(kind)
    async with home.gateway():
        thread = await home.arrives()
        assert thread is not None
        await home.writes("go on", thread)
        await home.sees("(3) go on", thread)
        first, _, last = told(home.model.requests[-1])
        assert (first, last) == ("what is 2 and 2?", "go on")
        async with home.sits_down(await home.session()) as desk:
            await desk.says("home again")
            assert (await desk.hand_off(home.rig.platform)).state is State.COMPLETED
        back = await home.sees("“Sums” is back here.", thread)
        assert "home again" in back.text
    assert await home.texts(None) == []
    shown = (await home.rig.driver.look(home.chat)).messages
    mentioned = [it.mentions for it in shown if it.mentions]
    once_each = [(f"<@{home.anna}>",), (f"<@{home.anna}>",)]
    assert mentioned == ([] if kind.chat_type is ChatType.DM else once_each)


@pytest.mark.parametrize("kind", brief([slack.Kind.IM, slack.Kind.CHANNEL], [slack.Kind.CHANNEL]))
async def test_a_chat_without_the_app_does_not_become_the_home_channel(
    home: Household, kind: slack.Kind
):
    own = await home.at_home(home.rig.dm)
    driver = home.rig.driver
    theirs = await driver.chat(kind, [home.anna, home.eve])
    await driver.do("rights", None, user=home.anna, chat=theirs, joined=False)
    async with home.gateway():
        await driver.command(home.anna, theirs, slack.COMMAND, "sethome")
        await home.sees("so it is not your home channel", chat=own)
        await home.rig.confirmed()
    homes = await owners.homes(home.store, ME)
    assert [it.address.chat_id for it in homes if it.platform is home.rig.platform] == [own]


async def test_what_was_written_while_the_gateway_was_away_is_answered_once(home: Household):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        thread = await home.arrives()
        await home.rig.confirmed()
    await home.rig.driver.settings(Settings(retry_seconds=()))
    await home.writes("are you there?", thread)
    for number in (4, 5):
        async with home.gateway():
            await home.writes("and now?", thread)
            await home.sees(f"({number}) and now?", thread)
            await home.rig.confirmed()
    said = await home.texts(thread)
    assert said[2:] == ["(3) are you there?", "(4) and now?", "(5) and now?"]


@pytest.mark.parametrize("reason", brief(["warning", "refresh_requested"], ["refresh_requested"]))
async def test_nothing_is_lost_when_slack_replaces_the_connection(home: Household, reason: str):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        thread = await home.arrives()
        home.model.hold("think")
        await home.writes("think", thread)
        await home.model.hears("think")
        await home.rig.driver.disconnect(reason)
        await home.writes("and then?", thread)
        home.model.let_go()
        await home.sees("(4) and then?", thread)
        await home.rig.confirmed()
        said = await home.texts(thread)
    assert said[2:] == ["(3) think", "(4) and then?"]


STORY = "Once upon a time there was a boat. " * 20
SLOWLY = Travel(chunk=300, pause=0.02)


async def starts(home: Household) -> None:
    home.set_constants({"segue.gateway.streaming.BUBBLE_DELAY": 0.2})
    await home.at_home(home.rig.dm)


async def streams(home: Household, text: str = "Once upon", count: int = 1) -> list[str]:
    """Wait until so many messages are streaming."""

    def found(shown: Shown) -> list[str]:
        return [it.id for it in shown.messages if it.streaming and it.text.startswith(text)]

    return found(await home.rig.driver.until(lambda it: len(found(it)) >= count, within=WITHIN))


async def begins(home: Household, travel: Travel, text: str = STORY) -> str | None:
    """Hand the session off, and ask for a story there."""
    thread = await home.arrives()
    home.model.travel = travel
    home.model.plans.append(Say(text=text))
    await home.writes("a story", thread)
    return thread


@pytest.mark.parametrize("text", [STORY, f"{STORY} https://example.com <!channel>"])
async def test_the_answer_replaces_the_stream_in_which_it_grew(home: Household, text: str):
    await starts(home)
    async with home.gateway():
        thread = await begins(home, SLOWLY, text)
        [stream] = await streams(home)
        answer = await home.sees(text.strip().replace(" <!channel>", ""), thread)
    shown = (await home.rig.driver.look(home.chat)).messages
    [found] = [it for it in shown if it.text.startswith("Once upon")]
    assert (found.id == stream) == (text == STORY), "a stream would fetch a link"
    assert (found.id, found.streaming, found.mentions) == (answer.id, False, ())
    assert not any(it.preview for it in shown if it.author == BOT.id)


@pytest.mark.parametrize(
    ("method", "trouble"),
    [
        ("", Trouble.HANG),
        ("chat.startStream", Trouble.HANG_AFTER),
        pytest.param("chat.appendStream", Trouble.HANG_AFTER, marks=pytest.mark.long),
    ],
)
async def test_a_stream_that_a_killed_gateway_left_is_removed(
    home: Household, method: str, trouble: Trouble
):
    await starts(home)
    async with home.gateway():
        if method:
            await home.rig.driver.fail(method, trouble)
        grows = Travel(stall_after=3000) if method != "chat.appendStream" else SLOWLY
        thread = await begins(home, grows)
        await streams(home)
        if method:
            await home.rig.until(lambda view: view.hanging == 1)
    await home.rig.calm()
    home.model.travel = AT_ONCE
    async with home.gateway():
        await home.sees("(3) a story", thread)
    assert (await home.texts(thread))[2:] == ["(3) a story"]
    assert not any(it.streaming for it in (await home.rig.driver.look()).messages)


@pytest.mark.parametrize("trouble", brief([Trouble.HANG, Trouble.HANG_AFTER], [Trouble.HANG_AFTER]))
@pytest.mark.parametrize("method", ["chat.stopStream", "chat.update"])
async def test_a_gateway_that_is_killed_while_a_stream_becomes_the_answer_sends_it_once(
    home: Household, method: str, trouble: Trouble
):
    await starts(home)
    async with home.gateway():
        await home.rig.driver.fail(method, trouble)
        thread = await begins(home, SLOWLY)
        await home.rig.until(lambda view: view.hanging == 1)
    await home.rig.calm()
    async with home.gateway():
        await home.sees(STORY.strip(), thread)
        await home.writes("and then?", thread)
        await home.sees("and then?", thread)
    assert (await home.texts(thread))[2:3] == [STORY.strip()]
    assert len(await home.texts(thread)) == 4
    assert await outbox.troubled(home.store) == ()


async def test_where_streams_are_refused_an_answer_grows_by_edits(home: Household):
    await starts(home)
    async with home.gateway():
        await home.rig.driver.fail("chat.startStream", Trouble.FORBIDDEN)
        thread = await begins(home, SLOWLY)
        await home.sees(STORY.strip(), thread)
    shown = await home.rig.driver.look()
    assert shown.calls["chat.startStream"] == 1
    assert shown.calls["chat.update"] >= 1
    assert len(await home.texts(thread)) == 3


async def test_code_that_is_too_long_arrives_as_a_file(home: Household):
    code = "\n".join(f"print({number})" for number in range(500))
    await home.at_home(home.rig.dm)
    async with home.gateway():
        thread = await home.arrives()
        home.model.plans.append(Say(text=f"Here it is.\n\n```python\n{code}\n```\n\nThat is all."))
        await home.writes("count", thread)
        await home.sees("That is all.", thread)
        view = await home.rig.look(home.chat)
    *_, before, file, _ = home.spoken(view, thread)
    assert (before.text, file.file) == ("Here it is.", "code-1.py")


@pytest.mark.parametrize(
    "kind", brief([SlackRig.dm, SlackRig.forum], [SlackRig.forum]), ids=lambda kind: kind.name
)
async def test_a_session_stays_in_its_thread_when_the_first_message_is_deleted(
    home: Household, kind: Kind
):
    await home.at_home(kind)
    async with home.gateway():
        thread = await home.arrives()
        assert thread is not None
        await home.rig.driver.delete(home.chat, thread)
        await home.writes("go on", thread)
        await home.sees("(3) go on", thread)
        async with home.sits_down(await home.session()) as desk:
            await desk.says("home again")
            assert (await desk.hand_off(home.rig.platform)).state is State.COMPLETED
        await home.sees("“Sums” is back here.", thread)
    assert await home.texts(None) == ["This message was deleted."]
