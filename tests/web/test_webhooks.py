"""Requests from platforms to the gateway's server, from outside and through proxies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

import segue.store
from segue import config
from segue.agent.models.scripted import ScriptedModel
from segue.config import WebSettings
from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.errors import ConnectFailed
from segue.core.session import ME
from segue.gateway import connections
from segue.gateway.service import Gateway
from segue.platforms.adapter import UnavailableAdapter
from segue.platforms.base import Inbound, InboundKind, MenuEntry
from segue.platforms.spec import PlatformSettings
from segue.platforms.webhook import WebhookRequest, WebhookResponse, WebhookRules
from segue.store import owners, pages
from segue.store.processes import machine
from segue.testing.http import request
from segue.turns import Turns
from segue.turns.agents import Agents
from segue.web import hooks, protocols
from segue.web.http import MOST_SENDERS
from segue.web.page import WebPage
from segue.web.protocols import HttpProtocol
from segue.web.server import SharedServer
from tests.harness.house import Offered, echoing
from tests.harness.networks import reserved_port
from tests.web.bare_server import Answer, Door, Headers, parse, read_answer
from tests.web.browser import WITHIN
from tests.web.handshake import entered
from tests.web.test_attacks import SAFE

HOOK = "/hooks/whatsapp"
LIMIT = 1000
RULES = WebhookRules(methods=("GET", "POST"), body_limit=LIMIT, seconds=3600)


@dataclass
class Recorder:
    """A webhook that records its requests."""

    webhook_rules: WebhookRules = RULES
    requests: list[WebhookRequest] = field(default_factory=list[WebhookRequest])
    then: Callable[[WebhookRequest], Awaitable[WebhookResponse]] | None = None

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResponse:
        self.requests.append(request)
        return await self.then(request) if self.then else WebhookResponse(body=b"taken")


@pytest.fixture
def hook(door: Door) -> Recorder:
    """A webhook mounted beside the page of `door`."""
    hook = Recorder()
    door.server.hooks.mount(Platform.WHATSAPP, hook)
    return hook


def post(body: bytes, headers: Headers = (), *, path: str = HOOK, chunk: int = 0) -> bytes:
    """A request as a tunnel passes it on, in chunks of that size or with its length."""
    if chunk:
        parts = [body[n : n + chunk] for n in range(0, len(body), chunk)]
        framing = ("Transfer-Encoding", "chunked")
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))
    else:
        framing = ("Content-Length", str(len(body)))
    lines = (f"{key}: {value}" for key, value in (("Host", "me.example"), framing, *headers))
    return "\r\n".join((f"POST {path} HTTP/1.1", *lines, "", "")).encode() + body


async def sent(door: Door, raw: bytes) -> Answer:
    answer = await door.send(raw)
    assert answer is not None
    assert {name for name, _ in answer.headers} >= SAFE
    return answer


@contextlib.asynccontextmanager
async def connection(
    door: Door, raw: bytes
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that has sent these bytes and stays open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(raw)
    try:
        async with asyncio.timeout(WITHIN):
            yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


# Requests


@pytest.mark.parametrize("chunk", [0, 1, 100, 5000])
async def test_a_post_arrives_with_its_exact_bytes(door: Door, hook: Recorder, chunk: int):
    body = bytes(range(256)) + b"\r\n\r\n0\r\n\r\n" + '{"ü": "\\u00fc"}\r\n'.encode()
    headers = [("X-Hub-Signature-256", "sha256=ab"), ("X-Twice", "a"), ("x-twice", "b")]
    answer = await sent(door, post(body, headers, path=f"{HOOK}?a=1&b=%26", chunk=chunk))
    assert (answer.status, answer.body) == (200, b"taken")
    [request] = hook.requests
    assert request.body == body
    assert (request.method, request.query) == ("POST", {"a": "1", "b": "&"})
    assert request.headers["x-hub-signature-256"] == "sha256=ab"
    assert request.headers["x-twice"] == "a, b"


async def test_a_get_is_answered_with_its_challenge(door: Door, hook: Recorder):
    async def challenge(request: WebhookRequest) -> WebhookResponse:
        return WebhookResponse(body=request.query["hub.challenge"].encode())

    hook.then = challenge
    query = "hub.mode=subscribe&hub.verify_token=secret&hub.challenge=115%3Cscript%3E"
    answer = await door.ask(f"{HOOK}?{query}", host="me.example")
    assert (answer.status, answer.body) == (200, b"115<script>")
    assert answer.one("Content-Type") == "text/plain"
    assert {name for name, _ in answer.headers} >= SAFE


async def test_an_error_status_of_the_handler_is_returned(door: Door, hook: Recorder):
    async def refuse(request: WebhookRequest) -> WebhookResponse:
        return WebhookResponse(status=HTTPStatus.FORBIDDEN)

    hook.then = refuse
    assert (await sent(door, post(b"{}"))).status == 403


async def test_the_response_waits_for_the_handler(door: Door, hook: Recorder):
    recorded = asyncio.Event()

    async def record(request: WebhookRequest) -> WebhookResponse:
        await recorded.wait()
        return WebhookResponse()

    hook.then = record
    async with connection(door, post(b"{}")) as (reader, writer):
        writer.write_eof()  # a client may close its side as soon as it has sent everything
        answer = asyncio.ensure_future(reader.read())
        done, _ = await asyncio.wait([answer], timeout=0.1)
        assert not done
        recorded.set()
        assert parse(await answer).status == 200


async def test_expect_100_continue_is_answered(door: Door, hook: Recorder):
    raw = post(b"hello", [("Expect", "100-continue")])
    async with connection(door, raw.removesuffix(b"hello")) as (reader, writer):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hello")
        assert parse(await reader.read()).status == 200
    assert hook.requests[0].body == b"hello"


# Refusals


@pytest.mark.parametrize(
    "path",
    ["/hooks/", "/hooks/slack", HOOK + "/", HOOK + "/more", "/hooks/%77hatsapp", "/hooks/?a"],
)
async def test_an_unknown_hook_is_not_found(door: Door, hook: Recorder, path: str):
    assert (await sent(door, post(b"{}", path=path))).status == 404
    assert hook.requests == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "OPTIONS", "post"])
async def test_another_method_is_not_allowed(door: Door, hook: Recorder, method: str):
    answer = await door.ask(HOOK, method=method, host="me.example")
    assert (answer.status, answer.one("Allow")) == (405, "GET, POST")
    assert hook.requests == []


@pytest.mark.parametrize("chunk", [0, 100])
async def test_a_body_beyond_the_limit_is_too_large(door: Door, hook: Recorder, chunk: int):
    assert (await sent(door, post(b"x" * LIMIT, chunk=chunk))).status == 200
    assert (await sent(door, post(b"x" * (LIMIT + 1), chunk=chunk))).status == 413
    assert (await sent(door, post(b"x" * 500_000, chunk=chunk))).status == 413
    assert len(hook.requests) == 1


async def test_too_large_a_body_is_refused_before_it_is_sent(door: Door, hook: Recorder):
    raw = post(b"x" * 9_999_999).rstrip(b"x")
    assert (await sent(door, raw)).status == 413


async def test_a_body_in_too_many_chunks_is_refused(door: Door, hook: Recorder):
    hook.webhook_rules = WebhookRules(body_limit=1_000_000)
    assert (await sent(door, post(b"x" * 600, chunk=1))).status == 413
    assert (await sent(door, post(b"x" * 200_000, chunk=99))).status == 413
    assert hook.requests == []
    assert (await sent(door, post(b"x" * 512, chunk=1))).status == 200
    assert (await sent(door, post(b"x" * 900_000, chunk=256))).status == 200


async def test_a_slow_body_times_out(door: Door, hook: Recorder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("segue.web.hooks.SENDING", 0.2)
    async with connection(door, post(b"x" * 100)[:-1]) as (reader, _):
        assert parse(await reader.read()).status == 408
    assert hook.requests == []


async def test_a_body_that_ends_early_is_not_handled(door: Door, hook: Recorder):
    async with connection(door, post(b"x" * 100)[:-1]) as (reader, writer):
        writer.write_eof()
        assert await reader.read() == b""
    assert hook.requests == []


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: -1",
        "Content-Length: 0x2",
        "Content-Length: 99999999999999999999999999",
        "Transfer-Encoding: chunked\r\n\r\nzz",
    ],
)
async def test_a_malformed_body_is_refused(door: Door, hook: Recorder, framing: str):
    raw = f"POST {HOOK} HTTP/1.1\r\nHost: me.example\r\n{framing}\r\n\r\n{{}}"
    assert (await sent(door, raw.encode())).status == 400
    assert hook.requests == []


async def test_too_many_fields_in_a_query_are_refused(door: Door, hook: Recorder):
    assert (await sent(door, post(b"{}", path=f"{HOOK}?{'a&' * 200}"))).status == 400


async def test_a_broken_handler_is_an_error_without_details(
    door: Door, hook: Recorder, caplog: pytest.LogCaptureFixture
):
    async def fail(request: WebhookRequest) -> WebhookResponse:
        raise ValueError("a detail")

    hook.then = fail
    answer = await sent(door, post(b"{}", path=f"{HOOK}?hub.verify_token=secret"))
    assert (answer.status, answer.body) == (500, b"Internal Server Error\n")
    [record] = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert record.getMessage() == f"request failed path={HOOK}"
    assert "a detail" in caplog.text
    hook.then = None
    assert (await sent(door, post(b"{}"))).status == 200


async def test_a_handler_that_takes_too_long_is_cancelled(
    door: Door, hook: Recorder, caplog: pytest.LogCaptureFixture
):
    async def sleep(request: WebhookRequest) -> WebhookResponse:
        await asyncio.sleep(WITHIN)
        raise AssertionError

    hook.webhook_rules = WebhookRules(seconds=0.1)
    hook.then = sleep
    assert (await sent(door, post(b"{}"))).status == 503
    assert "webhook timed out platform=whatsapp" in caplog.text


# Floods


async def test_data_after_a_request_is_not_buffered(door: Door, hook: Recorder):
    release = asyncio.Event()

    async def wait(request: WebhookRequest) -> WebhookResponse:
        await release.wait()
        return WebhookResponse()

    hook.then = wait
    async with connection(door, post(b"1") + post(b"2")) as (reader, writer):
        await until(lambda: bool(hook.requests))
        for _ in range(10):
            writer.write(b"x" * 100_000)
            await writer.drain()
        [one] = door.server.site.connections
        assert len(one.conn.trailing_data[0]) < 1000
        release.set()
        assert parse(await reader.read()).status == 200
    assert [request.body for request in hook.requests] == [b"1"]


async def test_with_too_many_unfinished_bodies_the_oldest_is_refused(door: Door, hook: Recorder):
    async with contextlib.AsyncExitStack() as stack:
        unfinished = post(b"x" * 100)[:-1]
        open_ones = [
            await stack.enter_async_context(connection(door, unfinished))
            for _ in range(MOST_SENDERS + 1)
        ]
        assert parse(await open_ones[0][0].read()).status == 503
        assert len(door.server.site.senders) == MOST_SENDERS
        assert (await sent(door, post(b"{}"))).status == 200  # the next-oldest is closed
        open_ones[-1][1].write(b"x")
        assert parse(await open_ones[-1][0].read()).status == 200
    assert len(hook.requests) == 2


async def test_requests_beyond_the_concurrency_limit_are_refused(
    door: Door, hook: Recorder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(hooks, "MOST_HOOKS", 2)
    release = asyncio.Event()

    async def wait(request: WebhookRequest) -> WebhookResponse:
        await release.wait()
        return WebhookResponse()

    hook.then = wait
    async with connection(door, post(b"1")) as (first, _), connection(door, post(b"2")):
        await until(lambda: len(hook.requests) == 2)
        assert (await sent(door, post(b"3"))).status == 503
        release.set()
        assert parse(await first.read()).status == 200
    assert (await sent(door, post(b"4"))).status == 200


async def test_a_client_that_does_not_read_is_disconnected(
    door: Door, hook: Recorder, monkeypatch: pytest.MonkeyPatch
):
    async def much(request: WebhookRequest) -> WebhookResponse:
        return WebhookResponse(body=b"x" * 5_000_000)

    async def unread() -> HttpProtocol:
        await until(lambda: bool(hook.requests))
        hook.requests.clear()
        [one] = door.server.site.connections
        await until(lambda: one.transport.get_write_buffer_size() > 1_000_000)
        return one

    hook.then = much
    async with connection(door, post(b"{}")) as (reader, _):
        reader._transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        (await unread()).send_away()
        async with asyncio.timeout(protocols.OPENING / 2):
            await until(lambda: not door.server.site.connections)
    monkeypatch.setattr(protocols, "OPENING", 0.2)
    async with connection(door, post(b"{}")) as (reader, _):
        reader._transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        await unread()
        await until(lambda: not door.server.site.connections)
    assert len(door.server.site.strangers) == 0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN):
        while not holds():  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.005)


# Beside the page


async def test_a_cross_origin_request_reaches_the_hook_and_not_the_page(door: Door, hook: Recorder):
    headers = [
        ("Origin", "https://evil.test"),
        ("Sec-Fetch-Site", "cross-site"),
        ("X-Forwarded-For", "192.0.2.1"),
    ]
    assert (await sent(door, post(b"{}", headers))).status == 200
    for path in ("/", "/live", "/app.js", "/hooks", "/hooks/../app.js"):
        status = (await door.ask(path, headers, host="me.example")).status
        assert status == (404 if path.startswith("/hooks/") else 421), path
    assert await door.upgrade([("Origin", "http://me.example")], host="me.example") == 421


async def test_the_page_and_a_hook_work_at_the_same_time(door: Door, hook: Recorder):
    async with door.browser(await door.key()) as browser:
        posted = asyncio.gather(*(sent(door, post(b"%d" % n)) for n in range(10)))
        for _ in range(3):
            await browser.new()
        assert [answer.status for answer in await posted] == [200] * 10
        assert (await door.ask("/")).status == 200


async def test_a_hook_is_not_a_websocket(door: Door, hook: Recorder):
    upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
    assert (await sent(door, post(b"{}", upgrade))).status == 200


def upgrade(door: Door) -> bytes:
    """The request for a WebSocket."""
    head = (
        f"GET /live HTTP/1.1\r\nHost: {door.host}\r\nOrigin: {door.server.url}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    return head.encode()


async def test_a_frame_that_arrives_with_the_upgrade_is_read(door: Door):
    greeting = json.dumps({"do": "greet", "key": "unknown", "nonce": "0" * 64})
    frame = Frame(Opcode.TEXT, greeting.encode()).serialize(mask=True)
    async with connection(door, upgrade(door) + frame) as (reader, _):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        assert await reader.readuntil(b"}") == b'\x81\x10{"is":"unknown"}'


async def test_without_a_page_only_hooks_answer(door: Door, hook: Recorder):
    key = await door.key()
    async with entered(door.server.url, key) as (wire, _):
        await door.server.close_page()
        with pytest.raises(ConnectionClosed):
            await wire.recv()
        assert wire.close_code == 1001
    for path in ("/", "/live", "/app.js", "/nothing"):
        assert (await door.ask(path)).status == 404, path
    assert await door.upgrade([("Origin", f"http://{door.host}")]) == 404
    assert (await sent(door, post(b"{}"))).status == 200


async def test_a_handler_is_cancelled_when_its_hook_is_unmounted(door: Door, hook: Recorder):
    hook.then = forever
    async with connection(door, post(b"{}")) as (reader, _):
        await until(lambda: bool(hook.requests))
        await door.server.hooks.unmount(Platform.WHATSAPP)
        assert parse(await reader.read()).status == 503
    # The platform sends it again.
    assert (await sent(door, post(b"{}"))).status == 503


async def forever(request: WebhookRequest) -> WebhookResponse:
    await asyncio.Event().wait()
    raise AssertionError


# The shared server


@pytest.fixture
def shared(door: Door) -> SharedServer:
    return SharedServer(WebSettings(), door.store)


async def test_the_server_runs_while_something_is_mounted(door: Door, shared: SharedServer):
    await shared.mount(Platform.WHATSAPP, Recorder())
    server = shared.server
    assert server is not None
    there = Door(server, door.store, door.clock)
    assert (await there.ask("/")).status == 404
    url = await shared.mount_page(WebPage(door.store))
    assert (url, shared.server) == (server.url, server)
    assert (await there.ask("/")).status == 200
    await shared.unmount_page()
    assert (await sent(there, post(b"{}"))).status == 200
    await shared.unmount(Platform.WHATSAPP)
    await shared.unmount(Platform.WHATSAPP)
    assert shared.server is None
    with pytest.raises(ConnectionRefusedError):
        await there.ask("/")
    # A proxy finds it at the same port again.
    await shared.mount(Platform.WHATSAPP, Recorder())
    assert f"{shared.server and shared.server.url}" == url
    await shared.unmount(Platform.WHATSAPP)


async def test_a_page_that_reconnects_while_the_server_stops_does_not_find_it_missing(
    door: Door, shared: SharedServer
):
    await shared.mount_page(WebPage(door.store))
    assert shared.server is not None
    there = Door(shared.server, door.store, door.clock)
    async with connection(there, upgrade(there)) as (reader, _):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        stopping = asyncio.create_task(shared.unmount_page())
        await reader.readuntil(b"\x03\xe9")  # going away; we do not answer it
        with pytest.raises(ConnectionRefusedError):
            await there.ask("/")
    await stopping


async def test_a_hook_without_a_port_is_an_error(door: Door):
    shared = SharedServer(WebSettings(port=door.port), door.store)
    with pytest.raises(ConnectFailed, match=f"port {door.port} is held") as failed:
        await shared.mount(Platform.WHATSAPP, Recorder())
    assert failed.value.fields["platform"] is Platform.WHATSAPP
    await shared.unmount(Platform.WHATSAPP)


async def test_a_hook_can_have_a_port_of_its_own(door: Door, shared: SharedServer):
    with reserved_port() as port:
        hook = Recorder(WebhookRules(port=port))
        await shared.mount(Platform.WHATSAPP, hook)
        url = f"http://127.0.0.1:{port}"
        assert await request("POST", f"{url}{HOOK}", b"{}") == (200, b"taken")
        assert (await request("GET", f"{url}/"))[0] == 404
        assert shared.server is None
        with pytest.raises(ConnectFailed, match=r"platforms\.whatsapp\.port"):
            await SharedServer(WebSettings(), door.store).mount(Platform.WHATSAPP, hook)
        await shared.unmount(Platform.WHATSAPP)
        assert (await request("POST", f"{url}{HOOK}", b"{}"))[0] == 0


async def test_a_server_with_a_running_handler_can_be_stopped(door: Door, hook: Recorder):
    hook.then = forever
    async with connection(door, post(b"{}")) as (reader, _):
        await until(lambda: bool(hook.requests))
        await door.server.stop()
        assert parse(await reader.read()).status == 503


# In a gateway


class HookAdapter(UnavailableAdapter):
    """Confirms an update to its platform when the gateway asks for the next one."""

    account = "+49"
    webhook_rules = WebhookRules()

    def __init__(self) -> None:
        super().__init__(Platform.WHATSAPP, "it only receives")
        self._updates: asyncio.Queue[tuple[str, asyncio.Event]] = asyncio.Queue()

    async def connect(self) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    async def offer(self, menu: Sequence[MenuEntry]) -> None: ...

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        while True:
            update, recorded = await self._updates.get()
            yield Inbound(
                kind=InboundKind.MESSAGE,
                update_id=update,
                address=Address(platform=Platform.WHATSAPP, chat_type=ChatType.DM, chat_id="49123"),
                sender=Sender(platform=Platform.WHATSAPP, user_id="49123"),
                text=update,
            )
            recorded.set()

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResponse:
        recorded = asyncio.Event()
        await self._updates.put((request.body.decode(), recorded))
        await recorded.wait()
        return WebhookResponse()


def make(settings: PlatformSettings) -> HookAdapter:
    return HookAdapter()


@pytest.mark.parametrize("page", [True, False])
async def test_a_gateway_mounts_the_hooks_of_its_adapters(tmp_path: Path, port: int, page: bool):
    path = tmp_path / "config.toml"
    path.write_text(
        f"[web]\nenabled = {str(page).lower()}\nport = {port}\n"
        f"[platforms.whatsapp]\nadapter = '{__name__}:make'\n"
    )
    path.chmod(0o600)
    settings = config.load(
        {"SEGUE_CONFIG": str(path), "SEGUE_STORE": f"sqlite://{tmp_path}/segue.db"}
    )
    async with (
        await segue.store.open(settings.store) as store,
        Turns(
            store, Agents(store, settings, Offered(ScriptedModel(echoing()))), titles=False
        ) as turns,
    ):
        await owners.ensure(store, ME)
        stop = asyncio.Event()
        gateway = Gateway(store, turns, settings, *connections.load_adapters(settings, store))
        running = asyncio.create_task(gateway.run(stop))
        served = {Platform.WHATSAPP, Platform.WEB} if page else {Platform.WHATSAPP}
        try:
            await until(lambda: set(gateway.context.connected()) == served or running.done())
            for n in range(3):
                assert (await asked(port, post(b"%d" % n))).status == 200
            get = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
            assert (await asked(port, get.encode())).status == (200 if page else 404)
            place = await pages.location(store, machine())
            assert place is not None
            assert place.port == port
        finally:
            stop.set()
            await running
    with pytest.raises(ConnectionRefusedError):
        await asked(port, post(b"{}"))


async def asked(port: int, raw: bytes) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(raw)
    async with asyncio.timeout(WITHIN):
        answer = await read_answer(reader)
    writer.close()
    await writer.wait_closed()
    return answer


async def test_a_gateway_that_needs_no_server_has_none(tmp_path: Path):
    path = tmp_path / "config.toml"
    path.write_text("[web]\nenabled = false\n")
    settings = config.load({"SEGUE_CONFIG": str(path)})
    async with await segue.store.open(f"sqlite://{tmp_path}/segue.db") as store:
        assert connections.load_adapters(settings, store) == ([], None)


def test_the_server_is_imported_only_to_serve():
    """It would slow down every command."""
    script = (
        "import sys\n"
        "import segue.terminal.web_page, segue.cli.pair, segue.gateway.service\n"
        "server = {'h11', 'starlette', 'uvicorn', 'websockets', 'segue.web.server'}\n"
        "print(sys.modules.keys() & server)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout == "set()\n"


def test_a_gateway_without_page_and_platforms_imports_no_library_for_them(tmp_path: Path):
    path = tmp_path / "config.toml"
    path.write_text("[web]\nenabled = false\n")
    path.chmod(0o600)
    script = (
        "import sys\n"
        "from segue import config\n"
        "from segue.gateway import connections, service\n"
        "connections.load_adapters(config.load({'SEGUE_CONFIG': sys.argv[1]}), None)\n"
        "server = {'h11', 'starlette', 'uvicorn', 'websockets'}\n"
        "print(sys.modules.keys() & {*server, 'httpx', 'httpx2', 'telegram'})"
    )
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout == "set()\n"
