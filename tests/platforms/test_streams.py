"""Previews that can only grow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from segue.core.address import Address, ChatType, Platform
from segue.platforms import streams
from segue.platforms.errors import Lost, Refused
from segue.platforms.streams import Streams

HERE = Address(platform=Platform.SLACK, chat_type=ChatType.DM, chat_id="D1", thread_id="1.5")
ENDED = Refused(400, "message not in streaming state")


class Service:
    """Streams in memory. `fault` is raised by the next call."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.texts: dict[str, str] = {}
        self.stopped: set[str] = set()
        self.removed = asyncio.Event()
        self.background: list[asyncio.Task[object]] = []
        self.streams = Streams(self.start, self.append, self.stop, self.delete, self.later)

    def _fail(self) -> None:
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault

    async def start(self, at: Address, text: str) -> str:
        self._fail()
        self.texts[name := str(len(self.texts))] = text
        return name

    async def append(self, at: Address, stream: str, text: str) -> None:
        self._fail()
        self.texts[stream] += text

    async def stop(self, at: Address, stream: str) -> None:
        if stream in self.stopped:
            raise ENDED
        self.stopped.add(stream)

    async def delete(self, at: Address, stream: str) -> None:
        assert stream in self.stopped
        del self.texts[stream]
        self.removed.set()

    def later(self, call: Callable[[Any], Awaitable[object]]) -> None:
        self.background.append(asyncio.ensure_future(call(None)))


async def test_words_are_appended_and_what_does_not_continue_them_is_shown_below():
    service = Service()
    for text in ("`read`", "Once", "Once upon", "Once upon", "Twice"):
        await service.streams.show(HERE, text)
    assert service.texts == {"0": "`read`\n\nOnce upon\n\nTwice"}
    assert service.streams.take(HERE) == "0"
    assert service.streams.take(HERE) is None


async def test_a_stream_has_an_end():
    service = Service()
    await service.streams.show(HERE, "x")
    await service.streams.show(HERE, "x" * 20_000)
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
    await service.streams.show(HERE, "one")
    service.fault = fault
    with pytest.raises(type(fault)):
        await service.streams.show(HERE, "one two")
    await service.streams.show(HERE, "one two three")
    assert service.texts == {"0": after}


async def test_a_chat_that_refuses_streams_is_not_asked_again():
    service = Service()
    for fault, able in ((Refused(429, "too often"), True), (Refused(400, "no"), False)):
        service.fault = fault
        with pytest.raises(Refused):
            await service.streams.show(HERE, "one")
        assert service.streams.able(HERE) == able
        assert service.streams.get(HERE) is None


async def test_a_stream_becomes_a_message_or_is_removed():
    service = Service()

    async def edit() -> None:
        service.texts["0"] = "done"

    async def gone() -> None:
        raise Refused(400, "message not found")

    await service.streams.show(HERE, "one")
    service.stopped.add("0")  # the platform did that
    assert await service.streams.end(HERE, "0", edit)
    assert service.texts == {"0": "done"}
    assert not await service.streams.end(HERE, "0", gone)
    assert service.texts == {}


async def test_a_stream_that_is_not_shown_again_is_removed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streams, "IDLE_SECONDS", 0.01)
    service = Service()
    await service.streams.show(HERE, "one")
    await service.removed.wait()
    assert (service.texts, service.streams.get(HERE)) == ({}, None)
