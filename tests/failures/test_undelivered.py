"""Replies and handoffs that cannot be delivered.

A docstring says how the handoff of other programs fails there.
"""

from __future__ import annotations

import asyncio

import pytest

from segue.core.address import Platform
from segue.core.session import ME
from segue.handoffs.values import State
from segue.store import Topic, bindings, outbox, sessions
from segue.testing.contract.rig import Act
from segue.testing.platform import Shape, Trouble
from tests.failures.conftest import HANDED_OFF, STAYED, WITHIN, Household
from tests.gateway.test_handoffs import SAID, home_in
from tests.harness.house import House

SAID_SO_FAR = [text for exchange in SAID for text in exchange]


def answers(texts: list[str], words: str) -> int:
    return sum(words in text for text in texts)


@pytest.mark.parametrize("trouble", [Trouble.BROKEN, Trouble.DROP_AFTER])
async def test_an_undelivered_reply_is_retried_until_it_arrives_once(
    household: Household, trouble: Trouble
):
    """A reply was generated but its delivery failed: logged, never retried, the user waits for
    an hour."""
    async with household.gateway():
        async with household.desk("one") as desk:
            # The first message of the gateway is the recap; the reply comes after it.
            household.model.hold(HANDED_OFF)
            handing = asyncio.create_task(desk.hand_off())
            await household.model.hears(HANDED_OFF)
            await household.rig.fail(Act.SEND, trouble, times=2, chat=household.chat)
            household.model.let_go()
            assert (await handing).state is State.COMPLETED
        await household.sees(f"(2) {HANDED_OFF}")
        thread = await household.thread()
        await household.rig.fail(Act.SEND, trouble, times=2, chat=household.chat)
        await household.writes("go on", thread)
        await household.sees("(3) go on")
        await household.writes("and on", thread)
        await household.sees("(4) and on")
        texts = await household.texts(thread)
    assert len(texts) == 4
    assert [answers(texts, f"({number})") for number in (2, 3, 4)] == [1, 1, 1]


async def test_a_reply_of_a_killed_gateway_is_delivered_by_the_next(
    household: Household,
):
    """The same when the gateway dies between the reply and its delivery."""
    async with household.gateway() as first:
        await household.rig.fail(Act.SEND, Trouble.HANG, chat=household.chat)
        await household.writes("hello")
        await household.rig.until(lambda view: view.hanging == 1)
        async with asyncio.timeout(WITHIN), household.store.listen(Topic.OUTBOX) as wake:
            while not await outbox.is_due(household.store, [Platform.TELEGRAM]):
                await wake.wait(0.1)
        first.kill()
    await household.rig.calm()
    asked = household.model.heard("hello")
    async with household.gateway():
        await household.sees("(1) hello")
        await household.writes("go on")
        await household.sees("(2) go on")
    texts = await household.texts(None)
    assert answers(texts, "(1) hello") == 1
    assert household.model.heard("hello") == asked == 1


async def test_an_undelivered_reply_is_reported_everywhere(household: Household):
    """The same when it can never arrive: it is reported in the session, in the status and in
    the log, and the agent knows."""
    household.reports_soon()
    async with household.gateway():
        await household.writes("/title Sums")
        await household.sees("The title of this session is “Sums”.")
        # On a slow machine, messages before the reply are refused as well.
        await household.rig.fail(Act.SEND, Trouble.FORBIDDEN, times=100, chat=household.chat)
        await household.writes("hello")
        async with asyncio.timeout(WITHIN), household.store.listen(Topic.SENT) as wake:
            while not await outbox.troubled(household.store):
                await wake.wait(0.1)
        await household.rig.calm()
        async with asyncio.timeout(WITHIN), household.store.listen(Topic.SENT) as wake:
            while not await outbox.troubled(household.store, reported=True):
                await wake.wait(0.1)
        status = await household.shell("gateway", "status")
        assert "failed: The bot may not do that" in status.stdout
        assert "not delivered key=" in household.log.read_text()
        (*_, (role, text)) = await household.said()
        assert role == "system"
        assert "did not arrive" in text
        assert "(1) hello" in text
        await household.writes("and now?")
        await household.sees("and now?")
        assert "did not arrive" in str(household.model.requests[-1]["messages"])


@pytest.mark.parametrize("method", ["send", "open_thread"])
async def test_a_handoff_that_cannot_be_delivered_changes_nothing(house: House, method: str):
    """Sending fails: marked failed, but routing stays moved, the synthetic turn stays in the
    transcript, an empty topic remains, and the retry leaves two chats bound to one session."""
    async with house.gateway():
        chat, _ = await home_in(house, Shape.FORUM)
        async with house.terminal(*SAID, title="Sums") as desk:
            before = await sessions.get(house.store, desk.session.id)
            await house.driver.fail(method, Trouble.FORBIDDEN, chat=chat)
            failed = await desk.hand_off()
            assert failed.state is State.FAILED
            assert "The bot may not do that" in (failed.error or "")
            assert await sessions.get(house.store, desk.session.id) == before
            assert [text for _, text in await house.said(desk.session.id)] == SAID_SO_FAR
            (binding,) = await bindings.list_bindings(house.store, ME)
            assert binding.address.platform is Platform.LOCAL
            await house.idle()
            threads = (await house.driver.look(chat)).threads
            assert len(threads) == (method == "send")
            for thread in threads:
                (only,) = [m for m in (await house.driver.look(chat)).messages if m.thread]
                assert (only.thread, only.text[: len(STAYED)]) == (thread.id, STAYED)
            done = await desk.hand_off()
            assert done.state is State.COMPLETED, done.error
        (binding,) = await bindings.list_bindings(house.store, ME)
        assert (binding.address, binding.session_id) == (done.thread, desk.session.id)
        roles = [role for role, _ in await house.said(desk.session.id)]
        assert roles == ["user", "assistant"] * 4
