"""Pages that can be fetched, pages that must not be, and pages that never end."""

from __future__ import annotations

import asyncio
import gzip
import socket
import time
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import httpx2
import pytest

from segue.agent.tools import fetch
from segue.agent.tools.base import OUTPUT_LIMIT, ToolFailed, Workplace
from segue.agent.tools.page import html_text
from segue.agent.tools.web import FETCH
from segue.testing.http import HangUp, Request, Response, serving
from tests.agent.tools.calls import use

AWAY = Workplace(cwd=Path("/"))
NEAR = Workplace(cwd=Path("/"), private_network=True)
PLAIN = {"Content-Type": "text/plain"}
HTML = {"Content-Type": "text/html; charset=utf-8"}


class Site:
    """Responds by path."""

    def __init__(self, pages: Mapping[str, Response]) -> None:
        self.pages = pages
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        return self.pages.get(request.target) or Response(404, PLAIN, b"no such page")


def site(response: Response) -> Site:
    return Site({"/": response})


def moved(to: str, status: int = 302) -> Response:
    return Response(status, {"Location": to, **PLAIN})


async def fetch_one(response: Response) -> str:
    async with serving(site(response)) as url:
        return await use(FETCH, NEAR, url=f"{url}/")


def resolving(monkeypatch: pytest.MonkeyPatch, names: Mapping[str, list[str]]) -> None:
    """Names that this machine does not know, resolved as a name server would."""
    really = socket.getaddrinfo

    def answer(host: str, port: int, *more: int, **named: int) -> list[object]:
        return [
            entry
            for address in names.get(host, [host])
            for entry in really(address, port, *more, **named)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


# Which addresses are allowed

PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "localhost",
    "LOCALHOST",
    "127.1",
    "0x7f.1",
    "2130706433",
    "0x7f000001",
    "127。0。0。1",
    "0.0.0.0",
    "0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "2852039166",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "224.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fd00:ec2::254]",
    "user:password@127.0.0.1",
    "example.com@127.0.0.1",
]


@pytest.mark.parametrize("host", PRIVATE)
async def test_a_private_address_is_refused_in_every_notation(host: str) -> None:
    with pytest.raises(ToolFailed, match="on a private network"):
        await use(FETCH, AWAY, url=f"http://{host}:9/")
    with pytest.raises(ToolFailed, match="on a private network"):
        await fetch._resolve(httpx2.URL(f"https://{host}/"), private=False)


async def test_a_host_is_refused_if_any_of_its_addresses_is_private(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {
        "printer.local": ["127.0.0.1"],
        "router.lan": ["192.168.0.1"],
        "both.example": ["93.184.216.34", "10.0.0.1"],
        "public.example": ["93.184.216.34", "2606:2800:220:1::1"],
    }
    resolving(monkeypatch, names)
    for name in ("printer.local", "router.lan", "both.example"):
        with pytest.raises(ToolFailed, match="on a private network"):
            await use(FETCH, AWAY, url=f"http://{name}/")
    found = await fetch._resolve(httpx2.URL("http://public.example"), private=False)
    assert found == names["public.example"]


async def test_a_private_page_is_fetched_if_the_settings_allow_it() -> None:
    asked = site(Response(200, PLAIN, b"hello"))
    async with serving(asked) as url:
        assert await use(FETCH, NEAR, url=f"{url}/") == "hello"
        port = url.rpartition(":")[2]
        assert await use(FETCH, NEAR, url=f"http://localhost:{port}/") == "hello"
    assert asked.requests[1].headers["host"] == f"localhost:{port}"


async def test_a_redirect_to_a_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # Treat our server as one on the internet, and the only one.
    monkeypatch.setattr(fetch, "_is_public", lambda address: address == "127.0.0.1")
    for target in ("http://127.0.0.2/", "//127.0.0.2/", "http://[::1]/", "http://10.0.0.1/"):
        async with serving(site(moved(target))) as url:
            with pytest.raises(ToolFailed, match="on a private network"):
                await use(FETCH, AWAY, url=f"{url}/")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://a/", "gopher://a/", "data:,x"])
async def test_only_http_urls_are_fetched_even_after_a_redirect(target: str) -> None:
    with pytest.raises(ToolFailed, match="Only http and https"):
        await use(FETCH, NEAR, url=target)
    with pytest.raises(ToolFailed, match=r"Only http and https|cannot be fetched: .*absolute URLs"):
        await fetch_one(moved(target))


async def test_the_connection_uses_the_address_that_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"page.example": ["127.0.0.1"]}
    resolving(monkeypatch, names)
    asked = site(Response(200, PLAIN, b"hello"))
    async with serving(asked) as url:
        port = url.rpartition(":")[2]
        addresses = await fetch._resolve(httpx2.URL(f"http://page.example:{port}/"), private=True)
        names["page.example"] = ["192.0.2.1"]
        async with httpx2.AsyncClient(trust_env=False) as client:
            response = await fetch._get(
                client, httpx2.URL(f"http://page.example:{port}/"), addresses
            )
            await response.aclose()
    assert response.status_code == 200
    assert asked.requests[0].headers["host"] == f"page.example:{port}"


