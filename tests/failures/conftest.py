"""The harnesses of these tests: a `household` with a gateway in a separate process, on the generic
platform, and the faster `house` of the gateway tests."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from tests.gateway.conftest import house as house
from tests.gateway.conftest import settings as settings
from tests.harness.household import HANDED_OFF as HANDED_OFF
from tests.harness.household import WITHIN as WITHIN
from tests.harness.household import Gateway as Gateway
from tests.harness.household import Household as Household
from tests.harness.household import opened as household_opened
from tests.harness.terminal import Person
from tests.harness.terminal import person as person
from tests.rigs import GenericRig

# Assertions in this module get pytest's detailed messages too.
pytest.register_assert_rewrite("tests.failures.advice")

STAYED = "The session stayed where it was"
"""The notice in a thread after a failed handoff."""


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
