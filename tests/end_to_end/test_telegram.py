"""Features that only Telegram has: token and rights, topics, drafts, supergroups."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from segue.core.address import Address, ChatType, Platform
from segue.core.session import ME
from segue.gateway.streaming import BUBBLE_DELAY
from segue.handoffs.values import State
from segue.store import gateways, outbox, sessions
from segue.store.gateways import LinkState
from segue.system.http import tls
from segue.turns import hold
from segue.web import endpoints
from tests.crash.world import outgoing, until
from tests.end_to_end.conftest import tool_call
from tests.fakes.models.openai import Say
from tests.fakes.models.travel import AT_ONCE, Travel
from tests.fakes.telegram import Settings, Status
from tests.harness.household import WITHIN, Household
from tests.rigs import TelegramRig

pytestmark = pytest.mark.parametrize("home", [TelegramRig], indirect=True)

GONE = "the topic was deleted"


async def status(home: Household) -> str:
    """The output of `segue gateway status`, on one line."""
    return " ".join((await home.shell("gateway", "status")).stdout.split())


# The library


# The token


async def page_is_served(home: Household) -> bool:
    (gateway,) = await gateways.alive(home.store)
    url = endpoints.page_url(gateway)
    assert url is not None
    async with httpx2.AsyncClient(verify=tls(trust_env=False), trust_env=False) as http:
        return (await http.get(url)).status_code == 200


async def test_a_refused_token_is_reported_and_the_page_is_still_served(home: Household):
    await home.at_home(home.rig.forum)
    await home.rig.driver.bot(Settings(revoked=True))
    async with home.gateway(until=LinkState.DOWN):
        await home.until_link(LinkState.CONNECTED, Platform.WEB)
        assert await page_is_served(home)
        output = await status(home)
        assert "@BotFather" in output
        assert home.rig.peer.token not in output
        async with home.desk("one") as desk:
            failed = await desk.hand_off()
        assert failed.state is State.FAILED
        assert "token" in (failed.error or "")
        await home.rig.driver.bot(Settings())
        await home.until_link(LinkState.CONNECTED)
        thread = await home.arrives("Products")
        await home.writes("go on", thread)
        await home.sees("(3) go on", thread)
    assert home.rig.peer.token not in home.log.read_text()


async def test_messages_during_a_refused_token_are_answered_after_it(home: Household):
    await home.at_home(home.rig.dm)
    async with home.gateway():
        thread = await home.arrives()
        await home.rig.driver.bot(Settings(revoked=True))
        await home.writes("are you there?", thread)
        await home.until_link(LinkState.DOWN)
        await home.writes("hello?", thread)
        await home.rig.driver.bot(Settings())
        await home.sees("(4) hello?", thread)
        spoken = await home.texts(thread)
    assert spoken[2:] == ["(3) are you there?", "(4) hello?"]
    assert await outbox.troubled(home.store) == ()


async def test_the_pairing_link_starts_the_bot(home: Household):
    async with home.gateway():
        printed = (await home.shell("pair", "--json")).stdout
    assert "https://t.me/segue_test_bot?start=" in printed


# Buttons and the menu


async def test_only_the_press_of_the_owner_is_acknowledged(home: Household):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        thread = await home.arrives()
        home.model.plans.append(tool_call("shell", command="touch made"))
        await home.writes("make it", thread)
        question = await home.sees("May I do this?", thread)
        await home.rig.press(home.eve, home.chat, question, "Allow")
        await home.rig.confirmed()
        query = await home.rig.driver.press(
            int(home.anna), int(home.chat), int(question.id), "Deny"
        )
        await home.sees("(3) make it", thread)
    calls = await home.rig.driver.calls("answerCallbackQuery")
    assert [it.parameters["callback_query_id"] for it in calls] == [query]


async def test_the_menu_is_set_only_if_it_differs(home: Household):
    async with home.gateway():
        await home.rig.until(lambda view: bool(view.menu))
    polls = (await home.rig.look()).calls.get("getUpdates", 0)
    async with home.gateway():
        await home.rig.until(lambda view: view.calls.get("getMyCommands", 0) == 2)
        await home.rig.until(lambda view: view.calls.get("getUpdates", 0) > polls)
    assert len(await home.rig.driver.calls("setMyCommands")) == 1


async def test_a_draft_is_replaced_by_the_answer(home: Household):
    home.set_constants({"segue.gateway.streaming.BUBBLE_DELAY": BUBBLE_DELAY})
    await home.at_home(home.rig.dm)
    async with home.gateway():
        thread = await home.arrives()
        home.model.travel = Travel(stall_after=3000)
        home.model.plans.append(Say(text="Once upon a time there was a boat. " * 20))
        await home.writes("a story", thread)
        shown = await home.rig.driver.until(lambda shown: bool(shown.drafts), within=WITHIN)
        assert [str(draft.thread) for draft in shown.drafts] == [thread]
        assert len(await home.texts(thread)) == 2
    home.model.travel = AT_ONCE
    async with home.gateway():
        await home.sees("(3) a story", thread)
    assert (await home.texts(thread))[2:] == ["(3) a story"]
    assert (await home.rig.driver.look()).drafts == ()


async def test_a_partial_answer_in_a_draft_becomes_a_message_when_a_terminal_takes_the_session(
    home: Household,
):
    home.set_constants({"segue.gateway.streaming.BUBBLE_DELAY": BUBBLE_DELAY})
    await home.at_home(home.rig.dm)
    async with home.gateway():
        thread = await home.arrives()
        home.model.travel = Travel(stall_after=3000)
        home.model.plans.append(Say(text="Once upon a time there was a boat. " * 20))
        await home.writes("a story", thread)
        await home.rig.driver.until(lambda shown: bool(shown.drafts), within=WITHIN)
        session = await home.session()
        here = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session.id)
        async with hold(home.store, session.id, "a terminal", take_over=True, address=here):
            await home.sees("This conversation went to the terminal", thread)
    half, notice = (await home.texts(thread))[2:]
    assert half.startswith("Once upon a time")
    assert half.endswith("Interrupted here.")
    assert notice.startswith("This conversation went to")
    assert (await home.rig.driver.look()).drafts == ()


# Rights


async def test_without_the_right_to_open_topics_a_session_goes_to_the_chat_itself(home: Household):
    chat = int(await home.at_home(home.rig.forum))
    async with home.gateway():
        await home.rig.driver.rights(int(home.anna), chat, Status.ADMINISTRATOR)
        assert await home.arrives() is None
        await home.sees("No thread could be opened", None)
        await home.sees("begin yours with @segue_test_bot", None)
        await home.writes(home.rig.addressed("go on"))
        await home.sees("(3) go on", None)
        await home.rig.driver.rights(int(home.anna), chat, Status.ADMINISTRATOR, manage_topics=True)
        assert await home.arrives("Products") is not None


async def test_if_the_bot_was_removed_the_session_stays_and_the_reason_is_given(home: Household):
    chat = int(await home.at_home(home.rig.forum))
    async with home.gateway():
        await home.rig.driver.rights(int(home.anna), chat, Status.KICKED)
        async with home.desk("one") as desk:
            failed = await desk.hand_off()
            assert failed.state is State.FAILED
            assert "no longer in that chat" in (failed.error or "")
            await desk.says("two")
    stayed = (await home.session()).address
    assert stayed is not None
    assert stayed.platform is Platform.LOCAL


# Groups that become supergroups


async def test_a_session_continues_in_a_group_that_becomes_a_supergroup(home: Household):
    old = await home.at_home(home.rig.group)
    async with home.gateway():
        assert await home.arrives() is None
        home.model.hold("think")
        await home.writes(home.rig.addressed("think"))
        await home.model.hears("think")
        await home.writes(home.rig.addressed("and then?"))
        home.chat = str(await home.rig.driver.migrate(int(old)))
        await home.writes(home.rig.addressed("go on"))
        await home.rig.confirmed()
        home.model.let_go()
        await home.sees("(5) go on", None)
        assert await home.texts(None) == ["(3) think", "(4) and then?", "(5) go on"]
        assert await home.arrives("Products") is None
    assert len(await sessions.list_sessions(home.store, ME)) == 2
    assert await outbox.troubled(home.store) == ()


async def test_a_group_that_became_a_supergroup_while_no_gateway_ran_keeps_its_session(
    home: Household,
):
    old = await home.at_home(home.rig.group)
    async with home.gateway():
        await home.arrives()
    home.chat = str(await home.rig.driver.migrate(int(old)))
    await home.writes(home.rig.addressed("go on"))
    async with home.gateway():
        await home.sees("(3) go on", None)
        await home.arrives("Products")


# Closed and deleted topics


async def test_an_answer_for_a_deleted_topic_never_appears_in_the_chat(home: Household):
    home.reports_soon()
    await home.at_home(home.rig.forum)
    async with home.gateway():
        thread = await home.arrives()
        assert thread is not None
        home.model.hold("think")
        await home.writes("think about it", thread)
        await home.model.hears("think about it")
        await home.rig.driver.delete_topic(int(home.chat), int(thread), silently=True)
        home.model.let_go()
        report = await report_in_the_session(home)
        assert GONE in report
        assert "(3) think about it" in report
        assert GONE in await status(home)
        assert await home.texts(None) == []
        async with home.sits_down(await home.session()) as back:
            assert ("assistant", "(3) think about it") in await home.said()
            await back.says("never mind")

        async def is_over() -> bool:  # a message that lands in the chat is deleted before that
            return all(row.finished for row in await outgoing(home.store, home.chat))

        await until(is_over, "everything was sent or refused", WITHIN)
        assert await home.texts(None) == []


async def report_in_the_session(home: Household) -> str:
    """Wait until the undelivered message is reported in the session."""
    async with asyncio.timeout(WITHIN):
        while True:
            for role, text in await home.said():
                if role == "system" and "did not arrive" in text:
                    return text
            await asyncio.sleep(0.02)


async def test_a_closed_topic_is_reopened_for_an_answer(home: Household):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        thread = await home.arrives()
        assert thread is not None
        home.model.hold("think")
        await home.writes("think about it", thread)
        await home.model.hears("think about it")
        await home.rig.driver.close_topic(int(home.anna), int(home.chat), int(thread))
        home.model.let_go()
        await home.sees("(3) think about it", thread)
    (topic,) = (await home.rig.driver.look(int(home.chat))).threads
    assert not topic.closed
