"""Gateways that stop, are killed, or compete for a platform."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import segue.store
from segue.agent.models.base import Prompt
from segue.agent.models.scripted import ScriptedModel
from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.errors import StoreError, UserError
from segue.gateway import service
from segue.gateway.dispatch import Dispatcher
from segue.gateway.messages import PendingMessage
from segue.gateway.service import Gateway
from segue.gateway.turns import ChatTurns
from segue.platforms.base import Inbound, InboundKind
from segue.store import gateways, inbox
from segue.store.base import Tx
from segue.store.gateways import LinkState
from segue.testing.platform import PeerAdapter, Shape
from segue.turns import Turns
from segue.turns.agents import Agents
from tests.gateway.test_commands import Waiting, message_with
from tests.harness.house import TELEGRAM, House, Offered, echoing
from tests.turns.conftest import call


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


async def test_a_command_that_a_kill_interrupted_is_reported_and_not_repeated(house: House):
    chat = await house.chat()
    async with house.gateway(model=echoing()):
        for number in range(1, 5):
            await house.driver.say(house.anna, chat, "word " * 50)
            await message_with(house, chat, f"({number}) word")
    model = Waiting()
    async with killed(house, model):
        await house.driver.say(house.anna, chat, "/compress")
        await model.asked.wait()
    async with house.gateway(model=echoing()):
        await message_with(house, chat, "I was interrupted while I ran /compress.")
        await house.driver.say(house.anna, chat, "after")
        await message_with(house, chat, "(5) after")
        await house.idle()
    async with house.gateway(model=echoing()):
        await house.idle()
    texts = (await house.driver.look(chat)).texts
    assert sum("I was interrupted while I ran" in text for text in texts) == 1


async def test_the_turn_of_a_retry_is_not_taken_up_again_while_it_runs(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service, "OVERLOOKED_SECONDS", 0.01)
    chat = await house.chat()
    model = Waiting()
    async with house.gateway(model=model):
        model.go.set()
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        model.go.clear()
        model.asked.clear()
        await house.driver.say(house.anna, chat, "/retry")
        await model.asked.wait()
        await asyncio.sleep(0.1)  # several looks
        model.go.set()
        await house.driver.until(lambda shown: list(shown.texts).count("(1) hello") == 2, chat=chat)
        await house.idle()
    assert list((await house.driver.look(chat)).texts).count("(1) hello") == 2


@contextlib.asynccontextmanager
async def killed_when_handled(
    house: House,
    model: ScriptedModel,
    wanted: Callable[[Inbound], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncGenerator[asyncio.Event]:
    """A gateway that dies when it has recorded a `wanted` update, before it handles it. The event
    is set by then."""
    recorded = asyncio.Event()
    handle = Dispatcher._handle

    async def hang(dispatcher: Dispatcher, pending: PendingMessage) -> None:
        if wanted(pending.inbound):
            recorded.set()
            await asyncio.Event().wait()
        await handle(dispatcher, pending)

    with monkeypatch.context() as patch:
        patch.setattr(Dispatcher, "_handle", hang)
        async with killed(house, model):
            yield recorded


async def three_turns(house: House, chat: str) -> None:
    async with house.gateway(model=echoing()):
        for number, word in enumerate(("one", "two", "three"), 1):
            await house.driver.say(house.anna, chat, word)
            await house.driver.message(f"({number}) {word}", chat=chat)
        await house.idle()


async def asked(house: House, chat: str) -> list[str]:
    session = await house.session_at(await house.address(chat))
    return [text for role, text in await house.said(session.id) if role == "user"]


async def test_a_retry_that_is_killed_before_its_turn_undoes_one_turn_only(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    chat = await house.chat()
    await three_turns(house, chat)
    reached = asyncio.Event()

    async def hang(*_: object) -> bool:
        reached.set()
        return await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(ChatTurns, "take_turn", hang)
        async with killed(house, ScriptedModel(echoing())):
            await house.driver.say(house.anna, chat, "/retry")
            await reached.wait()
    async with house.gateway(model=echoing()):
        await house.driver.until(lambda shown: list(shown.texts).count("(3) three") == 2, chat=chat)
        await house.idle()
    assert await asked(house, chat) == ["one", "two", "three"]


async def test_a_retry_whose_turn_meets_a_broken_store_is_answered_once_it_is_back(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service, "OVERLOOKED_SECONDS", 0.02)
    chat = await house.chat()
    await three_turns(house, chat)
    take_turn, failures = ChatTurns.take_turn, [StoreError(reason="disk I/O error")]

    async def failing(turns: ChatTurns, pending: PendingMessage, *rest: Any) -> bool:
        if failures:
            raise failures.pop()
        return await take_turn(turns, pending, *rest)

    monkeypatch.setattr(ChatTurns, "take_turn", failing)
    async with house.gateway(model=echoing()):
        await house.driver.say(house.anna, chat, "/retry")
        await house.driver.until(lambda shown: list(shown.texts).count("(3) three") == 2, chat=chat)
        await house.idle()
    assert await asked(house, chat) == ["one", "two", "three"]


async def test_a_press_that_was_recorded_before_a_kill_is_heard_after_it(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    chat = await house.chat()
    made = tmp_path / "made"
    script = [call("shell", command=f"touch {made}"), "Done."]
    model = ScriptedModel(script[:1])
    async with killed_when_handled(
        house, model, lambda it: it.kind is InboundKind.BUTTON, monkeypatch
    ) as recorded:
        await house.driver.say(house.anna, chat, "make it")
        question = await message_with(house, chat, "May I do this?")
        await house.driver.press(house.anna, question.id, "Allow")
        await recorded.wait()
    async with house.gateway(model=script[1:]):
        await house.driver.message("Done.", chat=chat)
    assert made.exists()


async def test_a_stop_that_was_recorded_before_a_kill_stops_the_interrupted_turn(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    chat = await house.chat()
    model = Waiting()
    async with killed_when_handled(
        house, model, lambda it: it.typed == "/stop", monkeypatch
    ) as recorded:
        await house.driver.say(house.anna, chat, "delete everything")
        await model.asked.wait()
        await house.driver.say(house.anna, chat, "/stop")
        await recorded.wait()
    async with house.gateway(model=echoing()):
        await house.driver.message("Stopped.", chat=chat)
        await house.idle()
    assert "(1) delete everything" not in (await house.driver.look(chat)).texts


async def test_a_greeting_that_a_kill_interrupted_is_sent_after_it(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    chat = await house.chat(Shape.GROUP)
    model = ScriptedModel(echoing())
    async with killed_when_handled(
        house, model, lambda it: it.kind is InboundKind.JOINED, monkeypatch
    ) as recorded:
        await house.driver.join(house.anna, chat)
        await recorded.wait()
    async with house.gateway(model=echoing()):
        await message_with(house, chat, "Type /sethome to receive handoffs in this chat.")


async def test_a_command_whose_answer_is_queued_is_not_reported_as_interrupted(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "/whoami")
        await message_with(house, chat, "paired with the owner")
        await house.idle()
    await house.store.write(_unfinish)
    async with house.gateway():
        await house.idle()
        assert await inbox.waiting(house.store) == ()
    assert len((await house.driver.look(chat)).texts) == 2, "the command and its answer"


def _unfinish(tx: Tx) -> None:
    """The gateway was killed just before it finished the command."""
    tx.change("UPDATE inbox SET finished = NULL")


async def test_the_next_gateway_takes_over_a_backlog_of_any_size(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    at_once = 20
    defaults = inspect.unwrap(inbox.waiting).__kwdefaults__ or {}
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
        with pytest.raises(UserError, match="a gateway on"):
            async with house.gateway():
                pass
        serving = await gateways.serving(house.store, TELEGRAM)
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
