"""Connections that stay open: where each request ends, who makes way, and when they are closed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncGenerator, Iterator
from http import HTTPStatus

import pytest
from websockets.frames import Frame, Opcode

from segue.core.address import Platform
from segue.platforms.webhook import WebhookRequest, WebhookResponse, WebhookRules
from segue.web import hooks, protocols
from segue.web.http import MOST_STRANGERS, Progress, Strangers
from tests.web.bare_server import Answer, Door, parse, read_answer
from tests.web.browser import WITHIN
from tests.web.handshake import opened

HOOK = "/hooks/whatsapp"


class Echo:
    """A webhook that answers with the body."""

    webhook_rules = WebhookRules(methods=("GET", "POST"), seconds=3600)

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResponse:
        self.bodies.append(request.body)
        return WebhookResponse(body=request.body)


@pytest.fixture
def echo(door: Door) -> Echo:
    echo = Echo()
    door.server.hooks.mount(Platform.WHATSAPP, echo)
    return echo


@contextlib.asynccontextmanager
async def connected(
    door: Door,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    try:
        async with asyncio.timeout(WITHIN):
            yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def get(door: Door, path: str = "/icon.svg", headers: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {door.host}\r\n{headers}\r\n".encode()


async def answers(door: Door, raw: bytes) -> list[int]:
    """The statuses of all answers to these bytes, until the server closes the connection."""
    async with connected(door) as (reader, writer):
        writer.write(raw)
        writer.write_eof()
        return [answer.status for answer in split(await reader.read())]


def split(raw: bytes) -> Iterator[Answer]:
    """The answers to requests other than HEAD."""
    while raw:
        head, end, rest = raw.partition(b"\r\n\r\n")
        answer = parse(head + end)
        length = 0 if answer.status in {100, 101, 304} else int(answer.one("Content-Length"))
        yield answer
        raw = rest[length:]


# Where a request ends


INSIDE = b"GET /app.js HTTP/1.1\r\nHost: {host}\r\n\r\n"
"""A request that must not be answered: it is in the body of another."""
FRAMED = {
    "a body with its length": ("Content-Length: %d", b"", b"", 405),
    "two lengths": ("Content-Length: 0\r\nContent-Length: %d", b"", b"", 400),
    "two lengths in one": ("Content-Length: 0, %d", b"", b"", 400),
    "a length with a sign": ("Content-Length: +%d", b"", b"", 400),
    "a length in hexadecimal": ("Content-Length: 0x%x", b"", b"", 400),
    "a length with a space": ("Content-Length : %d", b"", b"", 400),
    "an empty length": ("Content-Length:", b"", b"", 400),
    "a length and chunks": ("Content-Length: %d\r\nTransfer-Encoding: chunked", b"", b"", 400),
    "chunks and a length": (
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"0\r\n\r\n",
        b"",
        400,
    ),
    "chunks": ("Transfer-Encoding: chunked", b"0\r\n\r\n", b"", 405),
    "an unknown coding": ("Transfer-Encoding: xchunked", b"", b"", 501),
    "a coding after chunks": ("Transfer-Encoding: chunked, identity", b"", b"", 501),
    "two codings": ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"", b"", 501),
    "chunks with a tab": ("Transfer-Encoding:\tchunked", b"0\r\n\r\n", b"", 405),
    "chunks on a folded line": ("Transfer-Encoding:\r\n chunked", b"0\r\n\r\n", b"", 405),
    "chunks after a control character": ("Transfer-Encoding: \x0bchunked", b"0\r\n\r\n", b"", 400),
    "a length on a folded line": ("Content-Length:\r\n %d", b"", b"", 405),
    "a carriage return alone": ("X: a\rContent-Length: %d", b"", b"", 400),
    "a zero byte": ("X: a\0\r\nContent-Length: %d", b"", b"", 400),
}
"""Headers, what comes before and after a request in the body, and the status of the one answer."""


@pytest.mark.parametrize("case", FRAMED)
async def test_a_request_in_the_body_of_another_is_not_answered(door: Door, case: str):
    header, before, after, status = FRAMED[case]
    body = before + INSIDE.replace(b"{host}", door.host.encode()) + after
    header = header % len(body) if "%" in header else header
    head = f"POST / HTTP/1.1\r\nHost: {door.host}\r\n{header}\r\n\r\n".encode()
    assert await answers(door, head + body) == [status]
    assert await answers(door, get(door) + head + body) == [200, status]


CHUNKS = {
    "5\r\nhello\r\n0\r\n\r\n": b"hello",
    "05\r\nhello\r\n0\r\n\r\n": b"hello",
    "5;a=b\r\nhello\r\n0\r\nTrailer: x\r\n\r\n": b"hello",
    "5\nhello\n0\n\n": None,
    "5\r\nhello0\r\n\r\n": None,
    "5\r\nhello\r\r\n0\r\n\r\n": None,
    "5\r\nhelloXX0\r\n\r\n": None,
    "0x5\r\nhello\r\n0\r\n\r\n": None,
    "+5\r\nhello\r\n0\r\n\r\n": None,
    "-5\r\nhello\r\n0\r\n\r\n": None,
    "5 5\r\nhello\r\n0\r\n\r\n": None,
    "\r\n5\r\nhello\r\n0\r\n\r\n": None,
    "fffffffffffffffffffff\r\nhello\r\n0\r\n\r\n": None,
}
"""Bodies in chunks, and what is in them, or None if the body is refused."""


@pytest.mark.parametrize("chunks", CHUNKS)
async def test_a_body_in_odd_chunks_is_read_strictly(door: Door, echo: Echo, chunks: str):
    head = f"POST {HOOK} HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
    found = await answers(door, f"{head}{chunks}".encode() + get(door))
    body = CHUNKS[chunks]
    assert found == ([200] if body is not None else [400])
    assert echo.bodies == ([] if body is None else [body])


async def test_chunks_in_http_1_0_are_refused(door: Door, echo: Echo):
    head = f"POST {HOOK} HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert await answers(door, f"{head}0\r\n\r\n".encode() + get(door)) == [400]


async def test_lines_may_end_in_lf(door: Door):
    lines = get(door).replace(b"\r\n", b"\n")
    assert await answers(door, lines + get(door)) == [200, 200]


async def test_a_folded_header_is_one_header(door: Door):
    assert await answers(door, get(door, headers=f"X: a\r\n Host: {door.host}\r\n")) == [200]


async def test_requests_that_arrive_together_are_answered_in_their_order(door: Door):
    raw = get(door) + get(door, "/nothing.js") + get(door)
    assert await answers(door, raw) == [200, 404]  # a refusal closes the connection
    assert await answers(door, get(door) * 7) == [200] * 7
    async with connected(door) as (reader, writer):
        paths = ["/icon.svg", "/app.js", "/style.css", "/icon.svg"] * 5
        writer.write(b"".join(get(door, path) for path in paths))
        kinds = [(await read_answer(reader)).one("Content-Type") for _ in paths]
    expected = ("image/svg+xml", "text/javascript", "text/css", "image/svg+xml")
    assert [kind.partition(";")[0] for kind in kinds] == [*expected] * 5


async def test_a_request_split_anywhere_is_answered_once(door: Door):
    raw = get(door)
    async with connected(door) as (reader, writer):
        for byte in raw:
            writer.write(bytes([byte]))
            await writer.drain()
        assert (await read_answer(reader)).status == 200
        writer.write(raw)
        assert (await read_answer(reader)).status == 200


async def test_the_body_of_an_answer_does_not_wait_for_the_client_to_confirm_the_head(door: Door):
    async with connected(door) as (reader, writer):
        writer.write(get(door))
        await read_answer(reader)
        [one] = door.server.site.connections
        made = one.transport.get_extra_info("socket")
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_connection_of_hooks_is_closed_after_each(door: Door, echo: Echo):
    """A proxy puts requests of several clients onto one connection."""
    post = f"POST {HOOK} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\n1".encode()
    assert await answers(door, post + post) == [200]
    assert await answers(door, post + get(door)) == [200]
    assert await answers(door, get(door) + post + get(door)) == [200, 200]
    assert echo.bodies == [b"1"] * 3


async def test_each_client_gets_its_own_answers(door: Door, echo: Echo):
    async def client(number: int) -> None:
        async with connected(door) as (reader, writer):
            writer.write(get(door) + get(door, "/app.js"))
            assert (await read_answer(reader)).one("Content-Type") == "image/svg+xml"
            assert (await read_answer(reader)).one("Content-Type").startswith("text/javascript")
            body = b"%d " % number * 1000
            head = f"POST {HOOK} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode())
            await asyncio.sleep(0)
            writer.write(body)
            assert (await read_answer(reader)).body == body

    await asyncio.gather(*(client(number) for number in range(40)))


async def test_the_page_asks_for_no_body(door: Door):
    head = (
        f"POST / HTTP/1.1\r\nHost: {door.host}\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
    )
    assert await answers(door, head.encode() + get(door)) == [405]


async def test_a_page_asked_for_with_a_body_is_sent_and_closed(door: Door):
    raw = get(door, headers="Content-Length: 5\r\n") + b"hello" + get(door)
    assert await answers(door, raw) == [200]


UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


async def test_an_upgrade_with_a_body_is_refused(door: Door):
    origin = f"Origin: {door.server.url}\r\n"
    for framing in ("Content-Length: 5", "Transfer-Encoding: chunked"):
        raw = get(door, "/live", f"{origin}{UPGRADE}{framing}\r\n") + b"hello"
        assert await answers(door, raw) == [400]


async def test_nothing_after_an_upgrade_is_a_request(door: Door):
    raw = get(door, "/live", f"Origin: {door.server.url}\r\n{UPGRADE}")
    async with connected(door) as (reader, writer):
        writer.write(raw + get(door))
        assert (await read_answer(reader)).status == 101
        assert b"HTTP/1.1" not in await reader.read()


async def test_an_upgrade_that_the_websocket_library_does_not_accept_is_refused(
    door: Door, caplog: pytest.LogCaptureFixture
):
    origin = f"Origin: {door.server.url}\r\n"
    odd = UPGRADE.replace("AAAA", "\x80AAAA").encode("latin-1")
    raw = get(door, "/live", origin).removesuffix(b"\r\n") + odd + b"\r\n"
    assert await answers(door, raw) == [400]
    many = "X: x\r\n" * 200
    assert await answers(door, get(door, "/live", f"{origin}{UPGRADE}{many}")) == [431]
    long = f"X: {'x' * 9000}\r\n"
    assert await answers(door, get(door, "/live", f"{origin}{UPGRADE}{long}")) == [431]
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_text_that_is_not_utf_8_before_a_close_frame_ends_the_connection(
    door: Door, caplog: pytest.LogCaptureFixture
):
    raw = get(door, "/live", f"Origin: {door.server.url}\r\n{UPGRADE}")
    text = Frame(Opcode.TEXT, b"\xff").serialize(mask=True)
    close = Frame(Opcode.CLOSE, b"\x03\xe8").serialize(mask=True)
    async with connected(door) as (reader, writer):
        writer.write(raw + text + close)
        assert (await read_answer(reader)).status == 101
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
    assert await gone(door)
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_an_answer_to_a_connection_that_was_closed_for_its_frames_is_no_error(
    door: Door, caplog: pytest.LogCaptureFixture
):
    raw = get(door, "/live", f"Origin: {door.server.url}\r\n{UPGRADE}")
    text = Frame(Opcode.TEXT, b"nonsense").serialize(mask=True)
    unmasked = Frame(Opcode.TEXT, b"nonsense").serialize(mask=False)
    async with connected(door) as (reader, writer):
        writer.write(raw + text + unmasked)
        assert (await read_answer(reader)).status == 101
        assert (await reader.read())[2:4] == b"\x03\xea"
    assert await gone(door)
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_an_unwanted_upgrade_leaves_the_connection_as_it_was(door: Door):
    raw = get(door, headers="Connection: Upgrade\r\nUpgrade: h2c\r\n")
    assert await answers(door, raw + get(door)) == [200, 200]


async def test_an_upgrade_after_other_requests_opens_the_websocket(door: Door):
    async with connected(door) as (reader, writer):
        upgrade = get(door, "/live", f"Origin: {door.server.url}\r\n{UPGRADE}")
        greeting = json.dumps({"do": "greet", "key": "unknown", "nonce": "0" * 64})
        writer.write(
            get(door) + upgrade + Frame(Opcode.TEXT, greeting.encode()).serialize(mask=True)
        )
        assert (await read_answer(reader)).status == 200
        assert (await read_answer(reader)).status == 101
        assert await reader.readuntil(b"}") == b'\x81\x10{"is":"unknown"}'


# Single requests


async def test_head_is_answered_without_a_body(door: Door):
    async with connected(door) as (reader, writer):
        writer.write(get(door).replace(b"GET", b"HEAD"))
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert (parse(head).status, body) == (405, b"")


async def test_a_plain_request_for_the_websocket_says_what_is_needed(door: Door):
    answer = await door.ask("/live", [("Origin", door.server.url)])
    assert (answer.status, answer.one("Upgrade")) == (426, "websocket")
    assert "upgrade" in answer.one("Connection").lower()
    old = UPGRADE.replace("13", "8")
    found = await door.send(get(door, "/live", f"Origin: {door.server.url}\r\n{old}"))
    assert found is not None
    assert (found.status, found.one("Sec-WebSocket-Version")) == (426, "13")


async def test_an_absolute_url_of_our_own_means_its_path(door: Door, echo: Echo):
    assert (await door.ask(f"http://{door.host}/icon.svg")).status == 200
    assert (await door.ask(f"http://{door.host}/", host="evil.test")).status == 421
    hook = f"http://me.example{HOOK}"
    assert (await door.ask(hook, host="me.example")).status == 200


async def test_every_response_has_a_date(door: Door, echo: Echo):
    for path in ("/", "/nothing", "/live", HOOK):
        assert (await door.ask(path)).one("Date").endswith(" GMT"), path


# How long a connection stays open


async def test_half_a_request_on_a_used_connection_times_out(
    door: Door, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(protocols, "OPENING", 0.3)
    async with connected(door) as (reader, writer):
        writer.write(get(door) + get(door)[:-1])
        assert (await read_answer(reader)).status == 200
        ended = asyncio.ensure_future(reader.read())
        while not ended.done():  # sending a little now and then does not help it
            writer.write(b"x")
            await asyncio.wait([ended], timeout=0.02)
        with contextlib.suppress(ConnectionResetError):
            assert await ended == b""


async def test_a_connection_without_requests_is_closed(door: Door, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocols, "OPENING", 0.2)
    async with connected(door) as (reader, writer):
        writer.write(get(door))
        assert (await read_answer(reader)).status == 200
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    await until_empty(door)


async def test_a_client_that_asks_without_reading_is_disconnected(
    door: Door, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(protocols, "OPENING", 0.3)
    async with connected(door) as (reader, writer):
        reader._transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        with contextlib.suppress(ConnectionError):
            while door.server.site.connections or not reader.at_eof():
                writer.write(get(door, "/style.css") * 100)
                await writer.drain()
                buffered = [
                    it.transport.get_write_buffer_size() for it in door.server.site.connections
                ]
                assert sum(buffered) < 1_000_000
                await asyncio.sleep(0.001)
                if writer.is_closing():
                    break


async def until_empty(door: Door) -> None:
    async with asyncio.timeout(WITHIN):
        while door.server.site.connections:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.01)


async def test_a_socket_that_ignores_the_close_frame_is_cut_off(
    door: Door, monkeypatch: pytest.MonkeyPatch
):
    """It keeps its place as long as one that says nothing."""
    monkeypatch.setattr(protocols, "OPENING", 0.5)
    monkeypatch.setattr("segue.web.page.PROVING", 0.2)
    async with connected(door) as (reader, writer):
        writer.write(get(door, "/live", f"Origin: {door.server.url}\r\n{UPGRADE}"))
        assert (await read_answer(reader)).status == 101
        began = asyncio.get_running_loop().time()
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        assert len(door.server.site.strangers) == 0 or await gone(door)
        assert asyncio.get_running_loop().time() - began < WITHIN / 2


async def gone(door: Door) -> bool:
    async with asyncio.timeout(WITHIN):
        while len(door.server.site.strangers):  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.01)
    return True


# Who makes way


def test_half_a_request_makes_way_before_all_others():
    strangers = Strangers()
    gone: list[str] = []
    strangers.add("other", "192.168.1.2", lambda: gone.append("other"), Progress.READ)
    for n in range(2 * MOST_STRANGERS):
        strangers.add(n, "192.168.1.2", lambda n=n: gone.append(str(n)), Progress.HALF)
    assert "other" not in gone
    assert len(strangers) == MOST_STRANGERS


def test_without_half_a_request_the_oldest_makes_way():
    strangers = Strangers()
    gone: list[int] = []
    for n in range(MOST_STRANGERS + 2):
        strangers.add(n, "192.168.1.2", lambda n=n: gone.append(n), Progress.NEW)
        strangers.advance(n, Progress.READ)
    assert gone == [0, 1]


def test_strangers_at_many_addresses_do_not_evict_a_whole_request():
    strangers = Strangers()
    gone: list[str] = []
    strangers.add("whole", "192.168.1.2", lambda: gone.append("whole"))
    for n in range(10 * MOST_STRANGERS):
        add = strangers.add
        add(n, f"10.0.{n // 250}.{n % 250}", lambda n=n: gone.append(str(n)), Progress.HALF)
    assert "whole" not in gone


def test_a_connection_makes_way_only_after_it_could_be_read():
    strangers = Strangers()
    gone: list[int] = []

    def add(n: int, progress: Progress) -> None:
        strangers.add(n, "192.168.1.2", lambda: gone.append(n), progress)

    for n in range(MOST_STRANGERS):
        add(n, Progress.READ)
    for n in range(100, 100 + 3 * MOST_STRANGERS):
        add(n, Progress.NEW)
    assert gone == []
    strangers.advance(170, Progress.HALF)
    assert gone == [170]
    add(300, Progress.NEW)
    add(301, Progress.NEW)
    assert gone == [170, 0]


def test_who_was_authenticated_makes_way_only_for_itself():
    strangers = Strangers(is_known=lambda client: client == "127.0.0.1 1000")
    gone: list[str] = []
    strangers.remember("192.168.1.2")
    for known in ("192.168.1.2", "127.0.0.1 1000"):
        for n in range(3):
            name = f"{known}/{n}"
            strangers.add(name, known, lambda name=name: gone.append(name), Progress.HALF)
    for n in range(10 * MOST_STRANGERS):
        strangers.add(n, f"10.0.{n // 250}.{n % 250}", lambda n=n: gone.append(str(n)))
    assert not [name for name in gone if "/" in name]
    assert len(strangers) == MOST_STRANGERS + 6
    for n in range(2 * MOST_STRANGERS):
        strangers.add(f"more {n}", "192.168.1.2", lambda: None)
    assert len(strangers) == 2 * MOST_STRANGERS + 3


async def test_a_flood_of_half_requests_does_not_keep_the_owner_out(door: Door):
    """It comes from the owner's own address and account."""
    key = await door.key()
    stop = asyncio.Event()

    async def flood() -> None:
        held: list[asyncio.StreamWriter] = []
        while not stop.is_set():
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", door.port)
            except OSError:
                continue
            writer.write(b"GET / HTTP/1.1\r\nHost: ")
            held.append(writer)
            if len(held) > 50:
                held.pop(0).transport.abort()
        for writer in held:
            writer.transport.abort()

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(flood())
        for _ in range(20):
            assert (await door.ask("/icon.svg")).status == 200
            assert await door.knows(key)
        stop.set()


