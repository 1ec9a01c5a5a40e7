"""Use a tool as the agent loop does: from the JSON arguments that a model wrote."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.agent.tools.base import Plan, Tool, Workplace
from segue.core.transcript import ToolCall


def call(tool: Tool[Any], **arguments: object) -> ToolCall:
    return ToolCall("1", tool.name, msgspec.json.encode(arguments).decode())


def plan(tool: Tool[Any], place: Workplace, **arguments: object) -> Plan:
    planned = tool.plan(tool.parse(call(tool, **arguments)), place)
    assert isinstance(planned, Plan)
    return planned


async def use(tool: Tool[Any], place: Workplace, **arguments: object) -> str:
    return await plan(tool, place, **arguments).work()


def question(tool: Tool[Any], place: Workplace, **arguments: object) -> str:
    return str(plan(tool, place, **arguments).what)
