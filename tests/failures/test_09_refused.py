"""How handoff fails elsewhere, 9, and how it does not here: what a person who is refused is told
to type is typed, as it stands, and works."""

from __future__ import annotations

import asyncio
import inspect
import re
import shlex
from collections.abc import Iterator

import click
import pytest

from segue import commands
from segue.core import errors
from segue.core import handoff as handoffs
from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.errors import UserError
from segue.core.handoff import State
from segue.core.session import ME
from segue.gateway import texts
from segue.terminal.main import main
from segue.testing.platform import Shape, running
from tests.failures.advice import HANDOFF, add_settings, arrived, told, type_in_a_shell
from tests.failures.conftest import HANDED_OFF, Household
from tests.terminal.gateways import none_left, segue_says

# Whatever is told to be typed exists


def every_text() -> Iterator[str]:
    classes = (c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, UserError))
    yield from (" ".join((cls.__doc__ or "").split()) for cls in classes)
    for module in (handoffs, texts):
        told = (value for name, value in vars(module).items() if name.isupper())
        yield from (value for value in told if isinstance(value, str))
    yield from (command.elsewhere for command in commands.COMMANDS)


TEXTS = [text for text in every_text() if "`segue" in text or re.search(r"(?<!\S)/[a-z]", text)]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:40])
def test_every_command_that_a_person_is_told_to_type_is_there(text: str):
    """9. Advice that cannot work ("/resume on the platform manually" → blocked)."""
    for command in re.findall(r"`segue([^`]*)`", text):
        context, found = click.Context(main), main
        for word in command.split():
            if not isinstance(found, click.Group):
                break
            found = found.get_command(context, word)
            assert found is not None, f"there is no `segue{command}`"
    for name in re.findall(r"(?<!\S)/([a-z]+)\b", text):
        assert any(command.name == name for command in commands.COMMANDS), f"there is no /{name}"


# Refusals


async def test_after_an_unknown_platform_the_one_that_is_suggested_works(household: Household):
    """9. The way out of UnknownPlatform."""
    async with household.gateway(), household.terminal("one") as shown:
        shown.say("/handoff telegran")
        await shown.shows("There is no platform 'telegran' to hand off to. Try telegram,")
        await shown.ready()
        shown.say(HANDOFF)
        assert await shown.end() == 0
        await arrived(household)


async def test_after_an_unknown_session_the_list_that_is_told_has_the_right_one(
    household: Household,
):
    """9. The way out of SessionNotFound, in a shell."""
    async with household.gateway():
        async with household.terminal("one") as shown:
            shown.say("/quit")
            assert await shown.end() == 0
        words = ("handoff", "Sumz", "telegram")
        refused = await asyncio.to_thread(segue_says, household.person, *words)
        (listing,) = re.findall(r"`(segue [^`]+)`", refused.stderr)
        assert "Sums" in await type_in_a_shell(household, listing)
        await type_in_a_shell(household, "segue handoff Sums telegram")
        await arrived(household)


async def test_without_a_gateway_what_is_told_starts_one(household: Household):
    """9. The way out of NoGateway: both the one that is told and the one that is offered."""
    async with none_left(household.person), household.terminal("one") as shown:
        shown.say(HANDOFF)
        (start,) = await told(shown, "No gateway is running")
        await shown.shows("in another terminal, then /handoff telegram again.")
        await shown.see("Start one now? [y]es, [n]o")
        shown.say("n")
        await shown.gone("Start one now?")
        await shown.ready()
        await type_in_a_shell(household, start)
        shown.say(HANDOFF)
        assert await shown.end() == 0
        await arrived(household)


async def test_without_a_gateway_the_one_that_is_offered_carries_the_handoff_out(
    household: Household,
):
    """9. The same with a yes."""
    async with none_left(household.person), household.terminal("one") as shown:
        shown.say(HANDOFF)
        await shown.see("Start one now? [y]es, [n]o")
        shown.say("y")
        assert await shown.end() == 0
        await arrived(household)


async def test_a_platform_that_is_switched_off_is_switched_on_by_what_is_told(
    household: Household,
):
    """9. The way out of a platform that no gateway would serve."""
    add_settings(household, "enabled = false\n")
    async with none_left(household.person), household.terminal("one") as shown:
        shown.say(HANDOFF)
        (switch_on,) = await told(shown, "Nor is telegram set up yet:")
        await shown.ready()
        await type_in_a_shell(household, switch_on)
        shown.say("/quit")
        assert await shown.end() == 0
        async with household.person.opens("resume", "Sums") as again:
            await again.see("· here")
            await again.ready()
            again.say(HANDOFF)
            await again.see("Start one now? [y]es, [n]o")
            again.say("y")
            assert await again.end() == 0
            await arrived(household)


