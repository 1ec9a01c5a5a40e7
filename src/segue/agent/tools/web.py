"""The tool that fetches web pages, and the rule for which ones it fetches without asking.

A request can leak data that the agent has read, and that data may contain instructions to do so. So
a page is fetched without asking only if the request can leak nothing, or only to a host that the
user named. The transcript alone decides:

- its exact URL appears in words that the owner wrote; or
- its host does, and the agent has read nothing from outside but web pages: no output of another
  tool, no file, no command, no other person's words, nor anything that repeats them, such as a
  summary or a report. The provenance of each message says that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Annotated

from msgspec import Meta, Struct

from segue.agent.tools.base import Proposal, Tool, Workplace
from segue.approvals.rules import Risk
from segue.core import provenance
from segue.core.approval import Description
from segue.core.provenance import Author, Provenance
from segue.core.text import visible_name
from segue.core.transcript import Kind, Message, Role, Transcript

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


def _propose(arguments: FetchArguments, place: Workplace) -> Proposal:
    async def work() -> str:
        from segue.agent.tools import fetch  # noqa: PLC0415 - httpx2 takes a while

        return await fetch.fetch(arguments.url, place)

    asks = not place.may_fetch(arguments.url)
    what = Description(f"fetch {visible_name(arguments.url)}", _ASKED if asks else "")
    return Proposal(what=what, work=work, asks=asks)


FETCH = Tool(
    name="fetch_page",
    description="Fetch a web page and read its text.",
    risk=Risk.READ,
    arguments=FetchArguments,
    propose=_propose,
    author=Author.PAGE,
)


def fetchable(
    transcript: Transcript, background: Provenance = provenance.NOTHING, written: str = ""
) -> Callable[[str], bool]:
    """Return a predicate: may this URL be fetched without asking, given the transcript, and what
    the owner has `written` outside of it? `background` are the authors of the system prompt."""
    texts = [written, *(message.content for message in transcript if _is_owners(message))]
    named = {address for text in texts for address in _named(text)}
    is_private = provenance.is_private(transcript.provenance | background)
    hosts = set[str]() if is_private else {host for host, _ in named}

    def may_fetch(url: str) -> bool:
        address = _parsed(url)
        return address is not None and (address in named or address[0] in hosts)

    return may_fetch


def _is_owners(message: Message) -> bool:
    """True if the owner sent the message. Each line of others in it is marked (`_OTHERS`)."""
    is_said = message.role is Role.USER and message.kind is Kind.SAID
    return is_said and Author.OWNER in message.provenance


def _named(text: str) -> Iterator[tuple[str, str]]:
    """The addresses in what the owner wrote."""
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
