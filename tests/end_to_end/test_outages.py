"""When Telegram refuses, is out of reach, or takes away what was there: people are told what it is,
nothing else suffers, and all is well again without a restart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import httpx2

from segue.core.address import Platform
from segue.core.handoff import State
from segue.core.session import ME
from segue.store.gateways import LinkState
from segue.testing.peers import tls
from segue.testing.telegram import Settings, Status, Trouble
from segue.web import links
from tests.crash.world import outgoing, until
from tests.end_to_end.conftest import WITHIN, Home, Shape
from tests.harness.household import HANDED_OFF

DIRECT = "No thread could be opened, so it continues in this chat itself."
GONE = "the topic was deleted"
BOT = f"@{Settings().username}"


async def status(home: Home) -> str:
    """What `segue gateway status` says, on one line."""
    told = await home.shell("gateway", "status")
    return " ".join(told.stdout.split())


async def page_is_served(home: Home) -> bool:
    (gateway,) = await home.store.gateways.alive()
    url = links.url(gateway)
    assert url is not None
    async with httpx2.AsyncClient(verify=tls(), trust_env=False) as http:
        return (await http.get(url)).status_code == 200


# The token


async def test_a_token_that_is_refused_is_named_and_the_page_is_served_all_the_same(home: Home):
    chat = await home.at_home(Shape.FORUM)
    await home.hands.bot(Settings(revoked=True))
    async with home.gateway(until=LinkState.DOWN):
        await home.until_link(LinkState.CONNECTED, Platform.WEB)
        assert await page_is_served(home)
        told = await status(home)
        assert "the token is not right; copy it from @BotFather" in told
        assert home.peer.token not in told
        async with home.desk("one") as desk:
            failed = await desk.hand_off()
        assert failed.state is State.FAILED
        assert "the token is not right" in (failed.error or "")
        await home.hands.bot(Settings())
        await home.until_link(LinkState.CONNECTED)
        thread = await home.arrives(chat, "Products")
        await home.hands.say(home.anna, chat, "go on", thread=thread)
        await home.sees("(3) go on", chat, thread=thread)
    assert home.peer.token not in home.log.read_text()


async def test_what_was_said_while_the_token_was_refused_is_answered_once_it_is_not(home: Home):
    chat = await home.at_home(Shape.TOPICS)
    async with home.gateway():
        thread = await home.arrives(chat)
        await home.hands.bot(Settings(revoked=True))
        await home.hands.say(home.anna, chat, "are you there?", thread=thread)
        await home.until_link(LinkState.DOWN)
        await home.hands.say(home.anna, chat, "hello?", thread=thread)
        await home.hands.bot(Settings())
        await home.sees("(4) hello?", chat, thread=thread)
        spoken = home.spoken(await home.hands.look(chat), thread)
    assert [m.text for m in spoken[-2:]] == ["(3) are you there?", "(4) hello?"]
    assert len(spoken) == 4
    assert await home.store.outbox.troubled() == ()


# Permissions


async def test_without_the_right_to_open_topics_a_session_goes_to_the_chat_itself(home: Home):
    chat = await home.at_home(Shape.FORUM)
    async with home.gateway():
        await home.hands.rights(home.anna, chat, Status.ADMINISTRATOR)
        assert await home.arrives(chat) is None
        await home.sees(DIRECT, chat)
        await home.hands.say(home.anna, chat, "@segue_test_bot go on")
        await home.sees("(3) go on", chat)
        await home.hands.rights(home.anna, chat, Status.ADMINISTRATOR, manage_topics=True)
        assert await home.arrives(chat, "Products") is not None


async def test_where_the_bot_was_thrown_out_the_session_stays_and_the_reason_is_named(home: Home):
    chat = await home.at_home(Shape.FORUM)
    async with home.gateway():
        await home.hands.rights(home.anna, chat, Status.KICKED)
        async with home.desk("one") as desk:
            failed = await desk.hand_off()
            assert failed.state is State.FAILED
            assert "the bot is no longer in that chat; add it there again" in (failed.error or "")
            await desk.says("two")
    stayed = (await home.session()).address
    assert stayed is not None
    assert stayed.platform is Platform.LOCAL


# A group that becomes a supergroup


async def test_a_session_goes_on_in_a_group_that_becomes_a_supergroup(home: Home):
    old = await home.at_home(Shape.GROUP)
    async with home.gateway():
        assert await home.arrives(old) is None
        home.mind.hold("think")
        await home.hands.say(home.anna, old, f"{BOT} think")
        await home.mind.hears("think")
        await home.hands.say(home.anna, old, f"{BOT} and then?")
        new = await home.hands.migrate(old)
        await home.hands.say(home.anna, new, f"{BOT} go on")
        await home.confirmed()
        home.mind.let_go()
        await home.sees("(5) go on", new)
        said = [m.text for m in home.spoken(await home.hands.look(new), None)]
        assert said == ["(3) think", "(4) and then?", "(5) go on"]
        assert await home.arrives(new, "Products") is None
    assert len(await home.store.sessions.list(ME)) == 2
    assert await home.store.outbox.troubled() == ()


async def test_a_group_that_became_a_supergroup_while_no_gateway_ran_is_the_same_place(
    home: Home,
):
    old = await home.at_home(Shape.GROUP)
    async with home.gateway():
        await home.arrives(old)
    new = await home.hands.migrate(old)
    await home.hands.say(home.anna, new, f"{BOT} go on")
    async with home.gateway():
        await home.sees("(3) go on", new)
        await home.arrives(new, "Products")


# The network


@contextlib.asynccontextmanager
async def cut_off(home: Home) -> AsyncGenerator[None]:
    """Telegram is out of reach for so long, and the gateway knows it."""
    await home.hands.down()
    await home.until_link(LinkState.DOWN)
    yield
    await home.hands.up()
    await home.until_link(LinkState.CONNECTED)


async def test_what_is_said_on_both_sides_while_the_network_is_down_arrives_once(home: Home):
    chat = await home.at_home(Shape.TOPICS)
    async with home.gateway():
        thread = await home.arrives(chat)
        home.mind.hold("think")
        await home.hands.say(home.anna, chat, "think about it", thread=thread)
        await home.mind.hears("think about it")
        async with cut_off(home):
            home.mind.let_go()
            await home.hands.say(home.anna, chat, "and then?", thread=thread)
            await home.hands.say(home.anna, chat, "and then what?", thread=thread)
        await home.sees("(5) and then what?", chat, thread=thread)
        shown = await home.hands.look(chat)
    said = [m.text for m in home.spoken(shown, thread)]
    assert said[2:] == ["(3) think about it", "(4) and then?", "(5) and then what?"]
    assert len(said) == 5
    assert home.spoken(shown, None) == []
    assert await home.store.outbox.troubled() == ()


async def test_a_handoff_while_the_network_is_down_leaves_the_session_where_it_is(home: Home):
    chat = await home.at_home(Shape.FORUM)
    async with home.gateway(), home.desk("one") as desk:
        async with cut_off(home):
            failed = await desk.hand_off()
            assert failed.state is State.FAILED
            assert "no connection can be made" in (failed.error or "")
            await desk.says("two")
        assert (await home.hands.look(chat)).threads == ()
        assert (await desk.hand_off()).state is State.COMPLETED
        (topic,) = (await home.hands.look(chat)).threads
        await home.sees(HANDED_OFF, chat, thread=topic.id)


async def test_a_topic_that_may_be_there_is_named_and_not_opened_again_by_itself(home: Home):
    chat = await home.at_home(Shape.FORUM)
    async with home.gateway(), home.desk("one") as desk:
        await home.hands.fail("createForumTopic", Trouble.DROP_AFTER)
        failed = await desk.hand_off()
        assert failed.state is State.FAILED
        assert len(await home.hands.calls("createForumTopic")) == 1
        done = await desk.hand_off()
        assert done.state is State.COMPLETED
    left, used = (await home.hands.look(chat)).threads
    assert done.thread is not None
    assert done.thread.thread_id == str(used.id)
    assert home.spoken(await home.hands.look(chat), left.id) == []


async def test_an_answer_that_may_have_arrived_is_reported_and_not_sent_again(home: Home):
    chat = await home.at_home(Shape.FORUM)
    async with home.gateway():
        thread = await home.arrives(chat)
        await home.hands.fail("sendMessage", Trouble.DROP_AFTER)
        await home.hands.say(home.anna, chat, "go on", thread=thread)
        await home.sees("(3) go on", chat, thread=thread)
        await home.hands.say(home.anna, chat, "and on", thread=thread)
        await home.sees("and on", chat, thread=thread)
        assert "uncertain: the connection broke" in await status(home)
        shown = await home.hands.look(chat)
    _, _, first, second = [m.text for m in home.spoken(shown, thread)]
    assert first == "(3) go on"
    assert second.endswith("and on")  # the agent may have been told of the first by then


# Topics that are taken away


async def test_what_was_to_be_said_in_a_topic_that_is_deleted_is_never_said_in_the_chat(home: Home):
    home.reports_soon()
    chat = await home.at_home(Shape.FORUM)
    async with home.gateway():
        thread = await home.arrives(chat)
        assert thread is not None
        home.mind.hold("think")
        await home.hands.say(home.anna, chat, "think about it", thread=thread)
        await home.mind.hears("think about it")
        await home.hands.delete_topic(chat, thread, silently=True)
        home.mind.let_go()
        told = await told_in_the_session(home)
        assert GONE in told
        assert "(3) think about it" in told
        assert GONE in await status(home)
        assert home.spoken(await home.hands.look(chat), None) == []
        async with home.sits_down(await home.session()) as back:
            assert ("assistant", "(3) think about it") in await home.said()
            await back.says("never mind")

        async def is_over() -> bool:  # what lands in the chat is taken back before it is
            return all(row.finished for row in await outgoing(home.store, str(chat)))

        await until(is_over, "everything was sent or refused", WITHIN)
        assert home.spoken(await home.hands.look(chat), None) == []


async def told_in_the_session(home: Home) -> str:
    """What the program says in it of what did not arrive, once it does."""
    async with asyncio.timeout(WITHIN):
        while True:
            for role, text in await home.said():
                if role == "system" and "did not arrive" in text:
                    return text
            await asyncio.sleep(0.02)


async def test_a_topic_that_was_closed_is_opened_again_for_an_answer(home: Home):
    chat = await home.at_home(Shape.FORUM)
    async with home.gateway():
        thread = await home.arrives(chat)
        assert thread is not None
        home.mind.hold("think")
        await home.hands.say(home.anna, chat, "think about it", thread=thread)
        await home.mind.hears("think about it")
        await home.hands.close_topic(home.anna, chat, thread)
        home.mind.let_go()
        await home.sees("(3) think about it", chat, thread=thread)
    (topic,) = (await home.hands.look(chat)).threads
    assert not topic.closed
