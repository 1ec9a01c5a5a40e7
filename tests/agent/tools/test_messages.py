"""Sending messages and files to another channel."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.agent.tools.base import Risk, ToolFailed, Workplace
from segue.agent.tools.messages import TEXT_LIMIT, SentFile, send_file, send_message
from segue.core.address import Platform
from segue.core.context import Delivery
from segue.core.errors import NoHomeChannel
from tests.agent.tools.calls import question, use

PLACE = Workplace(cwd=Path("/"))


class Post:
    """Records what is sent; has no home channel on Slack."""

    def __init__(self) -> None:
        self.sent: list[tuple[Delivery, str, SentFile | None]] = []

    async def send(self, to: Delivery, text: str, file: SentFile | None) -> str:
        if to == Delivery(platform=Platform.SLACK):
            raise NoHomeChannel(platform=to.platform)
        self.sent.append((to, text, file))
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


def test_sending_needs_approval():
    assert send_message(Post().send).risk is Risk.SEND


@pytest.mark.parametrize(("to", "delivery", "place"), PLACES, ids=[place[0] for place in PLACES])
async def test_a_text_is_sent_unchanged_to_the_channel_that_was_shown(
    to: str, delivery: Delivery, place: str
):
    post = Post()
    tool = send_message(post.send)
    text = " Dinner is ready.\nCome! "
    assert question(tool, PLACE, to=to, text=text) == f"send to {place}:\n{text}"
    assert await use(tool, PLACE, to=to, text=text) == f"Sent to {delivery}."
    assert post.sent == [(delivery, text, None)]


@pytest.mark.parametrize("to", ["my wife", "fax", "telegram:", "local:7", "telegram:4\u202e2"])
async def test_an_unknown_channel_is_refused_with_the_existing_ones(to: str):
    post = Post()
    with pytest.raises(ToolFailed, match="Use origin, local, the name of a platform"):
        question(send_message(post.send), PLACE, to=to, text="hello")
    with pytest.raises(ToolFailed, match="Use origin, local, the name of a platform"):
        await use(send_message(post.send), PLACE, to=to, text="hello")
    assert post.sent == []


@pytest.mark.parametrize("text", ["", " \n", "\u200b", "x" * (TEXT_LIMIT + 1)], ids=len)
async def test_empty_and_too_long_texts_are_refused(text: str):
    post = Post()
    with pytest.raises(ToolFailed, match=r"length|nothing to see"):
        question(send_message(post.send), PLACE, to="origin", text=text)
    with pytest.raises(ToolFailed, match=r"length|nothing to see"):
        await use(send_message(post.send), PLACE, to="origin", text=text)
    assert post.sent == []


async def test_the_model_gets_the_reason_for_a_failed_send():
    with pytest.raises(ToolFailed, match="No home channel on slack yet"):
        await use(send_message(Post().send), PLACE, to="slack", text="hello")


# Files


async def test_a_file_is_sent_to_the_channel_that_was_shown(tmp_path: Path):
    post, place = Post(), Workplace(cwd=tmp_path)
    (tmp_path / "boat.png").write_bytes(b"png")
    tool = send_file(post.send)
    assert tool.risk is Risk.SEND
    given = {"path": "boat.png", "caption": "Ours."}
    path = tmp_path / "boat.png"
    where = "origin, where this conversation takes place"
    assert question(tool, place, **given) == f"send {path} to {where}\nOurs."
    assert await use(tool, place, **given) == "Sent to origin."
    assert post.sent == [(Delivery(), "Ours.", SentFile(path, b"png"))]


async def test_the_user_is_shown_which_file_a_link_leads_to(tmp_path: Path):
    (tmp_path / "secret.txt").write_text("42")
    (tmp_path / "harmless.txt").symlink_to("secret.txt")
    asked = question(send_file(Post().send), Workplace(cwd=tmp_path), path="harmless.txt")
    assert asked.startswith(f"send {tmp_path / 'secret.txt'} to ")


async def test_a_path_that_is_not_a_file_is_refused(tmp_path: Path):
    post, place = Post(), Workplace(cwd=tmp_path)
    for path in ("gone.txt", "."):
        with pytest.raises(ToolFailed, match="There is no file"):
            await use(send_file(post.send), place, path=path)
    assert post.sent == []
