"""What every test may use."""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import Generator
from typing import cast

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run and on every machine. What searches for new ones is `make fuzz`,
# which takes the profile "fuzz" and a seed.
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
    # Who starts the tests in the background may ignore Ctrl-C, and so would all that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """0 in `make test`: what is chosen at random is always the same, and few rounds are enough.
    Anything else in `make fuzz`."""
    return cast("int", pytestconfig.getoption("--seed"))


@pytest.fixture(autouse=True)
def runner() -> Generator[asyncio.Runner]:
    """The event loop of one test, which its async fixtures share. It is made when first used."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = pyfuncitem.funcargs
    wanted = inspect.signature(pyfuncitem.obj).parameters
    runner = cast("asyncio.Runner", given["runner"])
    runner.run(pyfuncitem.obj(**{name: given[name] for name in wanted if name in given}))
    return True
