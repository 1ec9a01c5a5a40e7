"""Attacks on the page's server by other sites, hosts and programs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from segue.store import pages, pairings
from segue.web import static_files
from segue.web.http import MOST_STRANGERS, Strangers
from tests.web.bare_server import Door, opened_door, page_server, parse
from tests.web.browser import WITHIN
from tests.web.handshake import opened

SAFE = {
    "content-security-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "permissions-policy",
    "referrer-policy",
    "x-content-type-options",
    "x-frame-options",
    "cache-control",
}
OF_PROXIES = (
    "Forwarded",
    "Via",
    "CDN-Loop",
    "True-Client-IP",
    "Fastly-Client-IP",
    "Fly-Client-IP",
    "X-Real-IP",
    "X-Amzn-Trace-Id",
    "X-Azure-ClientIP",
    "X-Vercel-Forwarded-For",
    "WL-Proxy-Client-IP",
    "Proxy-Client-IP",
    "CloudFront-Viewer-Address",
    "Incap-Client-IP",
    "x_forwarded_for",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-Prefix",
    "X-Forwarded-Ssl",
    "X-Original-Forwarded-For",
    "X-Envoy-External-Address",
    "CF-Connecting-IP",
    "CF-IPCountry",
    "Tailscale-User-Login",
)
"""Headers of proxies and tunnels that are in use."""
EVERY_PATH = ("/", "/live", "/app.js", "/nothing")


@pytest.fixture(scope="module", autouse=True)
def runner() -> Generator[asyncio.Runner]:
    """A folder for all tests here, which share a server."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory, runner: asyncio.Runner) -> Generator[Door]:
    """A server for all tests here, which leave nothing behind in it."""
    with opened_door(tmp_path_factory.mktemp("door"), runner) as door:
        yield door
        runner.run(is_as_it_was(door))


async def is_as_it_was(door: Door) -> None:
    assert (await door.ask("/")).status == 200
    assert await door.store.read(lambda tx: tx.rows("SELECT id FROM pages")) == []
    assert not await pages.unconfirmed_updates(door.store)
    assert not door.page.open_pages


@pytest.fixture
def own_door(tmp_path: Path, runner: asyncio.Runner) -> Generator[Door]:
    """A separate server, for tests that use up its connections or stop it."""
    with opened_door(tmp_path, runner) as door:
        yield door


# Other hosts


@pytest.mark.parametrize(
    "host",
    [
        "evil.test",
        "evil.test:{port}",
        "127.0.0.1.evil.test:{port}",
        "localhost.evil.test:{port}",
        "127.0.0.1:{other}",
        "127.0.0.1",
        "127.0.0.1:0{port}",
        "127.0.0.1:{port}.",
        "127.0.0.1.:{port}",
        "localhost.:{port}",
        "LocalHost:{port}",
        "[::1]:{port}",
        "127.1:{port}",
        "2130706433:{port}",
        "0.0.0.0:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "me@127.0.0.1:{port}",
        "127.0.0.1:{port}@evil.test",
        "127.0.0.1:{port}, evil.test",
        "127.0.0.1:{port}/",
        "127.0.0.1:{port}\xa0",
        "\u0031".join(("", "27.0.0.1\xb7:{port}")),
        "http://127.0.0.1:{port}",
    ],
)
async def test_a_request_for_another_host_is_misdirected(door: Door, host: str):
    named = host.format(port=door.port, other=door.port ^ 1)
    for path in EVERY_PATH:
        assert (await door.ask(path, host=named)).status == 421, path


async def test_a_request_without_a_host_is_refused(door: Door):
    for path in EVERY_PATH:
        assert (await door.ask(path, host=None)).status == 400, path
        assert (await door.ask(path, [("Host", "")], host=None)).status == 421, path


async def test_a_request_with_two_hosts_is_refused(door: Door):
    for path in EVERY_PATH:
        assert (await door.ask(path, [("Host", "evil.test")])).status == 400, path
        assert (await door.ask(path, [("Host", door.host)])).status == 400, path


