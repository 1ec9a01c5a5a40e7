"""Decides which pages the agent may fetch without asking, based on the transcript alone.

A request can leak data that the agent has read, and that data may contain instructions to do so. So
a page is fetched without asking only if the request can leak nothing, or only to a host that the
user named:

- its exact URL appears in one of the user's own messages; or
- its host does, and no tool other than fetch_page has added anything to the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from segue.core.transcript import Kind, Message, Role

FETCH = "fetch_page"

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


def fetchable(messages: Sequence[Message]) -> Callable[[str], bool]:
    """Return a predicate: may this URL be fetched without asking, given `messages`?"""
    named = {address for message in messages for address in _named(message)}
    hosts = {host for host, _ in named} if _only_pages(messages) else set[str]()

    def may_fetch(url: str) -> bool:
        address = _parsed(url)
        return address is not None and (address in named or address[0] in hosts)

    return may_fetch


def _only_pages(messages: Sequence[Message]) -> bool:
    """True if the model has seen only the user's messages, its own messages and fetched pages.

    A summary, or a start that was cut off, may stand for anything.
    """
    if messages and messages[0].seq > 1:
        return False
    return not any(
        message.kind is Kind.SUMMARY or (message.role is Role.TOOL and message.tool_name != FETCH)
        for message in messages
    )


def _named(message: Message) -> Iterator[tuple[str, str]]:
    """The addresses that the user wrote in `message`."""
    if message.role is not Role.USER or message.kind is not Kind.SAID:
        return
    for line in message.content.splitlines():
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
