"""An answer laid out again, as far as its layout still describes it."""

from __future__ import annotations

import pytest

from segue.agent.models.parts import Unlaid, layout_of
from segue.core.transcript import ToolCall
from tests.agent.models.answers import assistant

ONE, TWO = ToolCall("c1", "run", "{}"), ToolCall("c2", "run", "{}")
ANSWER = assistant("Let me see.", ONE, TWO, extras={"acme": [4, "c1"], "odd": "nonsense"})


def test_text_and_calls_come_in_their_order_until_nothing_is_left():
    left = Unlaid(ANSWER, ["first", "second"])
    assert (left.text(4), left.call("c1"), left.text(7)) == ("Let ", "first", "me see.")
    assert not left.is_nothing
    assert left.call("c2") == "second"
    assert left.is_nothing
    assert left.call("c2") is None


def test_a_call_that_is_not_the_next_one_is_not_given():
    left = Unlaid(ANSWER, ["first", "second"])
    assert left.call("c2") is None
    assert left.call("c1") == "first"


@pytest.mark.parametrize("length", [10, 12])
def test_another_length_of_text_is_another_message(length: int):
    left = Unlaid(assistant("Let me see."), [])
    left.text(length)
    assert not left.is_nothing


def test_only_the_providers_own_list_is_its_layout():
    assert layout_of(ANSWER, "acme") == [4, "c1"]
    assert layout_of(ANSWER, "odd") == layout_of(ANSWER, "other") == []
    assert layout_of(assistant("Hi."), "acme") == []
