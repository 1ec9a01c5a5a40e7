"""Using a tool as the loop does: from the JSON that a model wrote."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.agent.tools.base import Tool, Workplace
from segue.core.transcript import ToolCall


def call(tool: Tool[Any], **arguments: object) -> ToolCall:
    return ToolCall("1", tool.name, msgspec.json.encode(arguments).decode())


async def use(tool: Tool[Any], place: Workplace, **arguments: object) -> str:
    return await tool.work(tool.parse(call(tool, **arguments)), place)


def told(tool: Tool[Any], place: Workplace, **arguments: object) -> str:
    return tool.tell(tool.parse(call(tool, **arguments)), place)
