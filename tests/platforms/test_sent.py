"""Idempotency keys on a platform without them."""

from __future__ import annotations

from collections.abc import Mapping

from segue.core.address import Address, ChatType, Platform
from segue.platforms.sent import SentMessages, stamp

HERE = Address(platform=Platform.SLACK, chat_type=ChatType.CHANNEL, chat_id="C1")
THERE = Address(platform=Platform.SLACK, chat_type=ChatType.CHANNEL, chat_id="C2")


class History:
    """The messages of an earlier process."""

    def __init__(self, **sent: str) -> None:
        self.sent = {stamp(key): message for key, message in sent.items()}
        self.searched: list[Address] = []

    async def __call__(self, at: Address) -> Mapping[str, str]:
        self.searched.append(at)
        return self.sent if at == HERE else {}


async def test_a_message_sent_by_an_earlier_process_is_found():
    sent, history = SentMessages(), History(old="1")
    assert await sent.find(history, HERE, "old") == "1"
    assert await sent.find(history, HERE, "new") is None
    assert await sent.find(history, THERE, "old") is None


async def test_a_chat_is_searched_again_only_if_an_outcome_is_unknown():
    sent, history = SentMessages(), History()
    for number in range(3):
        assert await sent.find(history, HERE, f"key {number}") is None
        sent.add(HERE, f"key {number}", str(number))
    assert await sent.find(history, HERE, "key 1") == "1"
    assert history.searched == [HERE]
    assert await sent.find(history, HERE, "lost") is None  # and no response arrived
    history.sent[stamp("lost")] = "9"
    assert await sent.find(history, HERE, "lost") == "9"
    assert history.searched == [HERE, HERE]


async def test_after_a_reconnection_every_chat_is_searched_again():
    sent, history = SentMessages(), History()
    assert await sent.find(history, HERE, "1") is None
    sent.add(HERE, "1", "one")
    sent.forget()
    assert await sent.find(history, HERE, "2") is None
    assert history.searched == [HERE, HERE]


def test_a_stamp_is_short_and_differs_with_the_last_letter():
    assert stamp("x" * 500 + "a") != stamp("x" * 500 + "b")
    assert len(stamp("\ud800" * 500)) < 64
