"""A household on each platform that brings a rig; see `tests.rigs`.

The contract suite tests every adapter, and the tests of an adapter cover its kinds of chats. So
each journey here uses one kind of chat, and `on` names the platforms on which it differs, or one if
it does not. On the other platforms it runs each night. What only one platform has is in a file of
that platform, which selects its rig:

    pytestmark = pytest.mark.parametrize("home", [TelegramRig], indirect=True)
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from pathlib import Path

import msgspec
import pytest

from segue.core.transcript import ToolCall
from tests import rigs
from tests.fakes.models.openai import Say
from tests.harness import household
from tests.harness.cases import brief
from tests.harness.household import Household
from tests.harness.terminal import Person
from tests.harness.terminal import person as person
from tests.rigs import PlatformRig


@pytest.fixture(params=rigs.ALL, ids=lambda rig: rig.name)
def home(
    person: Person, runner: asyncio.Runner, request: pytest.FixtureRequest
) -> Generator[Household]:
    """A household without paired users. Only the platform and the model are running."""
    opened = household.opened(person, request.param)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


def on(
    *usual: type[PlatformRig], among: Sequence[type[PlatformRig]] = rigs.ALL
) -> pytest.MarkDecorator:
    """Run a test on the platforms `usual`, and in `make test-long` on all others in `among`."""
    return pytest.mark.parametrize("home", brief(among, usual), indirect=True)


def tool_call(tool: str, **arguments: object) -> Say:
    """An answer in which the model calls a tool."""
    return Say(calls=(ToolCall("call_1", tool, msgspec.json.encode(arguments).decode()),))


async def asks_under_an_answer(home: Household) -> None:
    """Ask in a thread under an answer, whose session then knows that answer."""
    await home.writes(home.rig.addressed("think of a number"))
    answer = await home.sees("(1) ", None)
    if isinstance(home.rig, rigs.DiscordRig):
        given = (int(home.anna), int(home.chat), "More", int(answer.id))
        await home.rig.driver.open_thread(*given)
    await home.writes("which one?", answer.id)
    await home.sees("which one?", answer.id)
    await home.writes("and why?", answer.id)
    await home.sees("(2) and why?", answer.id)
    said = [it for it in home.model.requests if "tools" in it][-1]["messages"]
    first, second = [it["content"] for it in said if it["role"] == "user"]
    assert first.endswith("written by you:]\n> (1) think of a number\n\nwhich one?")
    assert second == "and why?"


def write(home: Household, settings: str) -> None:
    """Replace the settings file."""
    Path(home.person.environment["SEGUE_CONFIG"]).write_text(settings)