async def test_a_platform_that_is_not_served_is_served_after_what_is_told(household: Household):
    """9. The way out of PlatformNotEnabled."""
    with running() as other:
        async with none_left(household.person), other.hands() as hands:
            chat = await hands.chat(Shape.DM, [await hands.user("Anna")])
            home = Address(platform=Platform.SLACK, chat_type=ChatType.DM, chat_id=chat)
            await household.store.owners.set_home(ME, HomeChannel(address=home))
            await type_in_a_shell(household, "segue gateway start")
            async with household.terminal("one") as shown:
                shown.say("/handoff slack")
                first, *others = await told(shown, "is running does not serve slack.", 3)
                await shown.ready()
                # There is no adapter of our own for any platform yet.
                adapter = '[platforms.slack]\nadapter = "segue.testing.platform.adapter:make"\n'
                add_settings(household, f'\n{adapter}url = "{other.url}"\n')
                async with household.person.opens(*shlex.split(first)[1:]) as asks:
                    await asks.shows("platforms.slack.token:")
                    asks.say(other.token)
                    assert await asks.end() == 0
                for command in others:
                    await type_in_a_shell(household, command)
                shown.say("/handoff slack")
                assert await shown.end() == 0
                await hands.thread(chat)


async def test_without_a_home_channel_pairing_and_sethome_make_one(household: Household):
    """9. The way out of NoHomeChannel, for somebody who is not even paired."""
    await household.store.owners.unlink(Platform.TELEGRAM, household.anna)
    await household.store.owners.clear_home(ME, Platform.TELEGRAM)
    hands, anna, chat = household.hands, household.anna, household.chat
    async with household.gateway(), household.terminal("one") as shown:
        shown.say(HANDOFF)
        (pair,) = await told(shown, "There is no home channel on telegram yet. Send /sethome")
        async with household.person.opens(*shlex.split(pair)[1:], columns=100, lines=60) as pairing:
            await pairing.shows("Keep it secret.")
            code = re.search(r"Your code: (\S+)", pairing.text)
            assert code is not None
            await hands.say(anna, chat, code[1])
            assert await pairing.end() == 0
        await household.sees("You are paired")
        await hands.say(anna, chat, "/sethome")
        await household.sees("Handoffs to telegram arrive here from now on.")
        await shown.ready()
        shown.say(HANDOFF)
        assert await shown.end() == 0
        await arrived(household)


async def test_a_chat_that_is_not_known_is_known_once_something_was_said_there(
    household: Household,
):
    """9. The two ways out of UnknownChat."""
    other = await household.hands.chat(Shape.GROUP, [household.anna], name="Team")
    async with household.gateway():
        async with household.terminal("one") as shown:
            shown.say("/quit")
            assert await shown.end() == 0
        there = ("handoff", "Sums", f"telegram:{other}")
        refused = await asyncio.to_thread(segue_says, household.person, *there)
        assert f"{other!r} is not one of your chats on telegram. Send something" in refused.stderr
        await household.hands.say(household.anna, other, "hello")
        await household.hands.message("(1) hello", chat=other)
        await type_in_a_shell(household, f"segue handoff Sums 'telegram:{other}'")
        await household.hands.thread(other)
        await type_in_a_shell(household, "segue handoff Sums telegram")
        await arrived(household)


async def test_a_session_that_is_open_can_be_handed_off_once_it_is_left_there(
    household: Household,
):
    """9. The way out of SessionHeld."""
    async with household.gateway():
        async with household.terminal("one") as shown:
            words = ("handoff", "Sums", "telegram")
            refused = await asyncio.to_thread(segue_says, household.person, *words)
            assert "This session is open in a terminal on" in refused.stderr
            assert "Leave it there first" in refused.stderr
            shown.say("/quit")
            assert await shown.end() == 0
        await type_in_a_shell(household, "segue handoff Sums telegram")
        await arrived(household)


@pytest.mark.parametrize("way", ["wait", "c-c"])
async def test_in_the_middle_of_a_turn_both_ways_out_work(household: Household, way: str):
    """9. The ways out of TurnRunning."""
    household.mind.hold("two")
    async with household.gateway(), household.terminal("one") as shown:
        shown.say("two")
        await household.mind.hears("two")
        shown.say(HANDOFF)
        await shown.shows("Wait for the answer, or press Ctrl-C; then type /handoff again.", 2)
        if way == "c-c":
            shown.press("c-c")
            await shown.ready()
        household.mind.let_go()
        if way == "wait":
            await shown.shows("(2) two")
            await shown.ready()
        shown.say(HANDOFF)
        assert await shown.end() == 0
        await arrived(household)


async def test_what_is_in_flight_already_is_over_soon_and_can_be_asked_for_again(
    household: Household,
):
    """9. The way out of HandoffInFlight and of SessionChanged: the terminal that began it is dead,
    and the session goes on in another."""
    household.mind.hold(HANDED_OFF)
    async with household.gateway():
        async with household.terminal("one") as first:
            first.say(HANDOFF)
            await household.mind.hears(HANDED_OFF)
            first.kill()
        async with household.person.opens("resume", "Sums") as shown:
            await shown.see("· here")
            await shown.ready()
            shown.say(HANDOFF)
            await shown.shows("is already being handed off to telegram. Wait until that is over")
            await shown.ready()
            household.mind.let_go()
            failed = await household.handoff(State.FAILED)
            assert (failed.error or "").endswith("Type /handoff again from there.")
            shown.say(HANDOFF)
            assert await shown.end() == 0
    done, failed = await household.handoffs()
    assert (done.state, failed.state) == (State.COMPLETED, State.FAILED)
