"""What only WhatsApp has: one chat without threads, a window of 24 hours, statuses, a webhook."""

from __future__ import annotations

from typing import cast

import pytest

from segue.handoffs.values import State
from segue.store import outbox
from segue.store.outbox import OutgoingState
from segue.testing.contract.rig import Act
from segue.testing.http import request
from segue.testing.peers import Trouble
from tests.end_to_end.conftest import tool_call
from tests.end_to_end.test_features import QUESTION
from tests.fakes.protocols.hub import signature
from tests.fakes.whatsapp import APP_SECRET, Driver
from tests.harness.household import HANDED_OFF, Household
from tests.rigs import WhatsAppRig

pytestmark = pytest.mark.parametrize("home", [WhatsAppRig], indirect=True)


def driver(home: Household) -> Driver:
    return cast("Driver", home.rig.driver)


def signed(secret: str, body: bytes) -> dict[str, str]:
    return {"X_Hub_Signature_256": signature(secret, body)}


async def test_a_handoff_sets_the_conversation_aside_and_a_button_brings_it_back(home: Household):
    await home.at_home(home.rig.dm)
    async with home.gateway():
        await home.writes("plan the garden")
        await home.sees("(1) plan the garden")
        home.model.hold("and the roses")
        await home.writes("and the roses")
        await home.model.hears("and the roses")
        async with home.terminal("what is 2 and 2?") as shown:
            shown.say(f"/handoff {home.rig.platform}")
            await shown.shows("an answer is being written there")
            home.model.let_go()
            assert await shown.end() == 0
            await shown.shows("it continues in the chat itself")
        await home.sees("it continues in this chat itself")
        aside = await home.sees("was here before.")
        await home.sees(HANDED_OFF)
        spoken = await home.texts()
        assert spoken.index("(2) and the roses") < spoken.index(aside.text)
        await home.writes("and 3?")
        await home.sees("(3) and 3?")
        await home.rig.press(home.anna, home.chat, aside, aside.labels[0])
        await home.sees("“Sums” was here before: /resume Sums brings it back.")
        await home.writes("and trees?")
        await home.sees("(3) and trees?")
        await home.writes("/resume Sums")
        await home.sees("“Sums” continues here.", times=2)
        await home.writes("and 4?")
        await home.sees("(4) and 4?")


async def test_only_the_owner_answers_with_a_button_and_choices_are_shown_once(home: Household):
    await home.at_home(home.rig.dm)
    path = home.person.cwd / "made"
    async with home.gateway():
        home.model.plans.append(tool_call("shell", command=f"touch {path}"))
        await home.writes("make it")
        question = await home.sees(QUESTION)
        assert question.labels == ("Allow", "Allow in this…", "Deny")
        await home.rig.press(home.eve, home.chat, question, "Allow")
        await home.rig.say(home.eve, home.eve, "/approve 1")
        await home.rig.confirmed()
        assert not path.exists()
        await home.rig.press(home.anna, home.chat, question, "Allow")
        await home.sees("(1) make it")
        shown = await driver(home).look()
        read = {it.chat for it in shown.messages if it.id in shown.read}
        assert read == {home.anna}, "only her messages are marked as read"
    assert path.exists()


async def test_a_handoff_outside_of_the_window_is_refused_at_once(home: Household):
    await home.at_home(home.rig.dm)
    async with home.gateway():
        await home.answered()
    await driver(home).wrote(home.anna, 24 * 60 * 60 + 1)
    home.set_constants({"segue.platforms.whatsapp.adapter._WINDOW": 0.0})
    async with home.gateway(), home.desk("one") as desk:
        failed = await desk.hand_off(home.rig.platform)
        assert failed.state is State.FAILED
        assert "more than 24 hours ago" in str(failed.error)
    assert (await driver(home).look()).failed == {}, "it was not even tried"


async def test_a_message_that_fails_later_is_reported_as_not_delivered(home: Household):
    await home.at_home(home.rig.dm)
    async with home.gateway():
        await home.writes("hello")
        answer = await home.sees("(1) hello")
        await driver(home).fail_late(answer.id, 131026)
        await home.rig.confirmed()
        (trouble,) = await outbox.troubled(home.store)
        assert (trouble.state, "(#131026)" in str(trouble.error)) == (OutgoingState.FAILED, True)
        assert "WhatsApp cannot deliver it" in (await home.shell("gateway", "status")).stdout


async def test_a_failure_that_is_heard_before_the_answer_of_its_send_is_reported(home: Household):
    await home.at_home(home.rig.dm)
    async with home.gateway():
        await home.rig.fail(Act.SEND, Trouble.ANSWER_LATE)
        await home.writes("hello")
        answer = await home.sees("(1) hello")
        await driver(home).fail_late(answer.id, 131026)
        await home.rig.confirmed()
        assert "503" not in (await driver(home).look()).answers, "the hook was answered at once"
        await driver(home).calm()
        await home.writes("again")
        await home.sees("(2) again")
        (trouble,) = await outbox.troubled(home.store)
        assert (trouble.state, "(#131026)" in str(trouble.error)) == (OutgoingState.FAILED, True)


@pytest.mark.parametrize("part", [0, -1], ids=["first", "last"])
async def test_a_question_of_which_a_part_failed_cannot_be_allowed(home: Household, part: int):
    await home.at_home(home.rig.dm)
    path = home.person.cwd / "made"
    lines = [f"echo harmless line number {n}" for n in range(50)]
    async with home.gateway():
        command = "\n".join([*lines, f"touch {path}"])
        home.model.plans.append(tool_call("shell", command=command))
        await home.writes("make it")
        question = await home.sees(QUESTION)
        await home.rig.press(home.anna, home.chat, question, "Show all")
        last = await home.sees(f"touch {path}", times=2)
        assert "Allow" in last.labels
        shown = (await driver(home).look()).messages
        [begun] = [at for at, it in enumerate(shown) if it.text.startswith("Question 1, all")]
        parts = shown[begun:]
        assert len(parts) == 2
        await driver(home).fail_late(parts[part].id, 131026)
        await home.rig.press(home.anna, home.chat, last, "Allow")
        again = await home.sees(f"touch {path}", times=3)
        (trouble,) = await outbox.troubled(home.store)
        assert (trouble.state, "(#131026)" in str(trouble.error)) == (OutgoingState.FAILED, True)
        assert not path.exists()
        await home.rig.press(home.anna, home.chat, again, "Allow")
        await home.sees("(1) make it")
    assert path.exists()


async def test_a_forged_an_unsigned_and_an_oversized_request_change_nothing(home: Household):
    await home.at_home(home.rig.dm)
    hook = f"http://127.0.0.1:{cast('WhatsAppRig', home.rig).port}/hooks/whatsapp"
    async with home.gateway():
        await home.writes("hello")
        await home.sees("(1) hello")
        body, huge = f'{{"forged": "{home.anna}"}}'.encode(), b"x" * (5 * 1024 * 1024)
        for headers in ({}, signed("another secret", body), {"X_Hub_Signature_256": "sha256="}):
            assert (await request("POST", hook, body, **headers))[0] == 403
        assert (await request("POST", hook, huge, **signed(APP_SECRET, huge)))[0] in (0, 413)
        await home.rig.driver.repeat(last=4)  # a replay of what was signed
        await home.rig.confirmed()
        await home.writes("again")
        await home.sees("(2) again")
    assert [text for text in await home.texts() if "hello" in text] == ["(1) hello"]
