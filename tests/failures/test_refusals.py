"""The advice in every refusal is followed literally and works."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from segue import commands
from segue.cli.main import main
from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.errors import HandoffError
from segue.core.session import ME
from segue.gateway import texts
from segue.handoffs import values as handoff
from segue.handoffs.values import State
from segue.store import owners
from segue.testing.platform import Shape, serving
from tests.failures.advice import (
    HANDOFF,
    IN_A_SHELL,
    add_settings,
    advised,
    arrived,
    arrives,
    refused,
    type_in_a_shell,
)
from tests.failures.advice import (
    commands as told_in,
)
from tests.failures.conftest import HANDED_OFF, Household
from tests.harness.gateways import none_left
from tests.harness.sentences import is_a, sentences, source
from tests.rigs import GenericRig

# Every advised command exists


def every_text() -> Iterator[str]:
    docstrings = source().docstrings.items()
    yield from (text for error, text in docstrings if is_a(error, "UserError"))
    yield from (said.text for said in sentences())
    for module in (handoff, texts):
        values = (value for name, value in vars(module).items() if name.isupper())
        yield from (value for value in values if isinstance(value, str))


def test_every_advised_command_exists():
    """Advice that cannot work ("/resume on the platform manually" → blocked)."""
    texts = list(every_text())
    in_shell = {command for text in texts for command in re.findall(r"`segue([^`]*)`", text)}
    assert [command for command in sorted(in_shell) if not is_command(command)] == []
    in_chat = {name for text in texts for name in re.findall(r"(?<!\S)/([a-z]+)\b", text)}
    assert in_chat
    assert in_chat <= {command.name for command in commands.COMMANDS}


def is_command(typed: str) -> bool:
    """Whether `segue` has the command, with its subcommands."""
    context = click.Context(main)
    found: click.Command | None = main
    for word in typed.replace("{platform}", "telegram").split():
        if not isinstance(found, click.Group):
            break
        found = found.get_command(context, word)
    return found is not None


# Refusals


async def test_the_advice_after_an_unknown_platform_works(household: Household):
    """The advice for an unknown platform, SessionNotFound, an unknown chat, which has two, and
    SessionHeld."""
    other = await household.new_chat(GenericRig.forum)
    async with household.gateway():
        async with household.desk("one"):
            said = await refused(household)
            assert "This session is open in a terminal on" in said
            assert "Close it there first" in said
        said = await refused(household, "handoff", "Sums", "telegran")
        assert "There is no platform 'telegran' to hand off to. Try telegram," in said
        said = await refused(household, "handoff", "Sumz", "telegram")
        (listing,) = told_in(said, "There is no session “Sumz”.")
        assert "Sums" in await type_in_a_shell(household, listing)
        said = await refused(household, "handoff", "Sums", f"telegram:{other}")
        assert f"{other!r} is not one of your chats on telegram. Send a message" in said
        await household.writes("hello", chat=other)
        await household.sees("(1) hello", chat=other)
        await type_in_a_shell(household, f"segue handoff Sums 'telegram:{other}'")
        await household.rig.until(lambda view: bool(view.threads), other)
        await arrives(household)


async def test_the_advice_without_a_gateway_starts_one(household: Household):
    """The advice for a platform that no gateway would serve. (The tests of the terminal cover the
    offer to start one.)"""
    add_settings(household, "enabled = false\n")
    async with none_left(household.person), household.terminal() as shown:
        shown.say(HANDOFF)
        switch_on, start = await advised(shown, "No gateway is running", 2)
        await shown.shows("Then type /handoff telegram here again.")
        await shown.ready()
        await type_in_a_shell(household, switch_on)
        await type_in_a_shell(household, start)
        shown.say(HANDOFF)
        assert await shown.end() == 0
        await arrived(household)


async def test_a_platform_that_is_not_set_up_can_have_an_external_adapter(household: Household):
    """A platform that is not set up: an external adapter sets it up, too."""
    await household.left("one")
    async with serving() as other, other.driver() as driver:
        chat = await driver.chat(Shape.DM, [await driver.user("Anna")])
        home = Address(platform=Platform.DISCORD, chat_type=ChatType.DM, chat_id=chat)
        await owners.set_home(household.store, ME, HomeChannel(address=home))
        async with household.gateway():
            said = await refused(household, "handoff", "Sums", "discord")
            assert "does not serve discord" in said
            adapter = '[platforms.discord]\nadapter = "segue.testing.platform.adapter:make"\n'
            values = f'url = "{other.url}"\ntoken = "{other.token}"\n'
            add_settings(household, f"\n{adapter}{values}")
        async with household.gateway():
            await type_in_a_shell(household, "segue handoff Sums discord")
            await driver.thread(chat)


async def test_without_a_home_channel_pairing_and_sethome_make_one(household: Household):
    """The advice without a home channel, for a user who is not even paired."""
    await owners.unlink(household.store, Platform.TELEGRAM, household.anna)
    await owners.clear_home(household.store, ME, Platform.TELEGRAM)
    await household.left("one")
    async with household.gateway():
        said = await refused(household)
        (pair,) = told_in(said, "No home channel on telegram yet. Send /sethome")
        code = re.search(r"Your code: (\S+)", await type_in_a_shell(household, pair))
        assert code is not None
        await household.writes(code[1])
        await household.sees("You are paired")
        await household.writes("/sethome")
        await household.sees("Handoffs to telegram arrive here from now on.")
        await arrives(household)


async def test_both_ways_out_of_a_running_turn_work(household: Household):
    """The advice while a turn runs."""
    advice = "Wait for it or press Ctrl-C, then type /handoff again."
    household.model.hold(HANDED_OFF)
    async with household.gateway(), household.terminal("one") as shown:
        for count in (1, 2):
            shown.say(HANDOFF)
            await household.model.hears(HANDED_OFF, count)
            shown.say(HANDOFF)
            await shown.until(
                lambda count=count: " ".join(shown.text.split()).count(advice) == count, advice
            )
            if count == 1:
                shown.press("c-c")
                await shown.ready()
        household.model.let_go()
        assert await shown.end() == 0
        await arrived(household)


async def test_a_handoff_in_flight_expires_soon_and_can_be_requested_again(
    household: Household,
):
    """The advice for a handoff in flight and for a session that has changed: the terminal that
    started it is dead, and the session continues in another."""
    household.model.hold(HANDED_OFF)
    session = await household.left("one")
    async with household.gateway():
        with household.begun(*IN_A_SHELL):
            await household.model.hears(HANDED_OFF)
        async with household.sits_down(session) as desk:
            with pytest.raises(HandoffError, match="Wait for that to finish"):
                await desk.hand_off()
            household.model.let_go()
            failed = await household.handoff(State.FAILED)
            assert (failed.error or "").endswith("Hand it off again from there.")
            assert (await desk.hand_off()).state is State.COMPLETED
    done, failed = await household.handoffs()
    assert (done.state, failed.state) == (State.COMPLETED, State.FAILED)
