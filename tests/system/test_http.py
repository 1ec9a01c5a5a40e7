"""HTTP clients: how they find a server, and what its responses and its errors mean."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest

from segue.system import http
from segue.testing.http import HangUp, Request, Response, serving

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def answer(request: Request) -> Response:
    match request.target.rpartition("/")[2]:
        case "endless":
            return Response(body=endless())
        case "drop":
            raise HangUp
        case _:
            return Response(body=b"hello")


async def endless() -> AsyncGenerator[bytes]:
    while True:
        yield bytes(1000)


@pytest.mark.parametrize("limit", [1, 999, 1000, 1001, 4500])
async def test_a_response_is_read_up_to_a_limit(limit: int):
    async with (
        serving(answer) as url,
        http.client(url, trust_env=False) as client,
        client.stream("GET", "/endless") as response,
    ):
        assert await http.read(response, limit) == bytes(limit)


async def test_a_response_that_is_shorter_than_the_limit_is_read_to_its_end():
    async with serving(answer) as url, http.client(url, trust_env=False) as client:
        for limit in (None, 5, 1000):
            async with client.stream("GET", "/") as response:
                assert await http.read(response, limit) == b"hello"


async def test_a_request_on_a_connection_that_broke_may_have_been_sent():
    async with serving(answer) as url, http.client(url, trust_env=False) as client:
        with pytest.raises(httpx2.HTTPError) as caught:
            await client.get("/drop")
    assert http.was_sent(caught.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "ftp://x", "nonsense"])
async def test_a_request_that_found_no_server_was_not_sent(url: str):
    async with http.client(trust_env=False) as client:
        with pytest.raises(httpx2.HTTPError) as caught:
            await client.get(url)
    assert not http.was_sent(caught.value)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("2", 2.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        (format_datetime(NOW + timedelta(seconds=7), usegmt=True), 7.0),
        (format_datetime(NOW - timedelta(seconds=7), usegmt=True), 0.0),
        ("Thu, 01 Jan 2026 00:00:07", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_read_in_seconds_and_as_a_date(value: str | None, seconds: float | None):
    headers = {} if value is None else {"Retry-After": value}
    assert http.retry_after(httpx2.Response(429, headers=headers), NOW) == seconds


def test_the_trusted_certificates_are_read_once():
    assert http.tls(trust_env=False) is http.tls(trust_env=False)


def test_only_addresses_of_this_machine_bypass_the_proxy():
    assert list(http.around_proxies("http://[::1]:8080/v1")) == ["all://[::1]"]
    assert list(http.around_proxies("http://127.1.2.3")) == ["all://127.1.2.3"]
    for url in ("http://10.0.0.1", "http://localhost.example", "http://[", "nonsense", ""):
        assert not http.around_proxies(url)
