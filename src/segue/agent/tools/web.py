"""Fetching a web page."""

from __future__ import annotations

from typing import Annotated

import msgspec

from segue.agent.tools.base import Risk, Tool, Workplace, visible


class FetchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: Annotated[str, msgspec.Meta(description="http or https.", max_length=4000)]


async def _fetch(arguments: FetchArguments, place: Workplace) -> str:
    from segue.agent.tools import fetching  # noqa: PLC0415 - httpx2 takes a while

    return await fetching.fetch(arguments.url, place)


FETCH = Tool(
    name="fetch_page",
    description="Fetch a web page and read its text.",
    risk=Risk.READ,
    arguments=FetchArguments,
    work=_fetch,
    tell=lambda arguments, _: visible(f"fetch {arguments.url}"),
)
