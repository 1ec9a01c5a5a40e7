"""A question that survives a restart still covers only the file that it was asked about."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.agent.models.base import Prompt
from segue.agent.models.scripted import Say
from segue.approvals import queries as approvals
from segue.core.transcript import Role
from tests.gateway.test_approvals import question
from tests.harness.house import House
from tests.turns.conftest import call


def link(at: Path, to: Path) -> None:
    at.unlink(missing_ok=True)
    at.symlink_to(to)


@pytest.mark.parametrize("answered", [False, True], ids=["waiting", "answered"])
async def test_a_symlink_changed_while_the_gateway_is_down_needs_a_new_approval(
    house: House, tmp_path: Path, answered: bool
):
    notes, key = tmp_path / "notes", tmp_path / "key"
    notes.write_text("notes")
    key.write_text("the key")
    link(tmp_path / "link", notes)
    chat = await house.chat()
    writing = call("write_file", path=str(tmp_path / "link"), content="new")
    async with house.gateway(model=[writing]):
        await house.driver.say(house.anna, chat, "write it")
        message = await question(house, chat)
    if answered:
        session = await house.session_at(await house.address(chat))
        asked = await approvals.waiting(house.store, session.id)
        assert asked is not None
        await house.driver.press(house.anna, message.id, "Allow")
    link(tmp_path / "link", key)
    async with house.gateway(model=["Done."]):
        shown = await house.driver.until(
            lambda s: any(str(key) in text for text in s.texts), chat=chat
        )
        again = next(m for m in shown.messages if str(key) in m.text)
        await house.driver.press(house.anna, again.id, "Deny")
        await house.driver.message("Done.", chat=chat)
    assert key.read_text() == "the key"
    assert notes.read_text() == "notes"


async def test_a_question_about_a_private_file_survives_a_restart_among_other_reads(
    house: House, tmp_path: Path
):
    (tmp_path / "a").write_text("public")
    (tmp_path / ".env").write_text("KEY=1")
    chat = await house.chat()
    reads = [
        call("read_file", number, path=str(tmp_path / name))
        for number, name in enumerate(("a", ".env", "a"))
    ]

    def answer(prompt: Prompt) -> str:
        return " ".join(m.content for m in prompt.messages if m.role is Role.TOOL)

    async with house.gateway(model=[Say(calls=tuple(reads))]):
        await house.driver.say(house.anna, chat, "read them")
        message = await question(house, chat)
    async with house.gateway(model=[answer]):
        await house.driver.press(house.anna, message.id, "Allow")
        await house.driver.message("public KEY=1 public", chat=chat)
