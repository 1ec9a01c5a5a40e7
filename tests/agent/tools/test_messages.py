"""Sending messages and files to another channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from segue.agent.tools.base import Proposal, Tool, ToolFailed, Workplace
from segue.agent.tools.messages import TEXT_LIMIT, SentFile, send_file, send_message
from segue.approvals.rules import Risk
from segue.core.address import Address, ChatType, Delivery, Platform
from segue.core.errors import no_home_channel
from tests.agent.tools.calls import call

PLACE = Workplace(cwd=Path("/"))


HERE = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="42")
GROUP = Address(platform=Platform.TELEGRAM, chat_type=ChatType.GROUP, chat_id="-7")
HOME = Address(platform=Platform.DISCORD, chat_type=ChatType.DM, chat_id="9")
ROOM = Address(platform=Platform.MATRIX, chat_type=ChatType.GROUP, chat_id="!room:example.org")


class Post:
    """Records what is sent; has no home channel on Slack."""

    def __init__(self, here: Address = HERE) -> None:
        self.here = here
        self.sent: list[tuple[Address, str, SentFile | None]] = []

    async def find(self, to: Delivery) -> Address:
        places = {
            Delivery(): self.here,
            Delivery(platform=Platform.DISCORD): HOME,
            Delivery(platform=Platform.MATRIX, chat_id=ROOM.chat_id): ROOM,
        }
        if to not in places:
            raise no_home_channel(to.platform)
        return places[to]

    def refusal(self, to: Address, name: str, size: int) -> str:
        return f"{name} has {size} bytes" if to == HOME else ""

    async def send(self, to: Address, text: str, file: SentFile | None) -> str:
        self.sent.append((to, text, file))
        return f"Sent to {to}."


async def propose(tool: Tool[Any], place: Workplace, **arguments: object) -> Proposal:
    return await tool.prepare(call(tool, **arguments), place)


async def question(tool: Tool[Any], place: Workplace, **arguments: object) -> str:
    return str((await propose(tool, place, **arguments)).what)


async def use(tool: Tool[Any], place: Workplace, **arguments: object) -> str:
    return await (await propose(tool, place, **arguments)).work()


PLACES = [
    ("origin", HERE, "telegram dm 42, where this conversation takes place"),
    ("DISCORD", HOME, "discord dm 9, your home channel there"),
    ("matrix:!room:example.org", ROOM, "matrix group !room:example.org"),
]


def test_sending_needs_approval():
    assert send_message(Post()).risk is Risk.SEND


@pytest.mark.parametrize(("to", "address", "place"), PLACES, ids=[place[0] for place in PLACES])
async def test_a_text_is_sent_unchanged_to_the_channel_that_was_shown(
    to: str, address: Address, place: str
):
    post = Post()
    tool = send_message(post)
    text = " Dinner is ready.\nCome! "
    assert await question(tool, PLACE, to=to, text=text) == f"send to {place}:\n{text}"
    assert await use(tool, PLACE, to=to, text=text) == f"Sent to {address}."
    assert post.sent == [(address, text, None)]


@pytest.mark.parametrize("to", ["my wife", "fax", "telegram:", "local:7", "telegram:4\u202e2"])
async def test_an_unknown_channel_is_refused_with_the_existing_ones(to: str):
    post = Post()
    with pytest.raises(ToolFailed, match="Use origin, local, the name of a platform"):
        await question(send_message(post), PLACE, to=to, text="hello")
    with pytest.raises(ToolFailed, match="Use origin, local, the name of a platform"):
        await use(send_message(post), PLACE, to=to, text="hello")
    assert post.sent == []


@pytest.mark.parametrize("text", ["", " \n", "\u200b", "x" * (TEXT_LIMIT + 1)], ids=len)
async def test_empty_and_too_long_texts_are_refused(text: str):
    post = Post()
    with pytest.raises(ToolFailed, match=r"length|nothing to see"):
        await question(send_message(post), PLACE, to="origin", text=text)
    with pytest.raises(ToolFailed, match=r"length|nothing to see"):
        await use(send_message(post), PLACE, to="origin", text=text)
    assert post.sent == []


async def test_the_model_gets_the_reason_for_a_failed_send():
    with pytest.raises(ToolFailed, match="No home channel on slack yet"):
        await use(send_message(Post()), PLACE, to="slack", text="hello")


async def test_an_approval_is_for_the_place_that_origin_means_now(tmp_path: Path):
    (tmp_path / "a.txt").write_text("a")
    place = Workplace(cwd=tmp_path)
    for make, given in (
        (send_message, {"to": "origin", "text": "hello"}),
        (send_file, {"to": "origin", "path": "a.txt"}),
    ):
        here = await propose(make(Post(HERE)), place, **given)
        there = await propose(make(Post(GROUP)), place, **given)
        assert here.exact != there.exact
        assert here.place != there.place


# Files


async def test_a_file_is_sent_to_the_channel_that_was_shown(tmp_path: Path):
    post, place = Post(), Workplace(cwd=tmp_path)
    (tmp_path / "boat.png").write_bytes(b"png")
    tool = send_file(post)
    assert tool.risk is Risk.SEND
    given = {"path": "boat.png", "caption": "Ours."}
    path = tmp_path / "boat.png"
    where = "telegram dm 42, where this conversation takes place"
    assert await question(tool, place, **given) == f"send to {where}\nthe file {path}\nOurs."
    assert await use(tool, place, **given) == "Sent to telegram dm 42."
    assert post.sent == [(HERE, "Ours.", SentFile(path, b"png"))]


async def test_a_file_that_cannot_be_sent_there_is_refused_before_the_question(tmp_path: Path):
    (tmp_path / "boat.png").write_bytes(b"png")
    with pytest.raises(ToolFailed, match=r"was not sent to discord dm 9: boat\.png has 3 bytes"):
        await propose(send_file(Post()), Workplace(cwd=tmp_path), path="boat.png", to="discord")


async def test_the_user_is_shown_which_file_a_link_leads_to(tmp_path: Path):
    (tmp_path / "secret.txt").write_text("42")
    (tmp_path / "harmless.txt").symlink_to("secret.txt")
    asked = await question(send_file(Post()), Workplace(cwd=tmp_path), path="harmless.txt")
    assert asked.endswith(f"\nthe file {tmp_path / 'secret.txt'}")


async def test_a_path_that_is_not_a_file_is_refused(tmp_path: Path):
    post, place = Post(), Workplace(cwd=tmp_path)
    for path in ("gone.txt", "."):
        with pytest.raises(ToolFailed, match="There is no file"):
            await use(send_file(post), place, path=path)
    assert post.sent == []
