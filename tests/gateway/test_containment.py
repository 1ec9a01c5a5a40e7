"""One bad item never stops the rest: it is set aside with its reason, and its owner is notified."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec
import pytest

import segue.store
from segue.agent.models.base import Prompt
from segue.core.address import Address, Platform, Sender
from segue.core.errors import StoreError
from segue.core.session import ME, EndReason
from segue.core.transcript import Message
from segue.gateway import containment, dispatch, expiry, janitor, texts
from segue.gateway.containment import contained, keep_running
from segue.gateway.janitor import Janitor
from segue.gateway.service import Gateway
from segue.handoffs import queries as handoffs
from segue.handoffs.values import State
from segue.platforms import markup
from segue.platforms.base import Button, Capabilities, Inbound, InboundKind, Part, Receipt
from segue.store import Store, deliveries, errors, gateways, inbox, outbox, sessions
from segue.store.base import Tx
from segue.store.outbox import Draft, Outgoing, OutgoingState
from segue.testing.platform import PeerAdapter, Rules
from segue.turns import Turns, hold
from segue.turns.agents import Agents
from tests.gateway.test_expiry import expire, resetting
from tests.harness.house import TELEGRAM, House, Offered

POISON = "poison"


class Picky(PeerAdapter):
    """Raises an unexpected error when it sends a certain text."""

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        if POISON in part.plain:
            raise ValueError("no such escape")
        return await super().send(to, part, key=key, buttons=buttons)


@pytest.fixture
def unrenderable(monkeypatch: pytest.MonkeyPatch) -> None:
    """POISON cannot be rendered for the platform."""
    render = markup.parts

    def picky(markdown: str, capabilities: Capabilities, *, buttons: bool = False) -> list[Part]:
        if POISON in markdown:
            raise ValueError("no such escape")
        return render(markdown, capabilities, buttons=buttons)

    monkeypatch.setattr(markup, "parts", picky)


class LongIds(PeerAdapter):
    """Gives a certain text ids of 20,000 characters."""

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        long = "".join(f"{number}-" for number in range(4_000))
        async with contextlib.aclosing(super().receive()) as received:
            async for inbound in received:
                if inbound is not None and inbound.text == POISON:
                    at = dataclasses.replace(inbound.address, thread_id=long)
                    yield msgspec.structs.replace(inbound, update_id=long, message_id=long)
                    yield msgspec.structs.replace(inbound, address=at)
                else:
                    yield inbound


async def test_an_update_with_long_ids_is_not_stored(house: House):
    chat = await house.chat()
    async with house.gateway(speaks=LongIds):
        await house.driver.say(house.anna, chat, POISON)
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(1) after", chat=chat)


# Outbound


@pytest.mark.usefixtures("unrenderable")
async def test_an_answer_that_cannot_be_rendered_fails_without_affecting_others(house: House):
    await house.driver.rules(Rules(keys=False))
    chat, other = await house.chat(), await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, POISON)
        await house.driver.message(texts.UNSENT, chat=chat)
        await house.driver.say(house.anna, chat, "after")
        await house.driver.say(house.anna, other, "elsewhere")
        await house.driver.message("(2) after", chat=chat)
        await house.driver.message("(1) elsewhere", chat=other)
    (trouble,) = await outbox.troubled(house.store)
    assert trouble.state is OutgoingState.FAILED  # it was never sent
    assert trouble.error == "ValueError: no such escape"
    async with house.gateway():  # nor is the next one affected
        await house.driver.say(house.anna, chat, "again")
        await house.driver.message("(3) again", chat=chat)
    assert len(await outbox.troubled(house.store)) == 1


async def test_a_message_that_crashes_the_adapter_is_uncertain_and_others_arrive(house: House):
    await house.driver.rules(Rules(keys=False))
    chat = await house.chat()
    async with house.gateway(speaks=Picky):
        await house.driver.say(house.anna, chat, POISON)
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(2) after", chat=chat)
    trouble = (await outbox.troubled(house.store))[-1]
    assert (trouble.state, trouble.error) == (OutgoingState.UNCERTAIN, "ValueError: no such escape")


@pytest.mark.usefixtures("unrenderable")
async def test_a_notice_that_cannot_be_rendered_does_not_cause_another_notice(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(texts, "UNSENT", POISON)
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, POISON)
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(2) after", chat=chat)
        await house.idle()
    assert len(await outbox.troubled(house.store)) == 2


@pytest.mark.parametrize("column", ["buttons", "receipts", "address"])
async def test_an_unreadable_outbox_row_does_not_block_others(house: House, column: str):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
    await outbox.enqueue(
        house.store, Draft(key="bad", address=await house.address(chat), body="bad")
    )
    await house.store.write(corrupt, f"UPDATE outbox SET {column} = '{{' WHERE key = 'bad'")
    for _ in range(2):
        async with house.gateway():
            await house.driver.say(house.anna, chat, "after")
            await house.driver.until(lambda s: s.texts[-1].endswith("after"), chat=chat)
            await house.idle()
    (trouble,) = await outbox.troubled(house.store)
    assert trouble.state is OutgoingState.FAILED
    assert trouble.error is not None
    assert "cannot be read" in trouble.error


# Inbound


def corrupt(tx: Tx, sql: str) -> None:
    tx.change(sql)


@pytest.mark.parametrize("column", ["body", "address"])
async def test_an_unreadable_inbox_entry_does_not_block_others(house: House, column: str):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        address = await house.address(chat)
    await inbox.record(house.store, "bot", "left", address, "{}")
    await house.store.write(corrupt, f"UPDATE inbox SET {column} = '{{' WHERE update_id = 'left'")
    async with house.gateway():
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(2) after", chat=chat)
        await house.idle()
    (trouble,) = await inbox.troubled(house.store)
    assert trouble.error is not None
    notices = [t for t in (await house.driver.look(chat)).texts if "could not be answered" in t]
    assert len(notices) == (column == "body")


async def test_a_message_that_cannot_be_answered_is_set_aside_and_does_not_block_others(
    house: House,
):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.store.write(corrupt, "UPDATE messages SET extras = '{' WHERE role = 'user'")
        await house.driver.say(house.anna, chat, "after")
        await house.driver.until(lambda s: "internal error occurred" in s.texts[-1], chat=chat)
        await house.driver.say(house.anna, await house.chat(), "elsewhere")
        await house.driver.message("(1) elsewhere")
    (trouble,) = await inbox.troubled(house.store)
    assert trouble.address == await house.address(chat)
    assert "DecodeError" in (trouble.error or "")
    async with house.gateway():
        await house.idle()
    assert len(await inbox.troubled(house.store)) == 1


async def test_a_message_that_no_gateway_finishes_is_dropped_after_the_last_attempt(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        address = await house.address(chat)
    sender = Sender(platform=TELEGRAM, user_id=house.anna)
    left = Inbound(kind=InboundKind.MESSAGE, update_id="left", address=address, sender=sender)
    body = msgspec.json.encode(left).decode()
    await inbox.record(house.store, "bot", "left", address, body)
    for _ in range(dispatch.MAX_STARTS):
        await inbox.start_all(house.store, [TELEGRAM])
    async with house.gateway():
        await house.driver.message(texts.GIVEN_UP, chat=chat)
        await house.driver.say(house.anna, chat, "after")
        await house.driver.message("(2) after", chat=chat)
    (trouble,) = await inbox.troubled(house.store)
    assert trouble.error == texts.NEVER_DONE


# Handoffs


class ThreadsFail(PeerAdapter):
    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        raise ZeroDivisionError("our fault")


async def test_an_unexpected_error_fails_the_handoff_and_does_not_block_others(house: House):
    chat = await house.chat()
    await house.home(chat)
    async with house.gateway(speaks=ThreadsFail), house.terminal(("a", "b")) as desk:
        failed = await desk.hand_off()
        assert failed.state is State.FAILED
        assert failed.error is not None
        assert "ZeroDivisionError: our fault" in failed.error
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)


@pytest.mark.parametrize("column", ["home", "step"])
async def test_an_unreadable_handoff_fails_and_does_not_block_others(house: House, column: str):
    chat = await house.chat()
    home = await house.home(chat)
    session = await sessions.create(house.store, ME, Platform.LOCAL)
    await handoffs.request(house.store, session.id, TELEGRAM, home=home)
    await house.store.write(corrupt, f"UPDATE handoffs SET {column} = '{{'")
    async with house.gateway(), house.terminal(("a", "b")) as desk:
        assert (await desk.hand_off()).state is State.COMPLETED
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
    bad = await handoffs.current(house.store, session.id)
    assert bad is not None
    assert bad.state is State.FAILED
    assert "cannot be read" in (bad.error or "")


@pytest.mark.usefixtures("unrenderable")
async def test_the_gateway_still_answers_after_a_handoff_reply_cannot_be_rendered(house: House):
    chat = await house.chat()
    await house.home(chat)
    script = [POISON, "I am here."]
    async with house.gateway(model=script), house.terminal(("a", "b")) as desk:
        moved = await desk.hand_off()
        assert moved.state is State.COMPLETED
        assert moved.thread is not None
        thread = moved.thread.thread_id
        await house.driver.message(texts.UNSENT, chat=chat)
        await house.driver.say(house.anna, chat, "hello", thread=thread)
        await house.driver.message("I am here.", chat=chat)


# Background work


async def test_a_failed_report_does_not_block_other_reports(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
    address = await house.address(chat)
    session = await house.session_at(address)
    for body in ("good", POISON):
        draft = Draft(key=body, address=address, body=body, session_id=session.id)
        await outbox.enqueue(house.store, draft)
        (claimed,) = await deliveries.claim(house.store, [TELEGRAM])
        await deliveries.failed(house.store, claimed, "no")
    report, reported = janitor._undelivered, list[str]()

    def picky(trouble: Outgoing) -> Message:
        reported.append(trouble.body)
        if trouble.body == POISON:
            raise ZeroDivisionError("our fault")
        return report(trouble)

    monkeypatch.setattr(janitor, "_undelivered", picky)
    looking = Janitor(house.store)
    for _ in range(2):
        await looking.clean_up()
    assert reported == [POISON, "good"]  # and it is not retried forever
    assert "'good'" in (await house.said(session.id))[-1][1]


async def test_a_session_ends_even_if_taking_notes_fails(house: House):
    def fail(prompt: Prompt) -> str:
        raise ZeroDivisionError("our fault")

    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.idle()
    resetting(house)
    session = await house.session_at(await house.address(chat))
    await expire(house, fail)
    ended = await sessions.get(house.store, session.id)
    assert ended is not None
    assert ended.end_reason is EndReason.IDLE


async def test_a_session_that_cannot_be_ended_is_logged_once_and_does_not_block_others(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    chats = [await house.chat(), await house.chat()]
    async with house.gateway():
        for chat in chats:
            await house.driver.say(house.anna, chat, "hello")
            await house.driver.message("(1) hello", chat=chat)
        await house.idle()
    resetting(house)
    bad, good = [await house.session_at(await house.address(chat)) for chat in chats]

    def picky(store: Store, session_id: str, holder: str) -> Any:
        if session_id == bad.id:
            raise ZeroDivisionError("our fault")
        return hold(store, session_id, holder)

    monkeypatch.setattr(expiry, "hold", picky)
    for _ in range(2):
        await expire(house, "done")
    ended = await sessions.get(house.store, good.id)
    assert ended is not None
    assert ended.end_reason is EndReason.IDLE
    (notice,) = await deliveries.claim(house.store, [TELEGRAM])
    assert (notice.key, notice.address) == (f"expiry:{bad.id}", bad.address)


# Our own tasks


async def test_a_failed_adapter_is_reconnected(house: House, monkeypatch: pytest.MonkeyPatch):
    failures = 2

    class Recovering(PeerAdapter):
        def receive(self) -> AsyncGenerator[Inbound | None]:
            nonlocal failures
            if failures:
                failures -= 1
                raise ZeroDivisionError("our fault")
            return super().receive()

    chat = await house.chat()
    async with house.gateway(speaks=Recovering):
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
    assert not failures


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containment, "FIRST_PAUSE", 0.0)


@pytest.mark.usefixtures("no_pauses")
async def test_a_crashed_task_is_restarted_until_it_crashes_too_often():
    lives = 0

    async def work() -> None:
        nonlocal lives
        lives += 1
        raise ZeroDivisionError("our fault")

    with pytest.raises(ZeroDivisionError):
        await keep_running("work", work)
    assert lives == containment.MAX_CRASHES


@pytest.mark.usefixtures("no_pauses")
async def test_crashes_that_are_far_apart_are_not_added_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(containment, "CRASH_WINDOW", 0.0)
    lives, lived = 0, asyncio.Event()

    async def work() -> None:
        nonlocal lives
        lives += 1
        if lives > 3 * containment.MAX_CRASHES:
            lived.set()
            await asyncio.Event().wait()
        raise ZeroDivisionError("our fault")

    task = asyncio.create_task(keep_running("work", work))
    await lived.wait()
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.usefixtures("no_pauses")
async def test_a_task_is_restarted_without_limit_while_the_store_is_busy():
    lives = 0

    async def work() -> None:
        nonlocal lives
        lives += 1
        if lives > 3 * containment.MAX_CRASHES:
            raise ZeroDivisionError("our fault")
        raise errors.busy("here")

    with pytest.raises(ZeroDivisionError):
        await keep_running("work", work)
    assert lives > 3 * containment.MAX_CRASHES


async def test_a_store_error_does_not_set_an_item_aside():
    async def set_aside(reason: str) -> None:
        raise AssertionError(reason)

    with pytest.raises(StoreError, match="locked for too long"):
        async with contained("item", set_aside):
            raise errors.busy("here")


@pytest.mark.usefixtures("no_pauses")
async def test_a_gateway_stops_with_the_error_of_a_task_that_keeps_crashing(
    house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    async def clean_up(self: Janitor) -> None:
        raise ZeroDivisionError("our fault")

    monkeypatch.setattr(Janitor, "clean_up", clean_up)
    adapter = PeerAdapter(TELEGRAM, house.peer.url, house.peer.token)
    async with await segue.store.open(house.url) as store:
        turns = Turns(store, Agents(store, house.settings, Offered(house.model)), titles=False)
        gateway = Gateway(store, turns, house.settings, [adapter])
        with pytest.raises(ZeroDivisionError):
            async with asyncio.timeout(20):
                await gateway.run(asyncio.Event())
        assert await gateways.alive(store) == ()
    assert "a task has ended task=janitor" in caplog.text
