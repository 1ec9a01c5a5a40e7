"""The tool that fetches web pages."""

from __future__ import annotations

from typing import Annotated

import msgspec

from segue.agent.tools.base import Plan, Risk, Tool, Workplace, visible, visible_name


class FetchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: Annotated[str, msgspec.Meta(description="http or https.", max_length=4000)]


_ASKED = "This address is not one of yours, so it may carry what the agent has read."


def _plan(arguments: FetchArguments, place: Workplace) -> Plan:
    async def work() -> str:
        from segue.agent.tools import fetch  # noqa: PLC0415 - httpx2 takes a while

        return await fetch.fetch(arguments.url, place)

    asks = not place.may_fetch(arguments.url)
    asked = f"\n{_ASKED}" if asks else ""
    return Plan(what=visible(f"fetch {visible_name(arguments.url)}{asked}"), work=work, asks=asks)


FETCH = Tool(
    name="fetch_page",
    description="Fetch a web page and read its text.",
    risk=Risk.READ,
    arguments=FetchArguments,
    plan=_plan,
)
