"""The harnesses of these tests: a `household` with a gateway in a separate process, on the generic
platform, and the faster `house` of the gateway tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator

import pytest

from segue.agent.models.base import Piece, Prompt
from segue.agent.models.scripted import ScriptedModel
from tests.gateway.conftest import echoing
from tests.gateway.conftest import house as house
from tests.gateway.conftest import settings as settings
from tests.harness.household import HANDED_OFF as HANDED_OFF
from tests.harness.household import WITHIN as WITHIN
from tests.harness.household import Gateway as Gateway
from tests.harness.household import Household as Household
from tests.harness.household import opened as household_opened
from tests.harness.rigs import GenericRig
from tests.harness.terminal import Person
from tests.harness.terminal import person as person

# Assertions in this module get pytest's detailed messages too.
pytest.register_assert_rewrite("tests.failures.advice")

STAYED = "The session stayed where it was"
"""The notice in a thread after a failed handoff."""


class Slow(ScriptedModel):
    """A model for a `house`: answers like `echo`, but waits before it answers certain words."""

    def __init__(self, words: str) -> None:
        super().__init__(echoing())
        self.go = asyncio.Event()
        """Set it to let the model answer."""
        self.thinks = asyncio.Event()
        """Set when the model is waiting."""
        self._words = words
        self._once = False

    def only_once(self) -> None:
        """Answer everything at once from now on.

        An answer that is already waiting keeps waiting.
        """
        self._once = True

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        if self._words in prompt.messages[-1].content and not self._once:
            self.thinks.set()
            await self.go.wait()
        async for piece in super().stream(prompt):
            yield piece


@pytest.fixture
def household(person: Person, runner: asyncio.Runner) -> Generator[Household]:
    """A household in which Anna is paired, and a direct message is her home channel.

    Only the platform and the model are running.
    """
    opened = household_opened(person, GenericRig)
    household = runner.run(opened.__aenter__())
    runner.run(household.at_home(GenericRig.dm))
    yield household
    runner.run(opened.__aexit__(None, None, None))
