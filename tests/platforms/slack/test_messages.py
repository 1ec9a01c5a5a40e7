"""The markup of messages, messages that are sent only once, and streams, which can only grow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from segue.core.address import Address, ChatType, Platform
from segue.platforms.errors import Lost, Refused
from segue.platforms.slack import messages
from segue.platforms.slack.messages import SentMessages, Streams, stamp

HERE = Address(platform=Platform.SLACK, chat_type=ChatType.CHANNEL, chat_id="C1")
THERE = Address(platform=Platform.SLACK, chat_type=ChatType.CHANNEL, chat_id="C2")


# Markup


@pytest.mark.parametrize(
    ("wire", "typed"),
    [
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("see <https://example.com/a?b&amp;c>", "see https://example.com/a?b&c"),
        ("see <http://example.com|example.com>", "see example.com"),
        ("see <https://example.com|the docs>", "see the docs (https://example.com)"),
        ("write <mailto:a@example.com|a@example.com>", "write a@example.com"),
        ("ask <@U2|bob> in <#C2|ops>", "ask @bob in #ops"),
        ("ask <@U2> in <#C2> or <#C3|>", "ask <@U2> in <#C2> or <#C3>"),
        ("<!here> <!subteam^S1|@team> <!date^1^{date}|today>", "@here @team today"),
    ],
)
def test_text_is_what_was_typed(wire: str, typed: str):
    assert messages.typed(wire) == typed


def test_inert_text_mentions_nobody_has_no_links_and_only_grows():
    text = "see https://example.com, www.example.com, <!channel>, <@U1> and <#C1>"
    for end in range(len(text)):
        assert messages.inert(text[: end + 1]).startswith(messages.inert(text[:end]))
    shown = messages.inert(text)
    assert not any(it in shown for it in ("://", "www.", "<!", "<@", "<#"))
    assert shown.replace("\u200b", "") == text


def test_only_users_are_mentioned():
    assert messages.mention(["U1", "!channel", "W2", "U1> <!here", ""]) == "<@U1> <@W2>"


def test_mentions_show_the_names_that_are_known():
    text = "<@U1> <@U2> <#C1> <@U1> <#U1> <@C1> <@U1"
    assert messages.mentioned(text) == ["@U1", "@U2", "#C1"]
    shown = messages.with_names(text, {"@U1": "@Anna", "#C1": "#boats"})
    assert shown == "@Anna <@U2> #boats @Anna <#U1> <@C1> <@U1"


# Sent only once


class History:
    """The messages of an earlier process."""

    def __init__(self, **sent: str) -> None:
        self.sent = {stamp(key): message for key, message in sent.items()}
        self.searched: list[Address] = []

    async def __call__(self, at: Address) -> Mapping[str, str]:
        self.searched.append(at)
        return self.sent if at == HERE else {}


async def test_a_message_sent_by_an_earlier_process_is_found():
    sent = SentMessages()
    history = History(old="1")
    assert await sent.find(history, HERE, "old") == "1"
    assert await sent.find(history, HERE, "new") is None
    assert await sent.find(history, THERE, "old") is None


async def test_a_chat_is_searched_again_only_if_an_outcome_is_unknown():
    sent = SentMessages()
    history = History()
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
    sent = SentMessages()
    history = History()
    assert await sent.find(history, HERE, "1") is None
    sent.add(HERE, "1", "one")
    sent.invalidate_all()
    assert await sent.find(history, HERE, "2") is None
    assert history.searched == [HERE, HERE]


def test_a_stamp_is_short_and_differs_with_the_last_letter():
    assert stamp("x" * 500 + "a") != stamp("x" * 500 + "b")
    assert len(stamp("\ud800" * 500)) < 64


# Streams

THREAD = Address(platform=Platform.SLACK, chat_type=ChatType.DM, chat_id="D1", thread_id="1.5")
ENDED = Refused(400, "message not in streaming state")


class Service:
    """Streams in memory. `fault` is raised by the next call."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.texts: dict[str, str] = {}
        self.stopped: set[str] = set()
        self.removed = asyncio.Event()
        self.background: list[asyncio.Task[object]] = []
        self.streams = Streams(self.start, self.call, self.later)

    def _fail(self) -> None:
        fault = self.fault
        self.fault = None
        if fault is not None:
            raise fault

    async def start(self, at: Address, text: str) -> str:
        self._fail()
        self.texts[name := str(len(self.texts))] = text
        return name

    async def call(self, at: Address, message: str, method: str, **given: Any) -> None:
        match method:
            case "chat.appendStream":
                self._fail()
                self.texts[message] += given["markdown_text"]
            case "chat.stopStream":
                if message in self.stopped:
                    raise ENDED
                self.stopped.add(message)
            case _:
                assert method == "chat.delete"
                assert message in self.stopped
                del self.texts[message]
                self.removed.set()

    def later(self, call: Callable[[Any], Awaitable[object]]) -> None:
        self.background.append(asyncio.ensure_future(call(None)))


async def test_words_are_appended_and_what_does_not_continue_them_is_shown_below():
    service = Service()
    for text in ("`read`", "Once", "Once upon", "Once upon", "Twice"):
        await service.streams.show(THREAD, text)
    assert service.texts == {"0": "`read`\n\nOnce upon\n\nTwice"}
    assert service.streams.pop(THREAD) == "0"
    assert service.streams.pop(THREAD) is None


async def test_a_stream_has_an_end():
    service = Service()
    await service.streams.show(THREAD, "x")
    await service.streams.show(THREAD, "x" * 20_000)
    assert service.texts == {"0": "x"}


@pytest.mark.parametrize(
    ("fault", "after"),
    [
        (ENDED, "one"),
        (Lost("no answer", arrived=True), "one"),
        (Refused(429, "too often"), "one two three"),
    ],
)
async def test_a_stream_that_ended_or_is_in_doubt_does_not_grow(fault: Exception, after: str):
    service = Service()
    await service.streams.show(THREAD, "one")
    service.fault = fault
    with pytest.raises(type(fault)):
        await service.streams.show(THREAD, "one two")
    await service.streams.show(THREAD, "one two three")
    assert service.texts == {"0": after}


async def test_a_chat_that_refuses_streams_is_not_asked_again():
    service = Service()
    for fault, able in ((Refused(429, "too often"), True), (Refused(400, "no"), False)):
        service.fault = fault
        with pytest.raises(Refused):
            await service.streams.show(THREAD, "one")
        assert service.streams.is_able(THREAD) == able
        assert service.streams.get(THREAD) is None


async def test_a_stream_becomes_a_message_or_is_removed():
    service = Service()

    async def edit() -> None:
        service.texts["0"] = "done"

    async def gone() -> None:
        raise Refused(400, "message not found")

    await service.streams.show(THREAD, "one")
    service.stopped.add("0")  # the platform did that
    assert await service.streams.end(THREAD, "0", edit)
    assert service.texts == {"0": "done"}
    assert not await service.streams.end(THREAD, "0", gone)
    assert service.texts == {}


async def test_a_stream_that_is_not_shown_again_is_removed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(messages, "IDLE_SECONDS", 0.01)
    service = Service()
    await service.streams.show(THREAD, "one")
    await service.removed.wait()
    assert (service.texts, service.streams.get(THREAD)) == ({}, None)
