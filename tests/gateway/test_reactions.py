"""Choices by reaction: the emoji that a message offers, and what a reaction to it stands for."""

from __future__ import annotations

import asyncio

import pytest

from segue.core.address import Address, ChatType, Platform
from segue.gateway import reactions
from segue.platforms.base import Button
from segue.store import Store, deliveries, outbox
from segue.store.outbox import Draft
from tests.store.conftest import clock as clock
from tests.store.conftest import open_store as open_store
from tests.store.conftest import postgres_database as postgres_database
from tests.store.conftest import postgres_server as postgres_server
from tests.store.conftest import store as store
from tests.store.conftest import url as url

CHAT = Address(platform=Platform.SIGNAL, chat_type=ChatType.DM, chat_id="anna")
OTHER = Address(platform=Platform.SIGNAL, chat_type=ChatType.DM, chat_id="bob")
BUTTONS = (("Allow", "a:1:once"), ("Always", "a:1:session"), ("Deny", "a:1:never"))


async def ask(store: Store, receipt: str) -> None:
    await outbox.enqueue(store, Draft(key=receipt, address=CHAT, body="May I?", buttons=BUTTONS))
    (claimed,) = await deliveries.claim(store, [Platform.SIGNAL])
    await deliveries.sent(store, claimed, receipt)


def test_a_message_lists_its_choices():
    shown = reactions.offer("May I?", [Button(*it) for it in BUTTONS])
    assert shown == "May I?\n\nReact: 👍 Allow · ❤️ Always · 👎 Deny"
    assert reactions.offer("Hello.", []) == "Hello."


@pytest.mark.parametrize(
    ("emoji", "data"),
    [("👍", "a:1:once"), ("👍🏽", "a:1:once"), ("❤", "a:1:session"), ("❤️", "a:1:session"),
     ("👎", "a:1:never"), ("😮", None), ("🎉", None), ("", None)],
)  # fmt: skip
async def test_a_reaction_stands_for_the_button_of_its_emoji(
    store: Store, emoji: str, data: str | None
):
    await ask(store, "7")
    assert await reactions.chosen(store, CHAT, "7", emoji) == data


async def test_an_answer_has_the_same_emoji_in_every_question(store: Store):
    """A user who reacts by habit to a question that shows only a part must not allow it."""
    part = (("Show all", "w:1"), ("Deny", "a:1:never"))
    shown = reactions.offer("May I?", [Button(*it) for it in part])
    assert shown == "May I?\n\nReact: 😮 Show all · 👎 Deny"
    await outbox.enqueue(store, Draft(key="k", address=CHAT, body="May I?", buttons=part))
    (claimed,) = await deliveries.claim(store, [Platform.SIGNAL])
    await deliveries.sent(store, claimed, "9")
    for emoji, data in (("😮", "w:1"), ("👎", "a:1:never"), ("👍", None), ("❤️", None)):
        assert await reactions.chosen(store, CHAT, "9", emoji) == data


async def test_a_reaction_to_another_message_or_in_another_chat_stands_for_none(store: Store):
    await ask(store, "7")
    assert await reactions.chosen(store, CHAT, "8", "👍") is None
    assert await reactions.chosen(store, OTHER, "7", "👍") is None


async def test_a_reaction_that_is_faster_than_the_receipt_waits_for_it(store: Store):
    await outbox.enqueue(store, Draft(key="k", address=CHAT, body="May I?", buttons=BUTTONS))
    (claimed,) = await deliveries.claim(store, [Platform.SIGNAL])
    choosing = asyncio.create_task(reactions.chosen(store, CHAT, "9", "👎"))
    await asyncio.wait([choosing], timeout=0.01)
    await deliveries.sent(store, claimed, "9")
    assert await choosing == "a:1:never"
