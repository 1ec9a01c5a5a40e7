"""Tool calls of small models, as plain text."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.agent.models import plain
from segue.agent.models.base import ToolSpec
from segue.core.transcript import Message, Role, ToolCall, spoken
from tests.harness.line_counts import growth

AT = datetime(2026, 11, 1, tzinfo=UTC)
NAMES = frozenset({"weather", "write"})
WEATHER = ToolSpec(
    name="weather",
    description="The weather in a city. Takes a while.\nMore words.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
PARIS = '{"name": "weather", "arguments": {"city": "Paris"}}'


def read(*pieces: str) -> tuple[list[str], ToolCall | str]:
    reader = plain.Reader(NAMES)
    return [reader.feed(piece) for piece in pieces], reader.end("c1")


def test_tools_are_described_briefly():
    told = plain.describe([WEATHER])
    assert "- weather(city): The weather in a city\n" in told
    assert len(told) < 220


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("My name is Anna and I work as a baker.", False),
        ("What is my name?", False),
        ("Tell me a story. A long one.", False),
        ("Which files are here?", True),
        ("What does notes.md say?", True),
        ("Look into src/segue, please.", True),
        ("Run `date`.", True),
        ("LIST everything", True),
        ("Remind me in 20 minutes.", True),
    ],
)
def test_tools_are_described_only_for_a_message_that_may_need_them(said: str, wanted: bool):
    asked = spoken(said, AT)
    answered = Message(Role.ASSISTANT, "Let me read the file.", AT)
    assert plain.are_wanted([asked, answered]) is wanted


def test_a_tools_result_may_lead_to_another_call():
    result = Message(Role.TOOL, "done", AT, tool_call_id="1", tool_name="weather")
    assert plain.are_wanted([spoken("Hello", AT), result])
    assert not plain.are_wanted([])


def test_a_prompt_without_tools_does_not_mention_them():
    assert plain.describe([]) == ""


@pytest.mark.parametrize(
    "text",
    [
        PARIS,
        f"  {PARIS}\n",
        f"```json\n{PARIS}\n```",
        f"```\n{PARIS}\n```",
        f"```json\n{PARIS}",
        PARIS[:-1],
        f"```json\n{PARIS[:-1]}\n```",
        PARIS.replace('weather"', 'weather(city)"'),
        f"<tool_call>\n{PARIS}\n</tool_call>",
        f"<tools>{PARIS}</tools>",
        '{"tool": "weather", "parameters": {"city": "Paris"}}',
        '{"function": "weather", "args": {"city": "Paris"}}',
        '{"name": "weather", "city": "Paris"}',
        '{"name": "weather", "arguments": "{\\"city\\": \\"Paris\\"}"}',
        '{"type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}',
    ],
)
def test_a_call_is_read_in_every_format_that_small_models_use(text: str):
    call = plain.read_call(text, NAMES, "c1")
    assert call is not None
    assert (call.id, call.name, json.loads(call.arguments)) == ("c1", "weather", {"city": "Paris"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "It is raining.",
        '{"name": "unknown", "arguments": {}}',
        '{"name": ["weather"], "arguments": {}}',
        '{"city": "Paris"}',
        f"Sure: {PARIS}",
        f"{PARIS} is what I would call.",
        f"{PARIS}\n{PARIS}",
        PARIS[:-2],
        "[" + PARIS + "]",
        "{" * 100_000,
        '{"name":' * 100_000 + "}",
    ],
)
def test_anything_else_stays_text(text: str):
    assert plain.read_call(text, NAMES, "c1") is None
    assert plain.Reader(NAMES).end("c1") == ""
    shown, rest = read(text)
    assert "".join(shown) + str(rest) == text


def test_line_breaks_inside_strings_are_accepted():
    call = plain.read_call('{"name": "write", "arguments": {"text": "a\nb"}}', NAMES, "c1")
    assert call is not None
    assert json.loads(call.arguments) == {"text": "a\nb"}


@pytest.mark.parametrize(
    "text",
    [
        "H",
        "The weather",
        "```python\n",
        "`x`",
        "{}",
        "{ not json",
        '{"city": "Paris"',
        "<b>",
        f"{PARIS} and",
    ],
)
def test_text_is_emitted_as_soon_as_it_cannot_be_a_call(text: str):
    shown, _ = read(text)
    assert shown == [text]


def test_a_call_is_held_back_however_it_is_chunked():
    for at in range(1, len(PARIS)):
        shown, end = read(PARIS[:at], PARIS[at:])
        assert shown == ["", ""], at
        assert isinstance(end, ToolCall), at


@given(st.text(alphabet='{}"`<>:, \nnametool_cjs/'), st.lists(st.integers(0, 60)))
def test_no_text_is_lost_however_the_answer_is_chunked(text: str, cuts: list[int]):
    edges = sorted({0, len(text), *(c for c in cuts if c < len(text))})
    shown, rest = read(*(text[a:b] for a, b in pairwise(edges)))
    assert isinstance(rest, ToolCall) or "".join(shown) + rest == text


def test_an_incomplete_call_is_shown_as_text():
    reader = plain.Reader(NAMES)
    assert reader.feed(PARIS) == ""
    assert reader.end("c1", whole=False) == PARIS


def test_without_tools_everything_is_text():
    reader = plain.Reader(frozenset())
    assert reader.feed(PARIS) == PARIS


def test_text_after_much_white_space_is_not_held_back():
    shown, _ = read("\n" * 100, "Hello")
    assert shown == ["", "\n" * 100 + "Hello"]


def test_a_long_call_is_read_in_linear_time():
    def read_call(lines: int) -> None:
        code = "if (x) { y } else { z }\n" * lines
        text = json.dumps({"name": "write", "arguments": {"text": code}})
        shown, end = read(*(text[i : i + 4] for i in range(0, len(text), 4)))
        assert not any(shown)
        assert isinstance(end, ToolCall)

    assert growth(read_call, 100) < 1.2


def test_a_call_in_the_history_is_written_as_the_model_would_write_it():
    call = ToolCall("c1", "weather", '{"city":"Zürich"}')
    assert plain.call_text(call) == '{"name": "weather", "arguments": {"city": "Zürich"}}'
    assert plain.read_call(plain.call_text(call), NAMES, "c1") is not None


def test_broken_arguments_in_the_history_are_unchanged():
    assert plain.call_text(ToolCall("c1", "weather", "{oops")) == (
        '{"name": "weather", "arguments": "{oops"}'
    )


def test_a_result_in_the_history_is_written_as_text():
    assert plain.result_text("weather", "rain") == "Result of weather:\nrain"