@pytest.mark.parametrize("header", OF_PROXIES)
async def test_a_request_through_a_proxy_is_misdirected(door: Door, header: str):
    """A proxy or tunnel for webhooks may rewrite the Host."""
    for path in EVERY_PATH:
        assert (await door.ask(path, [(header.lower(), "for=192.0.2.1")])).status == 421, path
    origin = ("Origin", f"http://{door.host}")
    assert await door.upgrade([origin, (header, "192.0.2.1")]) == 421


async def test_an_http_1_0_request_without_a_host_is_misdirected(door: Door):
    answer = await door.send(b"GET / HTTP/1.0\r\n\r\n")
    assert answer is not None
    assert answer.status == 421


async def test_the_address_of_the_server_is_accepted(door: Door):
    answer = await door.ask("/", host=f"127.0.0.1:{door.port}")
    assert answer.status == 200
    assert b"<!doctype html>" in answer.body.lower()


async def test_localhost_redirects_to_the_address(door: Door):
    """Browsers may resolve that name to ::1 as well, where another account can listen."""
    localhost = f"localhost:{door.port}"
    answer = await door.ask("/", host=localhost)
    assert (answer.status, answer.one("Location")) == (307, f"{door.server.url}/")
    assert (await door.ask("/app.js", host=localhost)).status == 421
    assert await door.upgrade([("Origin", f"http://{localhost}")], host=localhost) == 421


async def test_an_absolute_url_of_another_host_is_not_found(door: Door):
    assert (await door.ask("http://evil.test/")).status == 404
    assert (await door.ask(f"http://localhost:{door.port}/")).status == 404


# Other sites


FOREIGN = [
    "https://evil.test",
    "null",
    "",
    "file://",
    "http://{host}.evil.test",
    "http://{host}/",
    "https://{host}",
    "http://localhost:{other}",
    "http://localhost:{port}",
    "http://evil.test http://{host}",
]


@pytest.mark.parametrize("origin", FOREIGN)
async def test_a_request_from_another_origin_is_forbidden(door: Door, origin: str):
    """Another name of the same server is another origin, too."""
    named = origin.format(host=door.host, port=door.port, other=door.port ^ 1)
    for path in EVERY_PATH:
        answer = await door.ask(path, [("Origin", named)])
        assert answer.status == 403, path
        assert not answer.all("Access-Control-Allow-Origin"), path


@pytest.mark.parametrize("origin", FOREIGN)
async def test_another_site_cannot_open_the_websocket(door: Door, origin: str):
    named = origin.format(host=door.host, port=door.port, other=door.port ^ 1)
    assert await door.upgrade([("Origin", named)]) == 403
    good = ("Origin", f"http://{door.host}")
    assert await door.upgrade([good, ("Origin", named)]) == 403
    assert await door.upgrade([good]) == 101


async def test_a_websocket_without_an_origin_is_refused(door: Door):
    assert await door.upgrade([]) == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "", "odd"])
async def test_a_cross_site_request_is_forbidden(door: Door, site: str):
    headers = [("Sec-Fetch-Site", site)]
    for path in EVERY_PATH:
        assert (await door.ask(path, headers)).status == 403, path
        assert (await door.ask(path, [("Sec-Fetch-Site", "none"), *headers])).status == 403, path


@pytest.mark.parametrize("site", ["none", "same-origin"])
async def test_the_requests_of_the_page_are_accepted(door: Door, site: str):
    origin = ("Origin", f"http://{door.host}")
    assert (await door.ask("/", [("Sec-Fetch-Site", site), origin])).status == 200


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "get", "X"]
)
async def test_only_get_is_answered(door: Door, method: str):
    for path in EVERY_PATH:
        answer = await door.ask(path, [("Origin", f"http://{door.host}")], method=method)
        assert (answer.status, answer.one("Allow")) == (405, "GET"), path


async def test_a_form_of_another_site_is_forbidden(door: Door):
    form = [("Origin", "https://evil.test")]
    kind = ("Content-Type", "application/x-www-form-urlencoded")
    for path in EVERY_PATH:
        assert (await door.ask(path, [*form, kind], method="POST")).status == 403


