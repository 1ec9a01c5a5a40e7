"""Sending a message to somewhere else than the conversation itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.agent.tools.base import Risk, ToolFailed, Workplace
from segue.agent.tools.sending import TEXT_LIMIT, send_message
from segue.core.address import Platform
from segue.core.context import Delivery
from segue.core.errors import NoHomeChannel
from tests.agent.tools.using import told, use

PLACE = Workplace(cwd=Path("/"))


class Post:
    """Takes what is to be sent; has no home channel on Slack."""

    def __init__(self) -> None:
        self.sent: list[tuple[Delivery, str]] = []

    async def send(self, to: Delivery, text: str) -> str:
        if to == Delivery(platform=Platform.SLACK):
            raise NoHomeChannel(platform=to.platform)
        self.sent.append((to, text))
        return f"Sent to {to}."


PLACES = [
    ("origin", Delivery(), "origin, where this conversation takes place"),
    (" Local ", Delivery(platform=Platform.LOCAL), "local, this machine"),
    ("TELEGRAM", Delivery(platform=Platform.TELEGRAM), "telegram, your home channel there"),
    (
        "matrix:!room:example.org",
        Delivery(platform=Platform.MATRIX, chat_id="!room:example.org"),
        "matrix:!room:example.org",
    ),
]


def test_what_leaves_the_machine_is_asked_about():
    assert send_message(Post().send).risk is Risk.SEND


@pytest.mark.parametrize(("to", "delivery", "place"), PLACES, ids=[place[0] for place in PLACES])
async def test_a_text_is_sent_as_it_is_to_where_the_person_was_told(
    to: str, delivery: Delivery, place: str
):
    post = Post()
    tool = send_message(post.send)
    text = " Dinner is ready.\nCome! "
    assert told(tool, PLACE, to=to, text=text) == f"send to {place}:\n{text}"
    assert await use(tool, PLACE, to=to, text=text) == f"Sent to {delivery}."
    assert post.sent == [(delivery, text)]


@pytest.mark.parametrize("to", ["my wife", "fax", "telegram:", "local:7", "telegram:4\u202e2"])
async def test_a_place_that_is_none_is_answered_with_those_that_are(to: str):
    post = Post()
    with pytest.raises(ToolFailed, match="Use origin, local, the name of a platform"):
        told(send_message(post.send), PLACE, to=to, text="hello")
    with pytest.raises(ToolFailed, match="Use origin, local, the name of a platform"):
        await use(send_message(post.send), PLACE, to=to, text="hello")
    assert post.sent == []


@pytest.mark.parametrize("text", ["", " \n", "\u200b", "x" * (TEXT_LIMIT + 1)], ids=len)
async def test_nothing_and_too_much_are_not_sent(text: str):
    post = Post()
    with pytest.raises(ToolFailed, match=r"length|nothing to see"):
        told(send_message(post.send), PLACE, to="origin", text=text)
    with pytest.raises(ToolFailed, match=r"length|nothing to see"):
        await use(send_message(post.send), PLACE, to="origin", text=text)
    assert post.sent == []


async def test_why_it_could_not_be_sent_is_told_to_the_model():
    with pytest.raises(ToolFailed, match="no home channel on slack yet"):
        await use(send_message(Post().send), PLACE, to="slack", text="hello")