async def test_the_next_address_is_tried_if_the_first_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolving(monkeypatch, {"page.example": ["127.0.0.3", "127.0.0.1"]})
    async with serving(site(Response(200, PLAIN, b"hello"))) as url:
        port = url.rpartition(":")[2]
        assert await use(FETCH, NEAR, url=f"http://page.example:{port}/") == "hello"


async def test_a_proxy_in_our_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert await fetch_one(Response(200, PLAIN, b"hello")) == "hello"


PUBLIC_ADDRESSES = [
    *("1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.0.1", "172.32.0.1", "192.167.0.1"),
    *("100.63.0.1", "100.128.0.1", "2606:2800:220:1::1", "2001:4860:4860::8888"),
    *("2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"),
]
OTHER_ADDRESSES = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.0", "10.255.255.255", "100.64.0.1", "127.0.0.1"),
    *("127.1.2.3", "169.254.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255"),
    *("192.0.0.1", "192.0.0.9", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1"),
    *("198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1"),
    *("239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16", "::", "::1"),
    *("::127.0.0.1", "::8.8.8.8", "::ffff:0.0.0.0", "::ffff:10.0.0.1", "::ffff:127.0.0.1"),
    *("::ffff:169.254.169.254", "::ffff:192.168.0.1", "::ffff:0:127.0.0.1", "::ffff:0:8.8.8.8"),
    *("64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1"),
    *("64:ff9b:1::8.8.8.8", "2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:1::1"),
    *("2002:a9fe:a9fe::", "100::1", "2001::1", "2001:0:7f00:1::", "2001:2::1", "2001:10::1"),
    *("2001:db8::1", "3fff::1", "3fff:fff::1", "4000::1", "5f00::1", "fc00::1", "fd00::1"),
    *("fd00:ec2::254", "fdff::1", "fe80::1", "febf::1", "fec0::1", "ff02::1", "ff0e::1"),
]


@pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
def test_an_address_on_the_internet_is_public(address: str) -> None:
    assert fetch._is_public(address)


def test_any_other_address_is_not_public() -> None:
    assert [address for address in OTHER_ADDRESSES if fetch._is_public(address)] == []


# Pages that cannot be fetched


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "Only http"),
        ("example.com", "Only http"),
        ("http://", "Only http"),
        ("http:///etc/passwd", "Only http"),
        ("http://a..b/", "no host"),
        ("http://" + "a" * 70 + ".example/", "no host"),
        ("http://nobody.invalid/", "no host"),
        ("http://[::1", "cannot be fetched: ."),
        ("http://a\0b/", "cannot be fetched: ."),
        ("http://127.0.0.1:99999/", "no port 99999"),
        ("http://127.0.0.1:0/", "no port 0"),
        ("http://127.0.0.1:x/", "cannot be fetched: ."),
        ("http://127.0.0.1:9/", "cannot be fetched: ."),
    ],
)
async def test_an_unreachable_url_is_reported_with_the_reason(url: str, complaint: str) -> None:
    with pytest.raises(ToolFailed, match=complaint):
        await use(FETCH, NEAR, url=url)


