"""A handoff in the middle of a turn: the agent continues the turn on the phone."""

from __future__ import annotations

from segue.core.transcript import ToolCall
from segue.handoffs.values import State
from tests import rigs
from tests.end_to_end.conftest import on, tool_call
from tests.end_to_end.test_features import QUESTION
from tests.fakes.models.openai import Say
from tests.harness.gateways import piped
from tests.harness.household import HANDED_OFF, Household


def both(*answers: Say) -> Say:
    """One answer with the calls of both."""
    calls = [call for answer in answers for call in answer.calls]
    return Say(calls=tuple(ToolCall(f"c{n}", c.name, c.arguments) for n, c in enumerate(calls)))


@on(rigs.TelegramRig, rigs.SignalRig)
async def test_a_turn_that_waits_for_an_approval_is_approved_and_finished_on_the_phone(
    home: Household,
):
    await home.at_home(home.rig.forum)
    (home.person.cwd / "boat.txt").write_text("She is red.")
    read = tool_call("read_file", path="boat.txt")
    home.model.plans.append(both(read, tool_call("shell", command="echo sold > sold; echo yes")))
    async with home.gateway():
        async with home.person.opens("chat", "--title", "Sums") as shown:
            await shown.ready()
            shown.say("sell our boat")
            await shown.see("Allow it?")
            shown.say(f"/handoff {home.rig.platform}")
            assert await shown.end() == 0
            await shown.shows("To come back: segue resume Sums")
        await home.handoff(State.COMPLETED)
        thread = await home.thread()
        recap = await home.sees("“Sums” continues here.", thread)
        assert "The agent was working, and goes on with it here." in recap.text
        question = await home.sees(QUESTION, thread)
        assert "echo sold" in question.text
        assert not (home.person.cwd / "sold").exists()
        await home.rig.press(home.anna, home.chat, question, "Allow")
        await home.sees("(1) sell our boat", thread)
        assert (home.person.cwd / "sold").read_text() == "sold\n"
        await home.writes("thanks", thread)
        await home.sees("(2) thanks", thread)
        async with home.person.opens("resume", "sums") as back:
            await back.shows("(2) thanks")
            await back.ready()
    said = await home.said()
    assert [role for role, _ in said] == [
        "user", "assistant", "tool", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert [text for role, text in said if role == "tool"] == ["She is red.", "yes"]
    assert not any(HANDED_OFF in text for _, text in said)
    assert len([text for text in await home.texts(thread) if "continues here" in text]) == 1


@on(rigs.WhatsAppRig)
async def test_segue_handoff_waits_and_the_turn_is_finished_on_the_phone(home: Household):
    await home.at_home(home.rig.forum)
    home.model.plans.append(tool_call("shell", command="echo sold > sold; echo yes"))
    async with home.gateway(), home.person.opens("chat", "--title", "Sums") as shown:
        await shown.ready()
        shown.say("sell our boat")
        await shown.see("Allow it?")
        words = ("handoff", "Sums", home.rig.platform, "--wait")
        with piped(home.person, *words) as command:
            code, out, _ = await command.ends()
        assert code == 0
        assert "The agent goes on with its work there." in out
        await shown.shows("/resume Sums to take it back")
        thread = await home.thread()
        question = await home.sees(QUESTION, thread)
        await home.rig.press(home.anna, home.chat, question, "Allow")
        await home.sees("(1) sell our boat", thread)
    assert (home.person.cwd / "sold").read_text() == "sold\n"
    assert [role for role, _ in await home.said()] == ["user", "assistant", "tool", "assistant"]


@on(rigs.GenericRig, among=rigs.THREADED)
async def test_a_turn_in_a_chat_moves_although_its_gateway_is_killed_while_the_command_waits(
    home: Household,
):
    await home.at_home(home.rig.forum)
    other = await home.new_chat(home.rig.dm)
    home.model.hold("do it")
    async with home.gateway() as first:
        await home.writes("do it", chat=other)
        await home.model.hears("do it")
        with piped(home.person, "handoff", "latest", home.rig.platform, "--wait") as command:
            assert "waiting for the agent to finish its step in" in await command.line(
                command.stderr
            )
            first.kill()
            assert "waiting for a gateway to resume" in await command.line(command.stderr)
            home.model.let_go()
            async with home.gateway():
                code, _, _ = await command.ends()
                assert code == 0
                await home.sees("(1) do it", await home.thread())
                await home.sees("This conversation went to", chat=other)
    assert [role for role, _ in await home.said("latest")] == ["user", "assistant"]


# A reaction is understood only if the gateway lived long enough to record what it reacts to.
@on(rigs.SlackRig, among=rigs.THREADED)
async def test_the_next_gateway_continues_a_turn_if_the_first_is_killed_before_it(
    home: Household,
):
    await home.at_home(home.rig.forum)
    home.model.plans.append(tool_call("shell", command="echo once >> ran"))
    async with home.gateway() as first:
        async with home.person.opens("chat", "--title", "Sums") as shown:
            await shown.ready()
            shown.say("do it")
            await shown.see("Allow it?")
            shown.say(f"/handoff {home.rig.platform}")
            assert await shown.end() == 0
        thread = await home.thread()
        await home.sees(QUESTION, thread)
        await home.delivered()  # else the question may not have arrived, and is asked again
        first.kill()
    async with home.gateway():
        question = await home.sees(QUESTION, thread)
        await home.rig.press(home.anna, home.chat, question, "Allow")
        await home.sees("(1) do it", thread)
    assert (home.person.cwd / "ran").read_text() == "once\n"
    assert [role for role, _ in await home.said()] == ["user", "assistant", "tool", "assistant"]
