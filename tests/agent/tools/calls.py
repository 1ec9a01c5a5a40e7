"""Use a tool as the agent loop does: from the JSON arguments that a model wrote."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.agent.tools.base import Proposal, Tool, Workplace
from segue.core.transcript import ToolCall


def call(tool: Tool[Any], **arguments: object) -> ToolCall:
    return ToolCall("1", tool.name, msgspec.json.encode(arguments).decode())


def propose(tool: Tool[Any], place: Workplace, **arguments: object) -> Proposal:
    proposed = tool.propose(tool.parse(call(tool, **arguments)), place)
    assert isinstance(proposed, Proposal)
    return proposed


async def use(tool: Tool[Any], place: Workplace, **arguments: object) -> str:
    return await propose(tool, place, **arguments).work()


def question(tool: Tool[Any], place: Workplace, **arguments: object) -> str:
    return str(propose(tool, place, **arguments).what)