async def test_a_dropped_connection_is_reported() -> None:
    async def cut() -> AsyncGenerator[bytes]:
        yield b"begun"
        raise HangUp

    with pytest.raises(ToolFailed, match=r"cannot be fetched: ."):
        await fetch_one(Response(200, PLAIN, cut()))


@pytest.mark.parametrize("kind", ["image/png", "application/pdf", "application/octet-stream"])
async def test_a_page_with_another_content_type_is_refused(kind: str) -> None:
    with pytest.raises(ToolFailed, match=f"no text but {kind}"):
        await fetch_one(Response(200, {"Content-Type": f"{kind}; x=y"}, b"\x89PNG"))


async def test_binary_content_labelled_as_text_is_refused() -> None:
    with pytest.raises(ToolFailed, match="no text, though"):
        await fetch_one(Response(200, PLAIN, b"\x7fELF\0\0"))


async def test_endless_headers_are_refused() -> None:
    headers = {**PLAIN, **{f"X-{number}": "x" * 1000 for number in range(500)}}
    with pytest.raises(ToolFailed, match=r"cannot be fetched: ."):
        await fetch_one(Response(200, headers, b"hello"))


# Endless pages


async def test_a_redirect_loop_is_given_up() -> None:
    asked = Site({"/": moved("/b"), "/b": moved("/")})
    async with serving(asked) as url:
        with pytest.raises(ToolFailed, match="without end"):
            await use(FETCH, NEAR, url=f"{url}/")
    assert len(asked.requests) == fetch.MAX_REDIRECTS + 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed(status: int) -> None:
    pages = {"/": moved("next?a=b", status), "/next?a=b": Response(200, PLAIN, b"here")}
    async with serving(Site(pages)) as url:
        assert await use(FETCH, NEAR, url=f"{url}/") == "here"


async def test_cookies_are_not_sent_to_another_site() -> None:
    asked = Site({"/": Response(200, PLAIN, b"there")})
    async with serving(asked) as there:
        first = Response(302, {"Location": "/b", "Set-Cookie": "a=secret", **PLAIN})
        here = Site({"/": first, "/b": moved(there.replace("127.0.0.1", "localhost") + "/")})
        async with serving(here) as url:
            assert await use(FETCH, NEAR, url=f"{url}/") == "there"
    assert here.requests[1].headers["cookie"] == "a=secret"
    assert "cookie" not in asked.requests[0].headers


async def test_an_endless_page_is_read_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MAX_BYTES", 200_000)

    async def for_ever() -> AsyncGenerator[bytes]:
        while True:
            yield b"again and " * 1000

    text = await fetch_one(Response(200, PLAIN, for_ever()))
    assert text.startswith("again and again")
    assert text.endswith("\n[only the first 200,000 bytes of the page]")
    assert len(text) < OUTPUT_LIMIT + 200


async def test_a_compression_bomb_is_read_up_to_the_limit() -> None:
    bomb = gzip.compress(b"x" * 20_000_000)
    text = await fetch_one(Response(200, {**PLAIN, "Content-Encoding": "gzip"}, bomb))
    assert text.endswith("bytes of the page]")


async def test_a_page_that_is_sent_slowly_stops_at_the_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT", 0.3)

    async def drip() -> AsyncGenerator[bytes]:
        while True:
            yield b"."
            await asyncio.sleep(0.02)

    with pytest.raises(ToolFailed, match="took longer than"):
        await fetch_one(Response(200, PLAIN, drip()))


async def test_a_silent_server_stops_at_the_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT", 0.2)

    async def silent(_: Request) -> Response:
        return await asyncio.Future[Response]()

    async with serving(silent) as url:
        with pytest.raises(ToolFailed, match="took longer than"):
            await use(FETCH, NEAR, url=url)


async def test_a_page_that_is_slow_to_parse_does_not_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT", 1.0)
    before = time.monotonic()
    with pytest.raises(ToolFailed, match=r"took longer than|too tangled"):
        await fetch_one(Response(200, HTML, b"<!--" * 400_000))
    assert time.monotonic() - before < 10


# Content


