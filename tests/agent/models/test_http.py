"""One streaming request: timeouts, retries and error messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from segue.agent.models.hosted import ProviderClient, Refusal, Timeouts
from segue.core.errors import (
    BadKey,
    ModelBusy,
    ModelCutOff,
    ModelError,
    ModelOffline,
    ModelServerError,
    ModelStalled,
)
from segue.testing.http import HangUp, Request, Response, serving
from tests.agent.models.answers import HASTE

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SSE = {"Content-Type": "text/event-stream"}
HELLO = Response(200, SSE, b"data: hello\n\n")


class Server:
    """Gives its responses in order, and then repeats the last one."""

    def __init__(self, *answers: Response | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[Request] = []

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def nothing_known(_: Refusal) -> ModelError | None:
    return None


@contextlib.asynccontextmanager
async def client(
    url: str, explain: Callable[[Refusal], ModelError | None] = nothing_known, **more: Any
) -> AsyncGenerator[ProviderClient]:
    known: dict[str, Any] = {"patience": HASTE, "headers": {"X-Key": "k"}}
    made = ProviderClient(provider="Acme", base_url=url, explain=explain, **{**known, **more})
    try:
        yield made
    finally:
        await made.close()


async def hear(server: Server, **more: Any) -> list[str]:
    async with serving(server.handle) as url, client(f"{url}/v1/", **more) as acme:
        return [event.data async for event in acme.events("/ask", b'{"a": 1}')]


async def test_the_events_of_a_request_arrive_in_order():
    server = Server(Response(200, SSE, b": hi\n\ndata: 1\n\nevent: x\ndata: 2\ndata: 3\n\n"))
    assert await hear(server) == ["1", "2\n3"]
    request = server.requests[0]
    assert (request.method, request.target, request.body) == ("POST", "/v1/ask", b'{"a": 1}')
    assert request.headers["x-key"] == "k"
    assert request.headers["content-type"] == "application/json"


async def test_a_very_large_event_is_complete():
    big = "x" * 3_000_000
    assert await hear(Server(Response(200, SSE, f"data: {big}\n\n".encode()))) == [big]


async def test_an_unterminated_event_is_dropped():
    assert await hear(Server(Response(200, SSE, b"data: 1\n\ndata: 2\n"))) == ["1"]


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_a_request_to_a_busy_server_is_retried(status: int):
    server = Server(Response(status), Response(status), HELLO)
    assert await hear(server) == ["hello"]
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [201, 204, 301, 400, 401, 403, 404, 422, 501])
async def test_an_error_that_a_retry_cannot_fix_is_raised_at_once(status: int):
    server = Server(Response(status, {}, b"because" if status != 204 else b""))
    with pytest.raises(ModelError, match=f"HTTP {status}"):
        await hear(server)
    assert len(server.requests) == 1


async def test_after_the_last_retry_a_busy_server_is_reported_as_busy():
    server = Server(Response(503, {}, b"full"))
    with pytest.raises(ModelBusy) as caught:
        await hear(server)
    assert caught.value.fields == {"provider": "Acme", "reason": "HTTP 503 full"}
    assert len(server.requests) == HASTE.tries


async def test_an_internal_error_is_not_reported_as_busy():
    server = Server(Response(500, {}, b"oops"))
    with pytest.raises(ModelServerError, match="internal error: HTTP 500 oops"):
        await hear(server)
    assert len(server.requests) == HASTE.tries


async def test_the_provider_explains_its_own_errors():
    def explain(refusal: Refusal) -> ModelError | None:
        assert refusal == Refusal(status=503, body='{"why": "ü"}')
        return BadKey(provider="Acme", setting="ACME_KEY")

    server = Server(Response(503, {}, '{"why": "ü"}'.encode()))
    with pytest.raises(BadKey) as caught:
        await hear(server, explain=explain)
    assert caught.value.fields["setting"] == "ACME_KEY"
    assert len(server.requests) == 1, "what is explained is not asked again"


async def test_the_explanation_of_a_busy_server_is_reported_after_the_last_retry():
    def explain(_: Refusal) -> ModelError | None:
        return ModelBusy(provider="Acme", reason="lunch")

    server = Server(Response(500))
    with pytest.raises(ModelBusy) as caught:
        await hear(server, explain=explain)
    assert caught.value.fields["reason"] == "lunch"
    assert len(server.requests) == HASTE.tries


async def test_a_long_error_response_is_read_only_in_part():
    async def endless() -> AsyncGenerator[bytes]:
        while True:
            yield b"x" * 10_000

    with pytest.raises(ModelError) as caught:
        await hear(Server(Response(400, {}, endless())))
    assert len(str(caught.value)) < 500


async def test_an_error_response_that_is_not_text_is_reported():
    with pytest.raises(ModelError, match="HTTP 400"):
        await hear(Server(Response(400, {}, b"\xff\xfe{}")))


@pytest.mark.parametrize("kind", ["text/html", "application/json", "text/event-stream-not", ""])
async def test_a_response_that_is_not_a_stream_is_an_error_and_not_retried(kind: str):
    server = Server(Response(200, {"Content-Type": kind}, b"<h1>Log in</h1>"))
    with pytest.raises(ModelError, match=r"no stream, but HTTP 200 <h1>Log in</h1>"):
        await hear(server)
    assert len(server.requests) == 1


async def test_the_provider_explains_a_response_that_is_not_a_stream():
    def explain(refusal: Refusal) -> ModelError | None:
        return ModelError(provider="Acme", reason=refusal.body)

    with pytest.raises(ModelError) as caught:
        await hear(Server(Response(200, {}, b"mend me")), explain=explain)
    assert caught.value.fields["reason"] == "mend me"


async def test_a_request_is_retried_if_the_server_hangs_up():
    server = Server(HangUp(), HangUp(), HELLO)
    assert await hear(server) == ["hello"]
    assert len(server.requests) == 3


async def test_a_server_that_always_hangs_up_is_offline():
    server = Server(HangUp())
    with pytest.raises(ModelOffline) as caught:
        await hear(server)
    assert caught.value.fields["provider"] == "Acme"
    assert len(server.requests) == HASTE.tries


async def test_a_request_is_retried_only_before_its_first_event():
    async def broken(sent: bytes) -> AsyncGenerator[bytes]:
        yield sent
        raise HangUp

    early = Server(Response(200, SSE, broken(b"data: 1\n")), HELLO)
    assert await hear(early) == ["hello"]
    late = Server(Response(200, SSE, broken(b"data: 1\n\n")), HELLO)
    with pytest.raises(ModelCutOff):
        await hear(late)
    assert len(late.requests) == 1


@pytest.mark.parametrize("sent", [b"", b"data: 1\n\n"])
async def test_silence_is_a_stall(sent: bytes):
    async def silent() -> AsyncGenerator[bytes]:
        yield sent
        await asyncio.Event().wait()

    patience = Timeouts(connect=5, silence=0.05, tries=3)
    server = Server(Response(200, SSE, silent()))
    with pytest.raises(ModelStalled):
        await hear(server, patience=patience)
    assert len(server.requests) == 1


async def test_keep_alive_comments_prevent_a_timeout():
    async def alive() -> AsyncGenerator[bytes]:
        for _ in range(10):
            yield b": wait\n\n"
            await asyncio.sleep(0.02)
        yield b"data: 1\n\n"

    patience = Timeouts(connect=5, silence=0.15, tries=1)
    assert await hear(Server(Response(200, SSE, alive())), patience=patience) == ["1"]


async def test_a_refused_connection_is_offline():
    async with serving(Server(HELLO).handle) as url:
        pass
    async with client(url) as acme:
        with pytest.raises(ModelOffline) as caught:
            await anext(acme.events("/ask", b"{}"))
        assert str(caught.value.fields["url"]).startswith(url)


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://[", "http://127.0.0.1:x"])
async def test_an_invalid_url_is_reported_as_offline(url: str):
    async with client(url) as acme:
        with pytest.raises(ModelOffline):
            await anext(acme.events("/ask", b"{}"))


async def test_a_stream_with_a_wrong_content_encoding_is_an_error():
    broken = Response(200, {**SSE, "Content-Encoding": "gzip"}, b"data: 1\n\n")
    with pytest.raises(ModelOffline):
        await hear(Server(broken))


async def test_closing_the_events_drops_the_connection():
    gone = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes]:
        try:
            while True:
                yield b"data: 1\n\n"
                await asyncio.sleep(0.001)
        finally:
            gone.set()

    async def handle(_: Request) -> Response:
        return Response(200, SSE, endless())

    async with serving(handle) as url, client(url) as acme:
        events = acme.events("/ask", b"{}")
        await anext(events)
        await events.aclose()
        async with asyncio.timeout(10):
            await gone.wait()


async def test_a_pause_between_retries_can_be_cancelled():
    asked = asyncio.Event()

    async def handle(_: Request) -> Response:
        asked.set()
        return Response(503)

    patience = Timeouts(tries=2, first_pause=600, longest_pause=600)
    async with serving(handle) as url, client(url, patience=patience) as acme:
        first = asyncio.ensure_future(anext(acme.events("/ask", b"{}")))
        async with asyncio.timeout(30):
            await asked.wait()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first


async def test_an_unused_client_can_be_closed():
    async with client("http://127.0.0.1:9"):
        pass


@pytest.mark.parametrize(
    "after", ["0", "0.001", format_datetime(NOW, usegmt=True), "nonsense", "99999999"]
)
async def test_retry_after_is_honoured_up_to_the_longest_pause(after: str):
    server = Server(Response(429, {"Retry-After": after}), HELLO)
    assert await hear(server) == ["hello"]


def test_pauses_between_retries_have_a_limit():
    patience = Timeouts(tries=8, first_pause=1, longest_pause=10)
    acme = ProviderClient(
        provider="Acme",
        base_url="http://x",
        headers={},
        explain=nothing_known,
        patience=patience,
    )
    for tried, most in enumerate([1, 2, 4, 8, 10, 10, 10]):
        assert most / 2 <= acme._pause(patience.tries - 1 - tried, None) <= most
    assert acme._pause(3, 0.25) == 0.25
    assert acme._pause(3, 99) == 10


async def test_a_server_closes_the_response_of_a_disconnected_client():
    left = asyncio.Event()

    async def for_ever() -> AsyncGenerator[bytes]:
        try:
            while True:
                yield b"data: more\n\n"
                await asyncio.sleep(0.001)
        finally:
            left.set()

    kept = for_ever()  # keep a reference, so that only the server closes it
    server = Server(Response(200, SSE, kept))
    async with serving(server.handle) as url, client(url) as acme:
        async with contextlib.aclosing(acme.events("/ask", b"{}")) as events:
            await anext(events)
        async with asyncio.timeout(10):
            await left.wait()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_requests_to_this_machine_do_not_use_the_proxy(
    host: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    proxy, server = Server(HELLO), Server(HELLO)
    async with serving(proxy.handle) as between, serving(server.handle) as url:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, between)
        async with client(url.replace("127.0.0.1", host)) as acme:
            assert [event.data async for event in acme.events("/ask", b"{}")] == ["hello"]
    assert (len(proxy.requests), len(server.requests)) == (0, 1)


async def test_requests_to_other_machines_use_the_proxy(
    monkeypatch: pytest.MonkeyPatch,
):
    proxy = Server(HELLO)
    async with serving(proxy.handle) as between:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, between)
        async with client("http://models.example") as acme:
            assert [event.data async for event in acme.events("/ask", b"{}")] == ["hello"]
    assert proxy.requests[0].target == "http://models.example/ask"
