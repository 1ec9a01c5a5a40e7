"""Choices on a platform without buttons: each has an emoji, and a user reacts with it.

A reaction names the message, so it answers one question exactly. What the message offered is in the
outbox, so a gateway that starts again understands it, too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from segue.approvals import questions
from segue.core.address import Address
from segue.platforms.base import Button
from segue.store import Store, Topic, outbox

EMOJI = ("👍", "❤️", "👎", "😮", "😂", "😢")
"""Those that phones offer first."""
SENT_SECONDS = 2.0
"""How long a reaction may be faster than the record that its message was sent."""
_POLL = 0.2
_VARIANT = re.compile("[\ufe0f\U0001f3fb-\U0001f3ff]")
"""The colour of a heart or a thumb."""


def offer(body: str, buttons: Sequence[Button]) -> str:
    """The message with an emoji for each choice."""
    emoji = _emoji([it.data for it in buttons])
    choices = [f"{emoji[it.data]} {it.label}" for it in buttons if it.data in emoji]
    return f"{body}\n\nReact: {' · '.join(choices)}" if choices else body


def _emoji(data: Sequence[str]) -> dict[str, str]:
    """The emoji of each choice. An answer to a question has the same in all questions: a user who
    reacts by habit must not allow what they deny elsewhere."""
    fixed = [questions.emoji(it) for it in data]
    if None in fixed:
        return dict(zip(data, EMOJI, strict=False))
    return {it: emoji for it, emoji in zip(data, fixed, strict=True) if emoji}


async def chosen(store: Store, address: Address, message: str, emoji: str) -> str | None:
    """The data of the button that the reaction stands for. None if it stands for none."""
    plain = _VARIANT.sub("", emoji)
    if plain not in {_VARIANT.sub("", it) for it in EMOJI}:
        return None
    deadline = asyncio.get_running_loop().time() + SENT_SECONDS
    async with store.listen(Topic.SENT) as wake:
        while True:
            # Asked first: what is sent after that is found.
            is_sending = await outbox.is_waiting(store, address)
            sent = await outbox.sent_as(store, address, message)
            if sent or not is_sending or asyncio.get_running_loop().time() > deadline:
                break
            await wake.wait(_POLL)
    if sent is None:
        return None
    offered = _emoji([data for _, data in sent.buttons])
    return next((data for data, it in offered.items() if _VARIANT.sub("", it) == plain), None)