async def test_a_missing_page_is_reported_with_its_text() -> None:
    assert await fetch_one(Response(404, PLAIN, b"gone")) == "[HTTP 404]\ngone"
    assert await fetch_one(Response(200, PLAIN, b"")) == "[nothing]"


@pytest.mark.parametrize(
    "kind", ["application/json", "application/rss+xml", "application/ld+json", "TEXT/CSV"]
)
async def test_other_text_is_returned_unchanged(kind: str) -> None:
    assert await fetch_one(Response(200, {"Content-Type": kind}, b"<a> b")) == "<a> b"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/plain", "Käse".encode()),
        ("text/plain", b"\xef\xbb\xbfK\xc3\xa4se"),
        ("text/plain", "Käse".encode("utf-16")),
        ("text/plain; charset=latin-1", b"K\xe4se"),
        ('text/plain; charset="ISO-8859-15"', b"K\xe4se"),
        ("text/plain; charset=utf-16-be", "Käse".encode("utf-16-be")),
        ("text/plain; charset=klingon", "Käse".encode()),
        ("text/plain; charset=", "Käse".encode()),
        ("text/plain; charset=hex", "Käse".encode()),
        ("text/plain; charset=zlib", "Käse".encode()),
        ("text/plain; charset=idna", "Käse".encode()),
        ("text/plain; charset=undefined", "Käse".encode()),
        ("text/plain; charset=punycode", "Käse".encode()),
        ("text/plain; charset=unicode_escape", "Käse".encode()),
        ("text/html", b"<meta charset=windows-1252>K\xe4se"),
        ("text/html", b'<meta content="text/html; charset=latin1">K\xe4se'),
        ("text/html; charset=utf-8", b"<meta charset=latin1>K\xc3\xa4se"),
    ],
)
async def test_a_page_is_decoded_by_its_own_encoding_or_as_utf_8(kind: str, body: bytes) -> None:
    assert await fetch_one(Response(200, {"Content-Type": kind}, body)) == "Käse"


async def test_bytes_that_cannot_be_decoded_are_replaced() -> None:
    assert await fetch_one(Response(200, PLAIN, b"a\xffb")) == "a\ufffdb"


async def test_a_page_is_converted_to_readable_text() -> None:
    html = """<!DOCTYPE html><html><head><title>The  title</title><style>p {}</style>
        <script>if (a < b) alert("</p>")</script></head>
        <body><svg><title>icon</title><text>drawn</text></svg><h1>One</h1><p>a <b>bold</b>
        word&nbsp;&amp; more<br>next<template><p>not yet</p></template>
        <table><tr><td>1</td><td>2</td></tr></table><noscript>plain</noscript>
        <!-- hidden --></body></html>"""
    assert (await fetch_one(Response(200, HTML, html.encode()))).splitlines() == [
        "The title",
        "One",
        "a bold word & more",
        "next",
        "1 2",
        "plain",
    ]


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<head><title>a</title><p>b", "a\nb"),
        ("<head><meta charset=x><body>b", "b"),
        ("<head><script>x</script>b", "b"),
        ("<svg><path><p>b", "b"),
        ("<noscript><p>b", "b"),
        ("</svg></script></template>b", "b"),
        ("<svg><style>x</style><g>y</g></svg>b", "b"),
        ("<template><template>x</template>y</template>b", "b"),
        ("<![CDATA[x]]>b", "b"),
        ("<![if !IE]>b<![endif]>", "b"),
        ("<![strange]>b", "b"),
        ("<![", "<!["),
        ("<!x>b", "b"),
        ("<?xml version='1.0'?>b", "b"),
        ("b<", "b<"),
        ("b<a href='", "b<a href='"),
        ("a < b", "a < b"),
        ("&#xd800;&#9999999999;b", "\ufffd\ufffdb"),
        ("a<p>&#" + "9" * 5000 + ";", "a"),
        ("", ""),
        ("<pre>if a:\n\treturn  b</pre>  c", "if a:\n        return  b\nc"),
        ("</pre></pre>a  b<pre>c  d", "a b\nc  d"),
    ],
)
def test_malformed_html_is_read_as_far_as_possible(html: str, text: str) -> None:
    assert html_text(html) == text
