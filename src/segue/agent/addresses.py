"""Which pages may be fetched without asking. The transcript alone decides.

A request can carry what the agent has read, and what it reads may ask it to send such a request. So
a page is fetched unasked only when the request cannot carry anything out, or only to a host that
the person named:

- its address stands in one of the person's own messages, word for word; or
- its host does, and no tool but this one has brought anything into the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from segue.core.transcript import Kind, Message, Role

FETCH = "fetch_page"

# Nothing that two readers of URLs could understand in different ways: no user, no backslash, no
# letters beyond ASCII.
_ADDRESS = re.compile(
    r"https?://(?:www\.)?([a-z0-9-]+(?:\.[a-z0-9-]+)*(?::[0-9]{1,5})?)([/?][!-\[\]-~]*)?",
    re.IGNORECASE,
)
_WRITTEN = re.compile(r"(?<![\w@/.-])(?:https?://|www\.)[^\s<>\"'`]+", re.IGNORECASE)
_AFTER = ".,;:!?)]}*_"
_OTHERS = (">", "[")
"""Begin the lines of a message that others wrote, or that the gateway added."""


def fetchable(messages: Sequence[Message]) -> Callable[[str], bool]:
    """Whether a URL may be fetched without asking, after `messages`."""
    named = {address for message in messages for address in _named(message)}
    hosts = {host for host, _ in named} if _only_pages(messages) else set[str]()

    def may_fetch(url: str) -> bool:
        address = _parsed(url)
        return address is not None and (address in named or address[0] in hosts)

    return may_fetch


def _only_pages(messages: Sequence[Message]) -> bool:
    """Whether the model has seen the person's words, its own and pages, and nothing else. What is
    no longer shown word for word may have been anything."""
    if messages and messages[0].seq > 1:
        return False
    return not any(
        message.kind is Kind.SUMMARY or (message.role is Role.TOOL and message.tool_name != FETCH)
        for message in messages
    )


def _named(message: Message) -> Iterator[tuple[str, str]]:
    """The addresses that the person wrote in it."""
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
    """The host, with its port, and the rest of an address; None for one that cannot be compared."""
    found = _ADDRESS.fullmatch(url.partition("#")[0])
    return found and (found[1].lower(), f"/{(found[2] or '').removeprefix('/')}")
