"""Events that a platform sends once: kept until they are recorded, and read again after a break."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms.backlog import Backlog, Events
from segue.platforms.base import Inbound, InboundKind
from segue.platforms.errors import Failures

CHAT = Address(platform=Platform.DISCORD, chat_type=ChatType.CHANNEL, chat_id="5")
THREAD = Address(platform=Platform.DISCORD, chat_type=ChatType.CHANNEL, chat_id="5", thread_id="70")
EVE = Sender(platform=Platform.DISCORD, user_id="1")


async def nothing() -> None:
    raise AssertionError("there are events")


async def handled(event: int) -> Inbound:
    return Inbound(kind=InboundKind.MESSAGE, update_id=str(event), address=CHAT, sender=EVE)


async def heard(events: Events[int], count: int) -> list[str]:
    """The ids of the next updates, the last of which is not recorded."""
    found: list[str] = []
    received = events.receive(Failures(Platform.DISCORD), nothing, handled)
    async with contextlib.aclosing(received):
        async for inbound in received:
            found += [inbound.update_id] if inbound else []
            if len(found) == count:
                break
    return found


async def test_an_event_stays_the_first_until_it_is_recorded():
    events = Events[int]()
    for event in (1, 2, 5):
        events.append(event)
    assert await heard(events, 2) == ["1", "2"]
    events.insert([3, 4])
    assert await heard(events, 4) == ["2", "3", "4", "5"]


def test_only_chats_where_the_bot_talks_are_read():
    backlog = Backlog(lambda at: at.year)
    backlog.heard("7", "1")
    assert backlog.newest() == []
    backlog.talks("7", "2")
    backlog.talks("7", "9")
    assert backlog.newest() == [("7", 2)], "what came before the bot spoke again may be unread"
    backlog.heard("7", "4")
    backlog.heard("7", "3")
    assert backlog.newest() == [("7", 4)]


def test_a_new_process_starts_where_the_gateway_stopped_recording():
    backlog = Backlog(lambda at: at.year)
    backlog.remember({CHAT: "", THREAD: ""})
    day = datetime.now(UTC).year
    assert sorted(backlog.newest()) == [("5", day), ("70", 70)]
    other = Backlog(lambda at: at.year)
    other.remember({CHAT: "12 2026-11-17", THREAD: "not a number"})
    assert other.newest() == [("5", 12)]
    dotted = Backlog(lambda at: at.year, lambda at: f"{at.chat_id} {at.thread_id}")
    dotted.remember({CHAT: "1.5 C1", replace(THREAD, thread_id="1.7"): ""})
    assert dotted.newest() == [("5 None", 15), ("5 1.7", 17)]
