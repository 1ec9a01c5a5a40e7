"""Pages that send too much or invalid frames, or never read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncGenerator, Callable

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidState

from segue.store import pages
from segue.web.frames import FRAME_LIMIT, TEXT_LIMIT
from tests.web.bare_server import Door
from tests.web.browser import WITHIN, Browser
from tests.web.handshake import entered

# Frames


SENSELESS = (
    "",
    "null",
    "[]",
    "{}",
    '"open"',
    "{",
    '{"do":"open"',
    "[" * 100_000,
    '{"do":"open","chat":' + "[" * 50_000 + "]" * 50_000 + "}",
    '{"a":' * 50_000 + "1" + "}" * 50_000,
    '{"do":"open","chat":"x","more":' + '{"a":' * 20_000 + "1" + "}" * 20_000 + "}",
    '{"do":"no such"}',
    '{"do":"open"}',
    '{"do":"open","chat":1}',
    '{"do":"open","chat":"x","chat":"y","do":"health","z":1}',
    '{"do":"open","chat":"x","after":-1}',
    '{"do":"open","chat":"x","after":1.5}',
    '{"do":"open","chat":"x","after":"1"}',
    '{"do":"open","chat":"x","after":9007199254740992}',
    '{"do":"open","chat":"x","after":' + "9" * 5000 + "}",
    '{"do":"open","chat":"x","after":1e400}',
    '{"do":"open","chat":"x","after":NaN}',
    '{"do":"open","chat":"' + "x" * 101 + '"}',
    '{"do":"say","chat":"CHAT","key":"short","text":"x"}',
    '{"do":"say","chat":"CHAT","key":"' + "x" * 65 + '","text":"x"}',
    '{"do":"say","chat":"CHAT","key":"12345678/x","text":"x"}',
    '{"do":"say","chat":"CHAT","key":"12345678\\n","text":"x"}',
    '{"do":"say","chat":"CHAT","key":"12345678","text":""}',
    '{"do":"say","chat":"CHAT","key":"12345678","text":null}',
    '{"do":"say","chat":"CHAT","key":"12345678","text":"x","author":"agent"}',
    '{"do":"say","chat":"CHAT","key":"12345678","text":"' + "x" * (TEXT_LIMIT + 1) + '"}',
    '{"do":"press","chat":"CHAT","key":"12345678","message":9007199254740991,"data":"x"}',
    '{"do":"press","chat":"CHAT","key":"12345678","message":1,"data":"' + "x" * 101 + '"}',
    '{"do":"new","key":"12345678","title":"x"}',
    '{"do":"say","chat":"CHAT","key":"12345678","text":"x"}\0',
    '{"do":"say","chat":"CHAT","key":"12345678","text":"x"}{"do":"health"}',
)


async def test_an_invalid_frame_is_refused_and_has_no_effect(door: Door):
    async with door.browser(await door.key()) as browser:
        chat = await browser.new()
        for frame in SENSELESS:
            await browser.wire.send(frame.replace("CHAT", chat))
            await browser.until("refused")
            assert not await pages.unconfirmed_updates(door.store), frame[:50]
        key = await browser.ask("say", chat=chat, text="good")
        await browser.until("taken", key=key)
    assert [update.text for update in await pages.unconfirmed_updates(door.store)] == ["good"]
    assert await door.store.read(lambda tx: tx.one("SELECT count(*) FROM pages")) == (1,)


async def test_a_binary_frame_is_ignored(door: Door):
    async with door.browser(await door.key()) as browser:
        chat = await browser.new()
        say = {"do": "say", "chat": chat, "key": "12345678", "text": "x"}
        for frame in (json.dumps(say).encode(), b"\xff\xfe", b""):
            await browser.wire.send(frame)
            await browser.until("refused")
    assert await pages.unconfirmed_updates(door.store) == ()


async def test_the_longest_allowed_text_is_accepted(door: Door):
    async with door.browser(await door.key()) as browser:
        chat = await browser.new()
        key = await browser.ask("say", chat=chat, text="ü" * TEXT_LIMIT)
        await browser.until("taken", key=key)


async def test_an_oversized_frame_closes_only_its_connection(door: Door):
    key = await door.key()
    async with door.browser(key) as browser, door.browser(key) as other:
        chat = await browser.new()
        await browser.ask("say", chat=chat, text="x" * FRAME_LIMIT)
        with pytest.raises(ConnectionClosed) as closed:
            await browser.until("taken")
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
        key = await other.ask("say", chat=chat, text="good")
        await other.until("taken", key=key)
    assert [update.text for update in await pages.unconfirmed_updates(door.store)] == ["good"]


async def test_a_frame_in_too_many_parts_closes_the_connection(door: Door):
    async with door.browser(await door.key()) as browser:
        parts = ("x" * 10_000 for _ in range(FRAME_LIMIT // 10_000 + 1))
        with contextlib.suppress(ConnectionClosed):  # it may be closed before the last
            await browser.wire.send(parts)
        with pytest.raises(ConnectionClosed):
            await browser.until("taken")


async def test_a_press_of_an_unknown_button_is_ignored(door: Door):
    async with door.browser(await door.key()) as browser:
        chat, other = await browser.new(), await browser.new()
        shown = await pages.show(door.store, chat, "1", "Well?", (("Yes", "y"),))
        for where, number, data in (
            (chat, shown.no, "n"),
            (chat, shown.no, ""),
            (chat, shown.no + 1, "y"),
            (other, shown.no, "y"),
        ):
            key = await browser.ask("press", chat=where, message=number, data=data)
            assert (await browser.until("refused"))["key"] == key
        await pages.edit(door.store, shown.no, "Too late")
        key = await browser.ask("press", chat=chat, message=shown.no, data="y")
        assert (await browser.until("refused"))["key"] == key
    assert await pages.unconfirmed_updates(door.store) == ()


# Clients that never read


@contextlib.asynccontextmanager
async def deaf(door: Door) -> AsyncGenerator[ClientConnection]:
    """A page that has opened a long conversation, and no longer reads."""
    page = await pages.begin(door.store, "me", "Long", key="1")
    for n in range(20):
        await pages.show(door.store, page.id, f"m{n}", f"{n} " + "word " * 19_000)
    async with entered(door.server.url, await door.key(), max_queue=1) as (wire, _):
        wire.transport.pause_reading()
        for _ in range(300):
            await wire.send(json.dumps({"do": "open", "chat": page.id}))
        yield wire
        wire.transport.abort()


def unread(door: Door) -> int:
    """The bytes that the server buffers for pages that do not read them."""
    return sum(c.transport.get_write_buffer_size() for c in door.server.websockets)


def with_little_room(door: Door) -> socket.socket:
    """A connection with small kernel buffers, for a client that does not read."""
    for one in door.server.sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect(("127.0.0.1", door.port))
    return made


def talks(door: Door) -> int:
    return len(door.page.open_pages)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN):
        while not holds():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)


async def test_a_client_that_does_not_read_gets_no_further_responses(door: Door):
    async with deaf(door), door.browser(await door.key()) as browser:
        await until(lambda: unread(door) > 0)
        await browser.new()  # the others are served
        pages = door.page.open_pages
        [stuck] = [it for it in pages if it._socket.transport.get_write_buffer_size()]
        # Of hundreds of responses one is being sent, and the news of the other's chat; the other
        # responses are not even started.
        assert stuck._out.qsize() <= 2
        assert unread(door) < 4_000_000
        assert talks(door) == 2


async def test_a_client_that_does_not_read_for_too_long_is_disconnected(
    door: Door, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("segue.web.open_page.PATIENCE", 0.2)
    async with deaf(door):
        await until(lambda: not talks(door))
    assert unread(door) == 0


async def test_a_client_that_does_not_read_is_disconnected_when_its_queue_is_full(door: Door):
    async with deaf(door):
        await until(lambda: unread(door) > 0)
        for _ in range(2000):
            door.page.changed("", 1)
        await until(lambda: not talks(door))


async def test_a_client_that_pings_without_reading_is_disconnected(door: Door):
    key = await door.key()
    made = with_little_room(door)
    async with entered(door.server.url, key, sock=made) as (wire, _):
        wire.transport.pause_reading()
        most = 0
        with contextlib.suppress(ConnectionError, InvalidState):
            for _ in range(200_000):
                wire.protocol.send_ping(b"x" * 125)
                wire.send_data()
                await wire.drain()
                most = max(most, unread(door))
        await until(lambda: not talks(door))
        assert most < 2 * FRAME_LIMIT


async def test_a_page_is_notified_when_its_server_stops(door: Door):
    async with door.browser(await door.key()) as browser:
        await browser.until("hello")
        await door.server.stop()
        with pytest.raises(ConnectionClosed) as closed:
            await browser.until("never")
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001


async def test_a_page_can_disconnect_at_any_moment(door: Door, caplog: pytest.LogCaptureFixture):
    key = await door.key()
    for n in range(10):
        async with door.browser(key) as browser:
            if n % 2:
                chat = await browser.new()
                await browser.ask("say", chat=chat, text="x" * 100_000)
            browser.wire.transport.abort()
    await until(lambda: not talks(door))
    async with door.browser(key) as browser:
        await browser.until("hello")
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_a_store_error_closes_the_connection_and_is_logged(
    door: Door, caplog: pytest.LogCaptureFixture
):
    """A page that gets no more updates must not look like an idle one."""

    async def broken(browser: Browser) -> None:
        await door.store.close()
        door.page.changed("", 1)
        await browser.until("never")

    async with door.browser(await door.key()) as browser:
        await browser.new()
        with pytest.raises(ConnectionClosed):
            await broken(browser)
    await until(lambda: "connection handler failed" in caplog.text)
