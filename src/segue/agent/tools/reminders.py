"""The tool for reminders, for models that are too small for the tools for jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from msgspec import Meta, Struct

from segue.agent.tools.base import Plan, Tool, Workplace
from segue.approvals.rules import Risk


class RemindArguments(Struct, frozen=True, forbid_unknown_fields=True):
    in_minutes: Annotated[float, Meta(description="So many minutes from now.", gt=0)]
    text: Annotated[str, Meta(description="What to say then.", min_length=1)]


def remind(plan: Callable[[RemindArguments, Workplace], Awaitable[Plan]]) -> Tool[RemindArguments]:
    """The tool that makes a reminder, as `plan` says."""
    return Tool(
        name="remind",
        description="Remind the person of something later.",
        risk=Risk.WRITE,
        arguments=RemindArguments,
        plan=plan,
    )
