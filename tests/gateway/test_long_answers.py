"""Answers that are long, while they are written and when they are sent: the event loop serves the
other chats meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

import pytest

from segue.agent.models.base import End, Piece, Prompt, Stop, Text
from segue.agent.models.scripted import ScriptedModel
from segue.core.address import Address
from segue.core.errors import DeliveryFailed
from segue.core.session import Usage
from segue.gateway import streaming, writer
from segue.platforms import markup
from segue.platforms.base import Button, Capabilities, Part, Receipt
from segue.testing.platform import PeerAdapter, Rules
from tests.harness.cases import brief
from tests.harness.house import WITHIN, House
from tests.harness.loop_holds import MOST_CALLS, loop_holds

TABLE = "| a | b |\n|--|--|\n" + "| a | b |\n" * 4_000
CODE = "```python\n" + "x = function(1)  # why\n" * 2_000
LINE = "word " * 8_000
AT_ONCE = 2_000
"""Characters that are rendered on the event loop."""


class Streaming(ScriptedModel):
    """Streams one answer in small pieces, and leaves time for the display between them."""

    def __init__(self, answer: str, size: int = 400) -> None:
        super().__init__()
        self._answer = answer
        self._size = size

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        for start in range(0, len(self._answer), self._size):
            yield Text(self._answer[start : start + self._size])
            await asyncio.sleep(0.002)
        yield End(stop=Stop.DONE, usage=Usage())


@dataclass
class Renderings:
    """The lengths of the texts that were rendered."""

    on_loop: list[int] = field(default_factory=list[int])
    beside: list[int] = field(default_factory=list[int])


@pytest.fixture
def renderings(monkeypatch: pytest.MonkeyPatch) -> Renderings:
    found, parts, loop = Renderings(), markup.parts, threading.current_thread()

    def counted(markdown: str, capabilities: Capabilities, *, buttons: bool = False) -> list[Part]:
        is_loop = threading.current_thread() is loop
        (found.on_loop if is_loop else found.beside).append(len(markdown))
        return parts(markdown, capabilities, buttons=buttons)

    monkeypatch.setattr(markup, "parts", counted)
    return found


@pytest.mark.parametrize("previews", [True, False], ids=["preview", "bubble"])
@pytest.mark.parametrize(
    "answer", brief([TABLE, CODE, LINE], [TABLE]), ids=["table", "code", "line"]
)
async def test_a_redraw_of_a_long_answer_costs_the_same_however_long_it_is(
    house: House,
    renderings: Renderings,
    monkeypatch: pytest.MonkeyPatch,
    previews: bool,
    answer: str,
):
    monkeypatch.setattr(streaming, "TYPING_DELAY", 0.0)
    monkeypatch.setattr(streaming, "BUBBLE_DELAY", 0.0)
    await house.driver.rules(Rules(previews=previews))
    chat = await house.chat()
    async with house.gateway(model=Streaming(answer)):
        await house.driver.say(house.anna, chat, "much")
        await house.driver.until(lambda shown: len(shown.messages) > 2, chat=chat, within=WITHIN)
        await house.idle()
    assert max(renderings.on_loop, default=0) <= AT_ONCE
    *redraws, whole = sorted(renderings.beside)
    assert whole >= len(answer.rstrip())
    assert redraws
    assert redraws[-1] < 20_000


async def test_a_display_that_is_refused_is_not_tried_again_in_the_same_turn(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    """In a group, others may get what the owner does not."""
    monkeypatch.setattr(streaming, "TYPING_DELAY", 0.0)
    monkeypatch.setattr(streaming, "BUBBLE_DELAY", 0.0)
    refused: list[str] = []

    class Refusing(PeerAdapter):
        async def send(
            self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
        ) -> Receipt:
            if key.startswith("bubble:"):
                refused.append(key)
                raise DeliveryFailed(platform=to.platform, reason="the owner did not get it")
            return await super().send(to, part, key=key, buttons=buttons)

    await house.driver.rules(Rules(edits=True, edit_seconds=0.01))
    chat = await house.chat()
    async with house.gateway(model=Streaming("word " * 300, 5), speaks=Refusing):
        await house.driver.say(house.anna, chat, "much")
        await house.driver.until(lambda shown: len(shown.messages) > 1, chat=chat, within=WITHIN)
    assert len(refused) == 1


LONG = {
    "a table of 208 KB": TABLE[:18] + "| a | b |\n" * 20_800,
    "a line of 1 MB": "word " * 200_000,
    "code of 1 MB": "```python\n" + "x = function(1)  # why\n" * 43_000,
    "deep nesting": "> " * 50_000 + "deep",
}


@pytest.mark.parametrize("name", brief(LONG, ["a table of 208 KB", "deep nesting"]))
async def test_no_callback_holds_the_loop_while_a_long_answer_is_written_and_sent(
    house: House, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setattr(streaming, "TYPING_DELAY", 0.0)
    monkeypatch.setattr(streaming, "BUBBLE_DELAY", 0.0)
    await house.driver.rules(Rules(previews=True, edit_seconds=0.05, length=50_000))
    chat = await house.chat()
    await writer.warm_up()
    with loop_holds(monkeypatch) as holds:
        async with house.gateway(model=Streaming(LONG[name], 10_000)):
            await house.driver.say(house.anna, chat, "much")
            await house.driver.until(
                lambda shown: len(shown.messages) > 2, chat=chat, within=WITHIN
            )
    assert holds.longest[0][0] < MOST_CALLS, holds.longest
