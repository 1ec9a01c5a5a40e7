"""The part of a session from before it came to the page, readable from the start."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from datetime import datetime

from segue.core.address import Address
from segue.core.session import Origin
from segue.core.text import one_line
from segue.core.transcript import Kind, Message, Role, Transcript, words
from segue.store import Store
from segue.web import render
from segue.web.frames import Line, Tool

_PAGE = 40
"""Messages per page of history."""
_TOOL_LENGTH = 200
_OUTPUT_LENGTH = 4000


async def lines(
    store: Store, address: Address, before: int | None
) -> tuple[tuple[Line, ...], bool]:
    """The last lines from before the session came here, or before the message `before`, and whether
    there are more."""
    binding = await store.bindings.get(address)
    if binding is None or binding.origin is Origin.MESSAGE:
        return (), False
    transcript = await store.transcripts.load(binding.session_id)
    earlier = list(_before_arrival(transcript, binding.bound))
    if before is not None:
        earlier = [message for message in earlier if message.seq < before]
    # In a thread, because long texts take time to render.
    last = await asyncio.to_thread(lambda: tuple(_lines(earlier[-_PAGE:])))
    return last, len(earlier) > _PAGE


def _before_arrival(transcript: Transcript, bound: datetime) -> Iterator[Message]:
    """The messages from before the session was bound here. The handoff's own turn is left out: its
    answer is shown as a message of this conversation."""
    arrived = [m for m in transcript if m.at <= bound]
    prompts = [i for i, m in enumerate(arrived) if m.kind is Kind.SYNTHETIC and m.role is Role.USER]
    end = len(arrived)
    if prompts and all(m.role is not Role.USER for m in arrived[prompts[-1] + 1 :]):
        end = prompts[-1]
    return (m for m in arrived[:end] if m.kind is Kind.SAID)


def _lines(messages: Iterable[Message]) -> Iterator[Line]:
    for message in messages:
        yield Line(
            seq=message.seq,
            role=message.role.value,
            html=_html(message),
            at=message.at,
            tools=tuple(
                Tool(call.name, one_line(call.arguments, _TOOL_LENGTH))
                for call in message.tool_calls
            ),
        )


def _html(message: Message) -> str:
    match message.role:
        case Role.ASSISTANT:
            return render.html(message.content)
        case Role.TOOL:
            return render.plain(words(message)[:_OUTPUT_LENGTH])
        case _:
            return render.plain(words(message))