# Memory and logs


async def test_empty_fragments_of_a_stranger_take_little_memory(door: Door):
    async with opened(door.server.url) as wire:
        first = Frame(Opcode.TEXT, b"", fin=False).serialize(mask=True)
        more = Frame(Opcode.CONT, b"", fin=False).serialize(mask=True)
        with contextlib.suppress(ConnectionError):
            wire.transport.write(first + more * 20_000)
            await wire.wait_closed()
        assert wire.close_code == 1009


async def test_pings_to_a_lost_connection_are_not_logged(
    door: Door, caplog: pytest.LogCaptureFixture
):
    ping = Frame(Opcode.PING, b"x").serialize(mask=True)
    for _ in range(5):
        async with opened(door.server.url) as wire:
            wire.transport.write(ping * 2000)
            wire.transport.abort()
    assert await gone(door)
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_refused_hooks_are_counted_and_logged_once(
    door: Door, echo: Echo, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    async def refuse(request: WebhookRequest) -> WebhookResponse:
        return WebhookResponse(status=HTTPStatus.FORBIDDEN)

    monkeypatch.setattr(echo, "handle_webhook", refuse)
    monkeypatch.setattr(hooks, "_SUMMED_SECONDS", 3600.0)
    for _ in range(20):
        assert (await door.ask(HOOK, host="me.example")).status == 403
    await door.server.stop()
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert said == [
        "webhook request refused platform=whatsapp",
        "more webhook requests refused platform=whatsapp number=19",
    ]


# Stopping


async def test_a_hook_that_is_no_longer_mounted_is_to_be_called_again(door: Door, echo: Echo):
    await door.server.hooks.unmount(Platform.WHATSAPP)
    assert (await door.ask(HOOK, host="me.example")).status == 503
    assert (await door.ask("/hooks/slack", host="me.example")).status == 404
    door.server.hooks.mount(Platform.WHATSAPP, echo)
    assert (await door.ask(HOOK, host="me.example")).status == 200


async def test_a_server_that_stops_closes_connections_that_stay_open(door: Door):
    async with connected(door) as (reader, writer):
        writer.write(get(door))
        assert (await read_answer(reader)).status == 200
        await door.server.stop()
        assert await reader.read() == b""
