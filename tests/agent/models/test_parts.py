"""Laying an answer out again, as far as its stored layout still matches."""

from __future__ import annotations

import pytest

from segue.agent.models.messages import Unlaid, layout_of
from segue.core.transcript import ToolCall
from tests.agent.models.answers import assistant

ONE, TWO = ToolCall("c1", "run", "{}"), ToolCall("c2", "run", "{}")
ANSWER = assistant("Let me see.", ONE, TWO, extras={"acme": [4, "c1"], "odd": "nonsense"})


def test_text_and_calls_are_taken_in_order_until_none_are_left():
    left = Unlaid(ANSWER, ["first", "second"])
    assert (left.text(4), left.call("c1"), left.text(7)) == ("Let ", "first", "me see.")
    assert not left.is_nothing
    assert left.call("c2") == "second"
    assert left.is_nothing
    assert left.call("c2") is None


def test_a_call_that_is_not_next_is_not_returned():
    left = Unlaid(ANSWER, ["first", "second"])
    assert left.call("c2") is None
    assert left.call("c1") == "first"


@pytest.mark.parametrize("length", [10, 12])
def test_a_layout_with_another_text_length_does_not_match(length: int):
    left = Unlaid(assistant("Let me see."), [])
    left.text(length)
    assert not left.is_nothing


def test_a_layout_is_read_only_from_the_extras_of_its_provider():
    assert layout_of(ANSWER, "acme") == [4, "c1"]
    assert layout_of(ANSWER, "odd") == layout_of(ANSWER, "other") == []
    assert layout_of(assistant("Hi."), "acme") == []
