"""The HTTP client that adapters share, against a real server."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator, Generator
from typing import Any

import msgspec
import pytest

from segue.platforms.errors import Lost, Refused
from segue.platforms.http import HttpClient, bearer, decode, encode
from segue.testing.http import HangUp, Request, Response, serving

SECRET = "s3cr3t-t0k3n"


def refusal(status: int, body: bytes) -> Refused:
    return Refused(status, body.decode(), code="no", after=3.0)


async def answer(request: Request) -> Response:
    """Respond as the path says."""
    match request.target.partition("?")[0].rpartition("/")[2]:
        case "echo":
            return Response(body=request.body or request.target.encode())
        case "headers":
            return Response(body=request.headers.get("authorization", "").encode())
        case "refused":
            return Response(status=400, body=b"not like this")
        case "busy":
            return Response(status=429, headers={"Retry-After": "7"})
        case "hang":
            await asyncio.sleep(30)
            return Response()
        case "stream":
            return Response(body=endless())
        case _:
            raise HangUp


async def endless() -> AsyncGenerator[bytes]:
    while True:
        yield bytes(1000)


async def lost(doing: asyncio.Future[bytes]) -> Lost:
    with pytest.raises(Lost) as caught:
        await doing
    return caught.value


@pytest.fixture
def url(runner: asyncio.Runner) -> Generator[str]:
    server = serving(answer)
    yield f"{runner.run(server.__aenter__())}/{SECRET}"
    runner.run(server.__aexit__(None, None, None))


@pytest.fixture
def client(runner: asyncio.Runner) -> Generator[HttpClient]:
    client = HttpClient(silence=5.0, secret=SECRET, headers=bearer(SECRET), refusal=refusal)
    yield client
    runner.run(client.close())


async def test_a_call_returns_the_body_of_the_response(url: str, client: HttpClient):
    assert await client.request("POST", f"{url}/echo", content=b"hello") == b"hello"
    assert await client.request("POST", f"{url}/echo", data={"a": "b c"}) == b"a=b+c"
    assert b"name" in await client.request("POST", f"{url}/echo", files={"f": ("name", b"x")})
    assert (await client.request("GET", f"{url}/echo", params={"a": 1})).endswith(b"?a=1")
    assert await client.request("GET", f"{url}/headers") == f"Bearer {SECRET}".encode()


async def test_an_error_response_is_parsed_by_the_platforms_function(url: str, client: HttpClient):
    with pytest.raises(Refused) as caught:
        await client.request("GET", f"{url}/refused")
    refused = caught.value
    assert (refused.status, refused.reason) == (400, "not like this")
    assert (refused.code, refused.after) == ("no", 3.0)


async def test_a_busy_server_is_reported_with_its_retry_delay(url: str):
    client = HttpClient(silence=5.0)
    with pytest.raises(Refused) as caught:
        await client.request("GET", f"{url}/busy")
    await client.close()
    assert caught.value.after == 7.0


async def test_a_call_can_have_additional_headers(url: str, client: HttpClient):
    given = await client.exchange("GET", f"{url}/headers", headers=bearer("other"))
    assert given.body == b"Bearer other"
    assert given.headers["content-length"] == "12"


async def test_a_response_larger_than_the_limit_is_cut_if_the_caller_wants_that(
    url: str, client: HttpClient
):
    assert await client.request("GET", f"{url}/stream", limit=4500, cut=True) == bytes(4500)


async def test_a_response_larger_than_the_limit_is_not_read_to_its_end(
    url: str, client: HttpClient
):
    with pytest.raises(Refused, match="larger than 5,000 bytes"):
        await client.request("GET", f"{url}/stream", limit=5000)


async def test_a_call_on_a_broken_connection_may_have_arrived(url: str, client: HttpClient):
    assert (await lost(asyncio.ensure_future(client.request("GET", f"{url}/drop")))).arrived


@pytest.mark.parametrize(
    "wrong", ["", "nonsense", "http://[", "ftp://x", "http://127.0.0.1:1", "http://\ud800/"]
)
async def test_a_call_that_was_never_sent_did_not_arrive(client: HttpClient, wrong: str):
    assert not (await lost(asyncio.ensure_future(client.request("GET", wrong)))).arrived


async def test_a_call_without_a_response_is_lost(url: str):
    client = HttpClient(silence=0.2)
    failed = await lost(asyncio.ensure_future(client.request("GET", f"{url}/hang")))
    assert (failed.reason, failed.arrived) == ("it does not answer", True)
    await client.close()


async def test_a_call_can_have_a_longer_timeout(url: str):
    client = HttpClient(silence=0.1)
    call = asyncio.ensure_future(client.request("GET", f"{url}/hang", seconds=9.0))
    await asyncio.wait({call}, timeout=0.4)
    assert not call.done()
    await client.close()
    assert (await lost(call)).arrived


async def test_closing_ends_running_and_later_calls(url: str, client: HttpClient):
    call = asyncio.ensure_future(client.request("GET", f"{url}/hang"))
    await asyncio.sleep(0.05)
    await client.close()
    assert (await lost(call)).reason == "it was closed"
    late = await lost(asyncio.ensure_future(client.request("GET", f"{url}/echo")))
    assert (late.reason, late.arrived) == ("it was closed", False)
    await client.close()


async def test_a_cancelled_caller_is_cancelled(url: str, client: HttpClient):
    call = asyncio.ensure_future(client.request("GET", f"{url}/hang"))
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


@pytest.mark.parametrize("trust_env", [False, True])
@pytest.mark.parametrize("path", ["echo", "refused", "drop", "hang"])
async def test_a_secret_is_in_no_error_and_no_log(
    url: str, trust_env: bool, path: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    headers = {"X-Broken": f"{SECRET}\n"} if path == "hang" else bearer(SECRET)
    client = HttpClient(silence=1.0, secret=SECRET, headers=headers, trust_env=trust_env)
    output = ""
    for address in (f"{url}/{path}", f"http://127.0.0.1:1/{SECRET}", f"http://[{SECRET}"):
        try:
            await client.request("GET", address)
        except (Refused, Lost) as error:
            output += "".join(traceback.format_exception(error))
    await client.close()
    assert output
    assert SECRET not in output
    assert SECRET not in caplog.text


@pytest.mark.parametrize("token", ["", "two words", "ünïcödé", "a\nb", "\ud800"])
def test_an_invalid_token_is_reported_and_not_shown(token: str):
    with pytest.raises(Lost, match="token") as caught:
        bearer(token)
    assert not token or token not in str(caught.value)


def test_invalid_json_in_a_response_may_have_arrived_and_is_never_sent():
    for body in (b"", b"{", b'{"a": "b"}', b"\xff", b"[" * 99_999):
        with pytest.raises(Lost) as caught:
            decode(body, dict[str, int])
        assert caught.value.arrived
    assert decode(encode({"a": 1}), dict[str, int]) == {"a": 1}
    with pytest.raises(Lost) as caught:
        encode(msgspec.structs.asdict(_Text("\ud800")))
    assert not caught.value.arrived


class _Text(msgspec.Struct):
    text: str


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_a_part_of_an_answer_that_is_nested_deeply_leaves_the_others_readable(begin: str, end: str):
    deep = f"{begin * 5_000}1{end * 5_000}"
    answer = f'{{"events":[{{"id":1,"more":{deep}}},{{"id":2,"text":"]}}[{{"}}]}}'
    found = decode(answer.encode(), dict[str, list[dict[str, Any]]])
    assert [it["id"] for it in found["events"]] == [1, 2]
    assert found["events"][1]["text"] == "]}[{"
    with pytest.raises(Lost):
        decode(answer[:-9].encode(), dict[str, Any])
