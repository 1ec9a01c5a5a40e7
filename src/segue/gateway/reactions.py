"""Choices on a platform without buttons: each has an emoji, and a user reacts with it.

A reaction names the message, so it answers one question exactly. What the message offered is in the
outbox, so a gateway that starts again understands it, too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from segue.core.address import Address
from segue.platforms.base import Button
from segue.store import Store, Topic

EMOJI = ("👍", "❤️", "👎", "😮", "😂", "😢")
"""Those that phones offer first."""
SENT_SECONDS = 2.0
"""How long a reaction may be faster than the record that its message was sent."""
_POLL = 0.2
_VARIANT = re.compile("[\ufe0f\U0001f3fb-\U0001f3ff]")
"""The colour of a heart or a thumb."""


def offer(body: str, buttons: Sequence[Button]) -> str:
    """The message with an emoji for each choice."""
    choices = [f"{emoji} {it.label}" for emoji, it in zip(EMOJI, buttons, strict=False)]
    return f"{body}\n\nReact: {' · '.join(choices)}" if choices else body


async def chosen(store: Store, address: Address, message: str, emoji: str) -> str | None:
    """The data of the button that the reaction stands for. None if it stands for none."""
    plain = _VARIANT.sub("", emoji)
    place = next((n for n, it in enumerate(EMOJI) if _VARIANT.sub("", it) == plain), None)
    if place is None:
        return None
    deadline = asyncio.get_running_loop().time() + SENT_SECONDS
    async with store.listen(Topic.SENT) as wake:
        while True:
            # Asked first: what is sent after that is found.
            is_sending = await store.outbox.waiting(address)
            sent = await store.outbox.sent_as(address, message)
            if sent or not is_sending or asyncio.get_running_loop().time() > deadline:
                break
            await wake.wait(_POLL)
    return sent.buttons[place][1] if sent and place < len(sent.buttons) else None
