"""The tools for jobs."""

from __future__ import annotations

from msgspec import Struct

from segue.agent.tools.base import Plan, Risk, Tool, Workplace


class NothingArguments(Struct, frozen=True, forbid_unknown_fields=True):
    pass


async def _nothing() -> str:
    return "Nothing will be delivered. End your turn now."


def _plan(_: NothingArguments, __: Workplace) -> Plan:
    return Plan(what="report nothing", work=_nothing)


NOTHING_TO_REPORT: Tool[NothingArguments] = Tool(
    name="nothing_to_report",
    description=(
        "Say that this run has nothing to report, so that nothing is delivered. Otherwise your"
        " last message is delivered."
    ),
    risk=Risk.READ,
    arguments=NothingArguments,
    plan=_plan,
)
