"""Fixtures and hooks for all tests."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
from collections.abc import Generator
from typing import cast

import pytest
from hypothesis import HealthCheck, settings

from tests.harness import contract_cases
from tests.program import PATH

# The same examples in every run and on every machine. `make fuzz` searches for new ones, with
# the profile "fuzz" and a seed.
settings.register_profile(
    "test",
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
    print_blob=True,
)
settings.register_profile("fuzz", settings.get_profile("test"), max_examples=300, derandomize=False)
settings.load_profile("test")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed", type=int, default=0, help="what is chosen at random is chosen by this"
    )
    parser.addoption(
        "--pictures", action="store_true", help="take the pictures in docs/pictures anew"
    )


def pytest_configure() -> None:
    gc.disable()  # while the tests are collected: see below
    # If the tests run in the background, SIGINT may be ignored, and child processes inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Texts then name the program `segue`, as for a user who has installed it.
    os.environ["PATH"] = f"{PATH}:{os.environ['PATH']}"  # noqa: TID251 - it is that of all tests


@pytest.hookimpl(tryfirst=True)  # before the tests are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that kill processes in many rounds more time: a slow machine is not a failure."""
    for item in items:
        if not contract_cases.is_usual(item):
            item.add_marker(pytest.mark.long)
        is_long = item.get_closest_marker("kill") or item.get_closest_marker("real")
        if is_long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))


def pytest_collection_finish() -> None:
    # What was imported and collected stays until the end. The garbage collector need not look at it
    # again and again, which takes a tenth of the time of all tests.
    gc.enable()
    gc.freeze()


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """The random seed. In `make test` it is 0: random choices are always the same, and few rounds
    run.

    `make fuzz` sets other seeds.
    """
    return cast("int", pytestconfig.getoption("--seed"))


@pytest.fixture(autouse=True)
def runner() -> Generator[asyncio.Runner]:
    """The event loop of one test and its async fixtures. It is created on first use."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function. anyio's plugin runs those that are marked for it."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or pyfuncitem.get_closest_marker("anyio"):
        return None
    given = pyfuncitem.funcargs
    wanted = inspect.signature(pyfuncitem.obj).parameters
    runner = cast("asyncio.Runner", given["runner"])
    runner.run(pyfuncitem.obj(**{name: given[name] for name in wanted if name in given}))
    return True
