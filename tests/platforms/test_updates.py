"""Updates that are set aside or tried again, and what adapters remember of them."""

from __future__ import annotations

import importlib

import pytest

from segue.core.address import Platform
from segue.core.errors import ConnectFailed
from segue.platforms.errors import Failures, Lost, Refused
from segue.platforms.updates import TRIES, Containment, Recent

FAILURES = Failures(Platform.MATRIX)


class Work:
    """Fails with an error for as long as there is one."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    async def __call__(self) -> str:
        if self.error is not None:
            raise self.error
        return "done"


async def apologize(reason: str) -> str:
    return f"set aside: {reason}"


@pytest.fixture
def containment() -> Containment:
    return Containment(FAILURES)


@pytest.mark.parametrize(
    "error", [Refused(404, "none"), Refused(414, "too long"), ValueError("odd"), RecursionError()]
)
async def test_what_the_platform_refuses_or_we_cannot_handle_is_set_aside_at_once(
    containment: Containment, error: Exception
):
    assert await containment.attempt("1", Work(error)) is None
    assert (await containment.attempt("1", Work(error), apologize) or "").startswith("set aside")


@pytest.mark.parametrize(
    "error",
    [
        Refused(401, "signed out"),
        Refused(429, "busy"),
        Lost("no connection", arrived=False),
        ConnectFailed(platform=Platform.MATRIX, reason="closed"),
    ],
)
async def test_an_outage_sets_nothing_aside(containment: Containment, error: Exception):
    for _ in range(3 * TRIES):
        with pytest.raises(type(error)):
            await containment.attempt("1", Work(error))


@pytest.mark.parametrize("error", [Refused(500, "broken"), Lost("hung up", arrived=True)])
async def test_an_item_that_keeps_failing_is_set_aside_and_its_like_at_once(
    containment: Containment, error: Exception
):
    for _ in range(TRIES - 1):
        with pytest.raises(type(error)):
            await containment.attempt("1", Work(error))
    with pytest.raises(type(error)):  # another item has its own tries
        await containment.attempt("2", Work(error))
    assert await containment.attempt("1", Work(error)) is None
    assert await containment.attempt("1", Work(error)) is None
    assert await containment.attempt("1", Work(None)) == "done"
    with pytest.raises(type(error)):
        await containment.attempt("1", Work(error))


async def test_items_of_a_place_share_its_fault_until_one_succeeds_there(containment: Containment):
    error = Refused(500, "broken")
    for number in range(TRIES - 1):
        with pytest.raises(Refused):
            await containment.attempt("1", Work(error), place="room")
        # Another item of the place succeeds before each attempt, which excuses nothing.
        assert await containment.attempt(f"other {number}", Work(None), place="room") == "done"
    assert await containment.attempt("1", Work(error), place="room") is None
    assert await containment.attempt("2", Work(error), place="room") is None
    assert await containment.attempt("3", Work(None), place="room") == "done"
    with pytest.raises(Refused):
        await containment.attempt("4", Work(error), place="room")


def test_an_update_that_cannot_be_parsed_is_set_aside(containment: Containment):
    assert containment.parse("1", lambda: int("x")) is None
    assert containment.parse("1", lambda: int("1")) == 1


def test_the_oldest_entry_is_dropped():
    known = Recent[str, int](most=2)
    for number, name in enumerate("abcb"):
        known[name] = number
    assert known == {"b": 3, "c": 2}


def test_the_former_module_still_has_recent():
    with pytest.deprecated_call():
        former = importlib.import_module("segue.platforms.recent")
    assert former.Recent is Recent