async def test_a_request_with_a_body_is_not_read(door: Door):
    for length in (b"Content-Length: 5", b"Transfer-Encoding: chunked"):
        head = b"POST / HTTP/1.1\r\nHost: " + door.host.encode() + b"\r\n" + length
        answer = await door.send(head + b"\r\n\r\nhello")
        assert answer is not None
        assert answer.status == 405


# Paths


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/..%2fserver.py",
        "/%2e%2e/server.py",
        "//app.js",
        "//evil.test/",
        "/./index.html",
        "/assets/index.html",
        "/index.html/",
        "/index.html%00.js",
        "/INDEX.HTML",
        "/live/",
        "/exchange",
        "/\\..\\..\\",
        "/etc/passwd",
        "/~root",
        "/.git/config",
        "*",
        "index.html",
        "/;/index.html",
        "/" + "a" * 7000,
        "/" + "../" * 2000,
    ],
)
async def test_an_unusual_path_is_not_found(door: Door, path: str):
    answer = await door.ask(path)
    assert (answer.status, answer.body) == (404, b"Not Found\n")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET  / HTTP/1.1\r\nHost: {host}\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: {host}\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nHost: {host}\r\n X: folded\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost : {host}\r\n\r\n", 400),
        (b"GET /\xc3\xa9 HTTP/1.1\r\nHost: {host}\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: {host}\r\nX: a\0b\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello over TLS\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
    ],
)
async def test_a_malformed_request_is_refused(door: Door, raw: bytes, status: int):
    answer = await door.send(raw.replace(b"{host}", door.host.encode()))
    assert answer is not None
    assert answer.status == status
    assert (await door.ask("/")).status == 200


# Response headers


async def test_every_response_has_the_security_headers(door: Door):
    host = ("Host", door.host)
    origin = ("Origin", f"http://{door.host}")
    long, many = ("X-Long", "x" * 20_000), [("X-Many", "x" * 100)] * 200
    answers = {
        200: await door.ask("/"),
        307: await door.ask("/", host=f"localhost:{door.port}"),
        403: await door.ask("/", [("Origin", "https://evil.test")]),
        404: await door.ask("/nothing"),
        405: await door.ask("/", method="POST"),
        421: await door.ask("/", host="evil.test"),
        426: await door.ask("/live", [origin]),
        431: await door.ask("/", [long]),
        400: await door.ask("/live", [origin, ("Connection", "Upgrade"), ("Upgrade", "websocket")]),
    }
    assert {status: answer.status for status, answer in answers.items()} == {
        status: status for status in answers
    }
    others = (await door.ask("/", many), await door.ask("/" + "x" * 20_000))
    assert [answer.status for answer in others] == [431, 431]
    for answer in (*answers.values(), await door.ask("/", [host]), *others):
        assert {name for name, _ in answer.headers} >= SAFE, answer
        assert answer.one("X-Content-Type-Options") == "nosniff"
        assert not answer.all("Server")


async def test_the_content_security_policy_allows_no_other_origin(door: Door):
    parts = (await door.ask("/")).one("Content-Security-Policy").split("; ")
    policy = {name: values for name, *values in (part.split() for part in parts)}
    assert policy.pop("img-src") == ["'self'", "data:", "blob:"]
    assert policy.pop("connect-src") == ["'self'", f"ws://{door.host}"]
    assert {name: value for name, value in policy.items() if value != ["'none'"]} == {
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "manifest-src": ["'self'"],
    }
    assert policy.keys() >= {"default-src", "base-uri", "form-action", "frame-ancestors"}


def test_every_file_of_the_page_complies_with_the_policy():
    for path, file in static_files.load().items():
        body = file.body
        if path.endswith((".html", "/")):
            assert b"<style" not in body.lower()
            assert b" style=" not in body.lower()
            assert b" onclick=" not in body.lower()
            for script in body.lower().split(b"<script")[1:]:
                tag, _, inside = script.partition(b">")
                assert b" src=" in tag
                assert inside.startswith(b"</script>")


# Addresses


