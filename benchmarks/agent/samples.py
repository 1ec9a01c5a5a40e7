"""Histories, models and tools for the benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path

import msgspec

from segue.agent.loop import Agent
from segue.agent.models.base import Model
from segue.agent.tools.base import Proposal, Tool, Workplace
from segue.approvals.rules import Risk, Rules
from segue.core.approval import Answer, Description
from segue.core.transcript import Message, Role, ToolCall

LENGTHS = (10, 1_000, 5_000)
AT = datetime(2026, 11, 1, tzinfo=UTC)
_CALL = ToolCall("call_0", "look", '{"at": "everything"}')
_EXCHANGE = (
    Message(Role.USER, "Please look at everything once more, and tell me.", AT, tokens=12),
    Message(Role.ASSISTANT, "I look.", AT, tool_calls=(_CALL,), tokens=9),
    Message(Role.TOOL, "There it is. " * 8, AT, tool_call_id="call_0", tool_name="look", tokens=26),
    Message(Role.ASSISTANT, "It is all as it was, as far as I can see.", AT, tokens=12),
)


def history(length: int) -> list[Message]:
    """`length` messages, followed by a question."""
    return [*islice(cycle(_EXCHANGE), length // 4 * 4), _EXCHANGE[0]]


class _Nothing(msgspec.Struct, frozen=True):
    pass


async def _look() -> str:
    return "There it is."


async def _yes(call: ToolCall, what: Description, fingerprint: str) -> Answer:
    return Answer.ONCE


LOOK = Tool(
    name="look",
    description="Look at everything.",
    risk=Risk.READ,
    arguments=_Nothing,
    propose=lambda arguments, place: Proposal(what=Description("look"), work=_look),
)


def agent(model: Model, tools: Sequence[Tool[_Nothing]] = (LOOK,)) -> Agent:
    return Agent(
        model=model,
        system="Be brief.",
        place=Workplace(cwd=Path("/")),
        tools={tool.name: tool for tool in tools},
        rules=Rules(),
        approve=_yes,
    )


def model(wire: str, url: str) -> Model:
    match wire:
        case "anthropic":
            from segue.agent.models.anthropic import AnthropicModel  # noqa: PLC0415

            return AnthropicModel(
                name="anthropic/x", model="x", base_url=url, key="k", setting="KEY", context=200_000
            )
        case "gemini":
            from segue.agent.models.gemini import GeminiModel  # noqa: PLC0415

            return GeminiModel(
                name="gemini/x", model="x", base_url=url, key="k", setting="KEY", context=200_000
            )
        case _:
            from segue.agent.models.openai import OpenAIModel  # noqa: PLC0415

            return OpenAIModel(
                name="openai/x", model="x", base_url=url, key="k", setting="KEY", context=200_000
            )
