"""The tools for jobs that a turn gets, and the only one for models that are too small for the rest.

Schedules are slow to import, and most turns have none: what needs them is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import tzinfo
from typing import Annotated, Any

from msgspec import Meta, Struct

from segue.agent.tools.base import Proposal, Tool, Workplace
from segue.approvals.rules import Risk
from segue.store import Store
from segue.turns.brain import Assignment


class RemindArguments(Struct, frozen=True, forbid_unknown_fields=True):
    in_minutes: Annotated[float, Meta(description="So many minutes from now.", gt=0)]
    text: Annotated[str, Meta(description="What to say then.", min_length=1)]


def tools(
    store: Store, assignment: Assignment, zone: tzinfo, *, small: bool
) -> Sequence[Tool[Any]]:
    """The tools for the jobs of the session's owner, whose zone it is. A small model only gets one
    to remind, and in the run of a job what the others have."""

    async def propose(given: RemindArguments, workplace: Workplace) -> Proposal:
        from segue.jobs.tools import reminder  # noqa: PLC0415

        return await reminder(store, assignment, zone, given, workplace)

    if small and assignment.unattended is None:
        return [remind(propose)]
    from segue.jobs.tools import offered  # noqa: PLC0415

    return offered(store, assignment, zone)


def remind(
    propose: Callable[[RemindArguments, Workplace], Awaitable[Proposal]],
) -> Tool[RemindArguments]:
    """The tool that makes a reminder, as `propose` says."""
    return Tool(
        name="remind",
        description="Remind the person of something later.",
        risk=Risk.WRITE,
        arguments=RemindArguments,
        propose=propose,
    )