async def listens(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def test_the_server_listens_on_loopback_only(door: Door):
    [bound] = door.server.sockets
    assert bound.getsockname()[0] == "127.0.0.1"
    assert not await listens("127.0.0.2", door.port)


async def test_the_page_is_served_only_at_the_configured_addresses(door: Door):
    server = page_server(door.store, ["127.0.0.1", "127.0.0.2"])
    place = await server.start(0)
    try:
        assert place.addresses == ("127.0.0.1", "127.0.0.2")
        assert [one.getsockname()[0] for one in server.sockets] == [*place.addresses]
        lan = Door(server, door.store, door.clock)
        assert server.url == f"http://127.0.0.2:{place.port}"
        assert not await listens("127.0.0.3", place.port)
        for address in place.addresses:
            assert (await lan.ask("/", host=f"{address}:{place.port}")).status == 200
        assert (await lan.ask("/", host=f"evil.test:{place.port}")).status == 421
        assert (await lan.ask("/", host=f"127.0.0.3:{place.port}")).status == 421
        key = await lan.key()
        assert await lan.knows(key)
        # A browser keeps its key for one address only.
        assert not await lan.knows(key, f"http://127.0.0.1:{place.port}")
    finally:
        await server.stop()


# Connection limits


async def test_a_request_that_never_ends_times_out(door: Door, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("segue.web.protocols.OPENING", 0.3)
    slow = page_server(door.store)
    await slow.start(0)
    try:
        port = Door(slow, door.store, door.clock).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: ")
        ended = asyncio.ensure_future(reader.read())
        async with asyncio.timeout(WITHIN):
            while not ended.done():  # sending a little now and then does not help it
                writer.write(b"x")
                await asyncio.wait([ended], timeout=0.02)
        with contextlib.suppress(ConnectionResetError):
            assert await ended == b""
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    finally:
        await slow.stop()


@contextlib.asynccontextmanager
async def silent(door: Door, count: int) -> AsyncGenerator[list[asyncio.StreamReader]]:
    """That many idle connections, one after the other."""
    made = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(count)]
    try:
        yield [reader for reader, _ in made]
    finally:
        for _, writer in made:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def test_the_page_works_under_any_number_of_other_connections(
    own_door: Door, caplog: pytest.LogCaptureFixture
):
    key = await own_door.key()
    async with own_door.browser(key) as before, silent(own_door, 3 * MOST_STRANGERS):
        assert (await own_door.ask("/")).status == 200
        async with own_door.browser(key) as browser, silent(own_door, 2 * MOST_STRANGERS):
            await browser.new()
            await before.new()
            assert await own_door.pair(await pairings.link(own_door.store, "me"))
        assert len(own_door.server.site.strangers) <= MOST_STRANGERS
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


async def test_the_oldest_of_too_many_connections_is_closed_with_a_reason(own_door: Door):
    async with silent(own_door, MOST_STRANGERS + 2) as readers:
        async with asyncio.timeout(WITHIN):
            answers = [parse(await reader.read()) for reader in readers[:2]]
        assert [answer.status for answer in answers] == [503, 503]
        for answer in answers:
            assert {name for name, _ in answer.headers} >= SAFE
        assert not readers[2].at_eof()


async def test_an_unauthenticated_page_is_closed_first_with_a_reason(own_door: Door):
    async with opened(own_door.server.url) as wire, silent(own_door, MOST_STRANGERS):
        async with asyncio.timeout(WITHIN):
            await wire.wait_closed()
        assert (wire.close_code, wire.close_reason) == (1013, "too many connections")


def test_connections_of_the_address_with_the_most_are_closed_first():
    strangers = Strangers()
    gone: list[int] = []
    strangers.add(-1, "192.168.1.2", lambda: gone.append(-1))
    for n in range(3 * MOST_STRANGERS):
        strangers.add(n, "192.168.1.3", lambda n=n: gone.append(n))
    assert gone == [*range(2 * MOST_STRANGERS + 1)]


async def test_a_server_full_of_unauthenticated_connections_can_be_stopped(own_door: Door):
    held = [socket.create_connection(("127.0.0.1", own_door.port)) for _ in range(20)]
    async with asyncio.timeout(WITHIN):
        await own_door.server.stop()
    for one in held:
        one.close()
