"""Gateways that stop, are killed, or compete for a platform."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

import segue.store
from segue.agent.models.base import Prompt
from segue.agent.models.scripted import ScriptedModel
from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.errors import GatewayRunning
from segue.gateway import service
from segue.gateway.service import Gateway
from segue.platforms.base import Inbound, InboundKind
from segue.store import inbox
from segue.store.base import Tx
from segue.store.gateways import LinkState
from segue.testing.platform import PeerAdapter
from segue.turns import Turns
from segue.turns.agents import Agents
from tests.gateway.conftest import TELEGRAM, House, echoing
from tests.gateway.test_commands import Waiting, message_with
from tests.turns.conftest import Offered, call


@contextlib.asynccontextmanager
async def killed(house: House, model: ScriptedModel) -> AsyncGenerator[None]:
    """A gateway that dies at the end, without cleanup. The store knows that it is dead."""
    house.model = model
    async with await segue.store.open(house.url) as store:
        turns = Turns(store, Agents(store, house.settings, Offered(model)), titles=False)
        gateway = Gateway(store, turns, house.settings, [house.adapter()])
        running = asyncio.create_task(gateway.run(asyncio.Event()))
        await house.until_link(LinkState.CONNECTED)
        yield
        running.cancel()
        await asyncio.wait({running})


def _until_written(path: Path, words: str) -> None:
    deadline = time.monotonic() + 20
    while not path.exists() or path.read_text() != words:
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_a_running_turn_is_finished_before_the_gateway_stops(house: House):
    chat = await house.chat()
    model = Waiting()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "hello")
        await model.asked.wait()
        asyncio.get_running_loop().call_later(0.2, model.go.set)
    assert "(1) hello" in (await house.driver.look(chat)).texts


async def test_a_turn_that_exceeds_the_stop_timeout_continues_after_the_restart(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service, "STOP_TIMEOUT", 0.1)
    chat = await house.chat()
    model = Waiting()
    async with house.gateway(model=model):
        await house.driver.say(house.anna, chat, "hello")
        await model.asked.wait()
        await house.driver.say(house.anna, chat, "second")
        await house.idle_but_for(2)
    async with house.gateway(model=echoing()):
        await house.driver.message("(2) second", chat=chat)
    assert [t for t in (await house.driver.look(chat)).texts if t[0] == "("] == [
        "(1) hello",
        "(2) second",
    ]


async def test_a_turn_that_was_cut_off_is_continued(house: House):
    chat = await house.chat()
    model = Waiting()
    async with killed(house, model):
        await house.driver.say(house.anna, chat, "hello")
        await model.asked.wait()
    async with house.gateway(model=echoing()):
        await house.driver.message("(1) hello", chat=chat)
        await house.idle()
    session = await house.session_at(await house.address(chat))
    assert [role for role, _ in await house.said(session.id)] == ["user", "assistant"]


async def test_the_next_gateway_takes_over_a_backlog_of_any_size(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    at_once = 20
    defaults = inbox.waiting.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "limit", at_once)
    chat = await house.chat()
    address = Address(platform=TELEGRAM, chat_type=ChatType.DM, chat_id=chat)

    def heard(number: int, user: str) -> Inbound:
        return Inbound(
            kind=InboundKind.MESSAGE,
            update_id=f"early:{number}",
            address=address,
            sender=Sender(platform=TELEGRAM, user_id=user),
            text="hello",
        )

    def record(tx: Tx) -> None:
        for number in range(at_once + 1):
            said = heard(number, house.anna if number == at_once else "who was sent away")
            body = msgspec.json.encode(said).decode()
            inbox.record(tx, "bot:1", said.update_id, address, body)

    await house.store.write(record)
    async with house.gateway():
        await house.driver.message("(1) hello", chat=chat, within=30)
        await house.idle()
    assert len(house.model.prompts) == 1, "the agent was asked by one who was sent away"


async def test_an_interrupted_tool_call_is_reported_and_not_run_again(house: House, tmp_path: Path):
    chat = await house.chat()
    ran = tmp_path / "ran"
    command = f"echo x >> {ran}; sleep 60"
    async with killed(house, ScriptedModel([call("shell", command=command)])):
        await house.driver.say(house.anna, chat, "do it")
        asked = await message_with(house, chat, "May I do this?")
        await house.driver.press(house.anna, asked.id, "Allow")
        await asyncio.to_thread(_until_written, ran, "x\n")

    seen: list[str] = []

    def answer(prompt: Prompt) -> str:
        seen.append(prompt.messages[-1].content)
        return "I see."

    async with house.gateway(model=[answer]):
        await message_with(house, chat, "I was interrupted while running `shell`")
        await house.driver.message("I see.", chat=chat)
    assert "effect is unknown" in seen[0]
    assert await asyncio.to_thread(ran.read_text) == "x\n"


async def test_a_second_gateway_is_refused_by_name(house: House):
    async with house.gateway():
        with pytest.raises(GatewayRunning, match="a gateway on"):
            async with house.gateway():
                pass
        serving = await house.store.gateways.serving(TELEGRAM)
    assert serving is not None


async def test_an_unreachable_platform_does_not_affect_another(house: House):
    away = PeerAdapter(Platform.MATRIX, "http://127.0.0.1:9", house.peer.token)
    chat = await house.chat()
    async with (
        await segue.store.open(house.url) as store,
        house.serve(store, away, house.adapter()),
    ):
        await house.until_link(LinkState.DOWN, Platform.MATRIX)
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
