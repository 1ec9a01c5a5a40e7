"""The Signal fake, spoken to over plain HTTP: what the adapter's tests do not show.
`test_signal_real` compares it with signal-cli."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from tests.fakes.signal import Driver, Kind, Peer, Settings, serving


@dataclass
class Stage:
    peer: Peer
    driver: Driver
    http: httpx2.AsyncClient
    anna: str
    """Her user id, and the id of the chat with her."""

    async def send(self, text: str, **more: Any) -> Any:
        given = {"recipient": [self.anna], "message": text, **more}
        body = {"jsonrpc": "2.0", "method": "send", "id": 1, "params": given}
        answer = (await self.http.post(f"{self.peer.url}/api/v1/rpc", json=body)).json()
        return answer.get("error") or answer["result"]

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncGenerator[AsyncIterator[str]]:
        """The lines of the event stream."""
        async with self.http.stream("GET", f"{self.peer.url}/api/v1/events") as response:
            assert response.headers["content-type"] == "text/event-stream"
            yield response.aiter_lines()


@contextlib.asynccontextmanager
async def stage(**settings: Any) -> AsyncGenerator[Stage]:
    async with (
        serving(Settings(**settings)) as peer,
        peer.driver() as driver,
        httpx2.AsyncClient(trust_env=False) as http,
    ):
        anna = await driver.user("Anna")
        await driver.chat(Kind.DM, [anna])
        yield Stage(peer, driver, http, anna)


pytestmark = pytest.mark.anyio


async def test_messages_wait_on_the_server_until_a_client_listens():
    async with stage() as s:
        await s.driver.say(s.anna, s.anna, "one")
        await s.driver.say(s.anna, s.anna, "two")
        async with s.listening() as lines:
            heard = [await anext(lines) for _ in range(6)]
        assert heard[0] == heard[3] == "event:receive"
        events = [json.loads(line.removeprefix("data:")) for line in heard[1::3]]
        assert [it["envelope"]["dataMessage"]["message"] for it in events] == ["one", "two"]


async def test_a_client_that_hears_nothing_is_kept_alive():
    async with stage(keep_alive=0.01) as s, s.listening() as lines:
        assert await anext(lines) == ":"


@pytest.mark.parametrize(
    "given",
    [
        *({"textStyle": [it]} for it in ("3:99:BOLD", "1:2:BOLD", "0:0:BOLD", "0:1:LARGE")),
        {"textStyles": ["0:1:BOLD"]},
        {"attachment": ["/etc/passwd"]},
    ],
)
async def test_a_style_outside_of_the_text_a_misspelt_parameter_and_a_path_are_mistakes(
    given: dict[str, Any],
):
    async with stage() as s:
        assert (await s.send("👍 bold", **given))["code"] in (-1, -32600)
        assert len(await s.driver.errors()) == 1


async def test_an_edit_must_name_the_newest_revision():
    async with stage() as s:
        first = (await s.send("one"))["timestamp"]
        second = (await s.send("two", editTimestamp=first))["timestamp"]
        await s.send("three", editTimestamp=second)
        assert not await s.driver.errors()
        dropped = await s.send("four", editTimestamp=second)
        assert dropped["results"][0]["type"] == "SUCCESS"
        assert (await s.driver.look()).texts == ["three"]
        assert await s.driver.errors()
