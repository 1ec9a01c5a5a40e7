"""The Signal fake, spoken to over plain HTTP. `test_signal_real` compares it with signal-cli."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from segue.testing.signal import ME, NUMBER, Driver, Failure, Kind, Peer, Settings, serving

PHOTO = "data:image/png;filename=a%20b.png;base64,AAEC"


@dataclass
class Stage:
    peer: Peer
    driver: Driver
    http: httpx2.AsyncClient
    anna: str
    """Her user id, and the id of the chat with her."""

    async def call(self, method: str, **given: Any) -> Any:
        body = {"jsonrpc": "2.0", "method": method, "id": 1, "params": given}
        answer = (await self.http.post(f"{self.peer.url}/api/v1/rpc", json=body)).json()
        return answer.get("error") or answer["result"]

    async def send(self, text: str, **more: Any) -> Any:
        return await self.call("send", recipient=[self.anna], message=text, **more)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncGenerator[AsyncGenerator[Any]]:
        """What the daemon says about messages."""
        before = (await self.driver.look()).clients
        async with self.http.stream("GET", f"{self.peer.url}/api/v1/events") as response:
            assert response.headers["content-type"] == "text/event-stream"
            await self.driver.until(lambda shown: shown.clients > before)
            async with contextlib.aclosing(_events(response)) as events:
                yield events


async def _events(response: httpx2.Response) -> AsyncGenerator[Any]:
    async for line in response.aiter_lines():
        if line.startswith("data:"):
            yield json.loads(line.removeprefix("data:"))


@contextlib.asynccontextmanager
async def stage(settings: Settings = Settings()) -> AsyncGenerator[Stage]:  # noqa: B008
    async with (
        serving(settings) as peer,
        peer.driver() as driver,
        httpx2.AsyncClient(trust_env=False) as http,
    ):
        anna = await driver.user("Anna")
        await driver.chat(Kind.DM, [anna])
        yield Stage(peer, driver, http, anna)


@pytest.mark.anyio
class TestEvents:
    async def test_messages_wait_on_the_server_until_a_client_listens(self):
        async with stage() as s:
            await s.driver.say(s.anna, s.anna, "one")
            await s.driver.say(s.anna, s.anna, "two")
            async with s.listening() as events:
                heard = [(await anext(events))["envelope"]["dataMessage"] for _ in range(2)]
            assert [it["message"] for it in heard] == ["one", "two"]

    async def test_a_daemon_that_always_receives_loses_what_no_client_hears(self):
        async with stage(Settings(on_start=True)) as s:
            await s.driver.say(s.anna, s.anna, "lost")
            async with s.listening() as events:
                await s.driver.say(s.anna, s.anna, "heard")
                assert (await anext(events))["envelope"]["dataMessage"]["message"] == "heard"

    async def test_what_the_phone_writes_arrives_as_a_sync_message(self):
        async with stage() as s, s.listening() as events:
            await s.driver.say(ME.id, ME.id, "a note")
            await s.driver.say(ME.id, s.anna, "to Anna")
            note, other = [(await anext(events)) for _ in range(2)]
            assert note["account"] == NUMBER
            assert "dataMessage" not in note["envelope"]
            sent = [it["envelope"]["syncMessage"]["sentMessage"] for it in (note, other)]
            assert [it["destinationUuid"] for it in sent] == [ME.id, s.anna]

    async def test_a_client_that_hears_nothing_is_kept_alive(self):
        async with (
            stage(Settings(keep_alive=0.01)) as s,
            s.http.stream("GET", f"{s.peer.url}/api/v1/events") as response,
        ):
            lines = aiter(response.aiter_lines())
            assert await anext(lines) == ":"


@pytest.mark.anyio
class TestSending:
    async def test_a_message_is_shown_with_its_styles_and_files(self):
        async with stage() as s:
            sent = await s.send("👍 bold", textStyle=["3:4:BOLD"], attachment=[PHOTO])
            assert [it["type"] for it in sent["results"]] == ["SUCCESS"]
            shown = await s.driver.message("👍 bold")
            assert (shown.styles[0].style, shown.files[0].name) == ("BOLD", "a b.png")

    @pytest.mark.parametrize("style", ["3:99:BOLD", "1:2:BOLD", "0:0:BOLD"])
    async def test_a_style_outside_of_the_text_is_a_mistake(self, style: str):
        async with stage() as s:
            assert (await s.send("👍 bold", textStyle=[style]))["code"] == -32600
            assert await s.driver.errors()

    async def test_an_edit_must_name_the_newest_revision(self):
        async with stage() as s:
            first = (await s.send("one"))["timestamp"]
            second = (await s.send("two", editTimestamp=first))["timestamp"]
            await s.send("three", editTimestamp=second)
            assert not await s.driver.errors()
            dropped = await s.send("four", editTimestamp=second)
            assert dropped["results"][0]["type"] == "SUCCESS"
            assert (await s.driver.look()).texts == ["three"]
            assert await s.driver.errors()

    @pytest.mark.parametrize(
        ("failure", "code"),
        [(Failure.IDENTITY, -4), (Failure.RATE_LIMIT, -5), (Failure.UNREGISTERED, -1)],
    )
    async def test_a_failed_message_has_the_reason_of_each_recipient(
        self, failure: Failure, code: int
    ):
        async with stage() as s:
            await s.driver.change(s.anna, failure=failure, challenge="token", seconds=9)
            error = await s.send("hello")
            assert error["code"] == code
            [result] = error["data"]["response"]["results"]
            assert (result["type"], result["recipientAddress"]["uuid"]) == (failure, s.anna)
            assert result.get("token") == ("token" if failure is Failure.RATE_LIMIT else None)
            assert not (await s.driver.look()).texts

    async def test_a_misspelt_parameter_and_a_path_are_mistakes(self):
        async with stage() as s:
            assert (await s.send("x", textStyles=["0:1:BOLD"]))["code"] == -32600
            assert (await s.send("x", attachment=["/etc/passwd"]))["code"] == -32600
            assert len(await s.driver.errors()) == 2


@pytest.mark.anyio
class TestAccounts:
    async def test_a_phone_links_the_daemon(self):
        async with stage(Settings(accounts=())) as s:
            uri = (await s.call("startLink"))["deviceLinkUri"]
            finish = asyncio.ensure_future(s.call("finishLink", deviceLinkUri=uri))
            await s.driver.scan(uri, NUMBER)
            assert await finish == {"number": NUMBER}
            assert await s.call("listAccounts") == [{"number": NUMBER}]

    async def test_an_unlinked_account_does_not_exist(self):
        async with stage() as s:
            await s.driver.settings(Settings(revoked=True))
            assert await s.call("listAccounts") == []
            error = await s.send("hello", account=NUMBER)
            assert error["message"] == "Specified account does not exist"

    async def test_a_daemon_for_one_account_knows_no_others(self):
        async with stage(Settings(single=True)) as s:
            assert (await s.call("listAccounts"))["code"] == -32601
            assert "timestamp" in await s.send("hello", account="any")
