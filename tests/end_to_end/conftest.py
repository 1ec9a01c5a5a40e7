"""A household on each platform that brings a rig; see `tests.harness.rigs`.

The tests of the adapters cover the differences between kinds of chats, so each journey here uses
one kind. What only one platform has is in a file of that platform, which selects its rig:

    pytestmark = pytest.mark.parametrize("home", [TelegramRig], indirect=True)
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import msgspec
import pytest

from segue.core.transcript import ToolCall
from segue.testing.models.openai import Say
from tests.harness import household, rigs
from tests.harness.household import Household
from tests.harness.terminal import Person
from tests.harness.terminal import person as person


@pytest.fixture(params=rigs.ALL, ids=lambda rig: rig.name)
def home(
    person: Person, runner: asyncio.Runner, request: pytest.FixtureRequest
) -> Generator[Household]:
    """A household in which nobody is paired. Only the platform and the model are running."""
    opened = household.opened(person, request.param)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


def tool_call(tool: str, **arguments: object) -> Say:
    """An answer in which the model calls a tool."""
    return Say(calls=(ToolCall("call_1", tool, msgspec.json.encode(arguments).decode()),))
