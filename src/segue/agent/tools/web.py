"""The tool that fetches web pages, and the rule for which ones it fetches without asking.

A request can leak data that the agent has read, and that data may contain instructions to do so. So
a page is fetched without asking only if the request can leak nothing, or only to a host that the
user named. The transcript alone decides:

- its exact URL appears in one of the user's own messages; or
- its host does, and no tool other than fetch_page has added anything to the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from segue.agent.tools.base import Plan, Risk, Tool, Workplace
from segue.core.text import visible, visible_name
from segue.core.transcript import Kind, Message, Role

# Excludes everything that two URL parsers could read differently: user names, backslashes, and
# characters beyond ASCII.
_ADDRESS = re.compile(
    r"https?://(?:www\.)?([a-z0-9-]+(?:\.[a-z0-9-]+)*(?::[0-9]{1,5})?)([/?][!-\[\]-~]*)?",
    re.IGNORECASE,
)
_WRITTEN = re.compile(r"(?<![\w@/.-])(?:https?://|www\.)[^\s<>\"'`]+", re.IGNORECASE)
_AFTER = ".,;:!?)]}*_"
_OTHERS = (">", "[")
"""Prefixes of lines that other people wrote (quotes) or that the gateway added."""


class FetchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(description="http or https.", max_length=4000)]


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


def fetchable(messages: Sequence[Message], written: str = "") -> Callable[[str], bool]:
    """Return a predicate: may this URL be fetched without asking, given `messages`, and what the
    user has `written` outside of them?"""
    texts = [written, *(message.content for message in messages if _is_said(message))]
    named = {address for text in texts for address in _named(text)}
    hosts = {host for host, _ in named} if _only_pages(messages) else set[str]()

    def may_fetch(url: str) -> bool:
        address = _parsed(url)
        return address is not None and (address in named or address[0] in hosts)

    return may_fetch


def _only_pages(messages: Sequence[Message]) -> bool:
    """True if the model has seen only the user's messages, its own and fetched pages. A summary, or
    a start that was cut off, may stand for anything."""
    if messages and messages[0].seq > 1:
        return False
    return not any(
        message.kind is Kind.SUMMARY
        or (message.role is Role.TOOL and message.tool_name != FETCH.name)
        for message in messages
    )


def _is_said(message: Message) -> bool:
    return message.role is Role.USER and message.kind is Kind.SAID


def _named(text: str) -> Iterator[tuple[str, str]]:
    """The addresses in what the user wrote."""
    for line in text.splitlines():
        if line.lstrip().startswith(_OTHERS):
            continue
        for written in _WRITTEN.findall(line):
            for url in (written, written.rstrip(_AFTER)):
                if address := _parsed(url if "://" in url else f"https://{url}"):
                    yield address


def _parsed(url: str) -> tuple[str, str] | None:
    """The host (with port) and the rest of `url`, or None if it cannot be compared safely."""
    found = _ADDRESS.fullmatch(url.partition("#")[0])
    return found and (found[1].lower(), f"/{(found[2] or '').removeprefix('/')}")
