"""The Slack fake, tested with the real client library: slack-bolt in Socket Mode."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from segue.system import http
from tests.fakes.slack import Driver, Kind, Peer, Settings, Trouble, Upload, running, serving

LABEL = {"type": "plain_text", "text": "Approve"}
BUTTON = {"type": "button", "text": LABEL, "action_id": "yes", "value": "42", "style": "primary"}
APPROVE = {"type": "actions", "block_id": "ask", "elements": [BUTTON]}
QUESTION = {"type": "section", "text": {"type": "mrkdwn", "text": "Run it?"}}


@dataclass
class Stage:
    peer: Peer
    driver: Driver
    client: Any
    """An AsyncWebClient, whose answers have no types."""
    anna: str
    channel: str
    heard: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The events that the app got."""

    async def error(self, method: str, **arguments: Any) -> str:
        """Call a method with JSON and return its error, or an empty string."""
        try:
            await self.client.api_call(method, json=arguments)
        except SlackApiError as error:
            return error.response["error"]
        return ""

    async def until_heard(self, count: int) -> list[dict[str, Any]]:
        await self.driver.until(lambda shown: len(self.heard) >= count and not shown.unconfirmed)
        return self.heard


@contextlib.asynccontextmanager
async def stage(settings: Settings = Settings()) -> AsyncGenerator[Stage]:  # noqa: B008
    async with serving(settings) as peer, peer.driver() as driver:
        client = AsyncWebClient(peer.token, base_url=peer.base_url)
        anna = await driver.user("Anna")
        yield Stage(peer, driver, client, anna, await driver.chat(Kind.CHANNEL, [anna]))


@contextlib.asynccontextmanager
async def connected(at: Stage) -> AsyncGenerator[AsyncApp]:
    """Run an app that listens to everything."""
    app = AsyncApp(client=at.client, ignoring_self_events_enabled=False)

    @app.event("message")
    @app.event("app_mention")
    @app.event("assistant_thread_started")
    async def hear(body: dict[str, Any]) -> None:
        at.heard.append(body)

    handler = AsyncSocketModeHandler(app, at.peer.app_token, web_client=at.client)
    await handler.connect_async()
    await at.driver.until(lambda shown: shown.sockets == 1)
    try:
        yield app
    finally:
        await handler.close_async()


async def test_an_app_hears_a_message_once_answers_in_its_thread_and_edits_the_answer() -> None:
    async with stage() as at, connected(at):
        ts = await at.driver.say(at.anna, at.channel, "1 < 2, see https://a.example")
        [body] = await at.until_heard(1)
        event = body["event"]
        assert (event["user"], event["ts"], event["channel_type"]) == (at.anna, ts, "channel")
        assert event["text"] == "1 &lt; 2, see <https://a.example>"
        assert body["authorizations"][0]["is_bot"]
        sent = await at.client.chat_postMessage(
            channel=at.channel,
            thread_ts=ts,
            text="hi <!channel>",
            unfurl_links=False,
            unfurl_media=False,
            metadata={"event_type": "segue", "event_payload": {"id": "7"}},
        )
        assert (await at.driver.message("hi <!channel>")).mentions == ("<!channel>",)
        await at.client.chat_update(channel=at.channel, ts=sent["ts"], text="hello")
        own, changed = (await at.until_heard(3))[1:]
        assert own["event"]["bot_id"] == (await at.client.auth_test())["bot_id"]
        assert own["event"]["thread_ts"] == ts
        assert changed["event"]["subtype"] == "message_changed"
        assert changed["event"]["previous_message"]["text"] == "hi <!channel>"
        shown = await at.driver.look(at.channel)
        answer = shown.messages[-1]
        assert (answer.text, answer.earlier, answer.preview) == ("hello", ("hi <!channel>",), False)
        assert (await at.driver.thread(at.channel)).id == answer.thread == ts
        replies = await at.client.conversations_replies(
            channel=at.channel, ts=ts, include_all_metadata=True
        )
        assert replies["messages"][1]["metadata"]["event_payload"] == {"id": "7"}
        replies = await at.client.conversations_replies(channel=at.channel, ts=ts, limit=1)
        assert replies["has_more"]
        assert "metadata" not in replies["messages"][0]
        assert (shown.errors, shown.failed) == ((), ())


async def test_each_conversation_and_each_change_has_its_event() -> None:
    async with stage() as at, connected(at):
        driver = at.driver
        private = await driver.chat(Kind.GROUP, [at.anna])
        dm = await driver.chat(Kind.IM, [at.anna])
        user = (await at.client.auth_test())["user_id"]
        root = await driver.say(at.anna, private, f"so, <@{user}>?")
        await driver.say(at.anna, dm, f"<@{user}>")
        await driver.broadcast(at.anna, private, "to all", root)
        await driver.edit(private, root, "so?")
        await driver.unfurl(private, root)
        await driver.delete(private, root)
        robot = await driver.user("Robot", bot=True)
        await driver.delete(private, await driver.say(robot, private, "beep"))
        await driver.share(at.anna, dm, robot, "buy now")
        thread = await driver.assist(at.anna)
        await driver.say(at.anna, dm, "help", thread=thread)
        events = [body["event"] for body in await at.until_heard(12)]
        kinds = [(it["type"], it.get("subtype"), it.get("channel_type")) for it in events]
        assert kinds == [
            ("message", None, "group"),
            ("app_mention", None, None),
            ("message", None, "im"),
            ("message", "thread_broadcast", "group"),
            ("message", "message_changed", "group"),
            ("message", "message_changed", "group"),
            ("message", "message_changed", "group"),
            ("message", "bot_message", "group"),
            ("message", "message_deleted", "group"),
            ("message", None, "im"),
            ("assistant_thread_started", None, None),
            ("message", None, "im"),
        ]
        assert events[1]["ts"] == events[0]["ts"]
        assert events[5]["message"]["text"] == events[5]["previous_message"]["text"]
        assert events[6]["message"]["subtype"] == "tombstone"
        assert "user" not in events[7]
        assert (events[9]["text"], events[9]["attachments"][0]["text"]) == ("", "buy now")
        assert events[10]["assistant_thread"]["thread_ts"] == thread
        where = {"channel": private, "thread_ts": root}
        below = await at.client.chat_postMessage(**where, text="below the tombstone")
        assert below["message"]["thread_ts"] == root
        assert below["message"]["parent_user_id"] == events[6]["message"]["user"] == "USLACKBOT"
        for it in (await driver.look(private)).messages:
            if it.thread == root:
                await driver.delete(private, it.id)
        heard = [body["event"] for body in await at.until_heard(16)]
        assert heard[-1]["subtype"] == "message_deleted"
        assert heard[-1]["previous_message"]["subtype"] == "tombstone"
        sent = await at.client.chat_postMessage(**where, text="lost")
        assert "thread_ts" not in sent["message"]
        where = {"channel_id": dm, "thread_ts": thread}
        await at.client.assistant_threads_setStatus(**where, status="is thinking…")
        shown = await driver.look(dm)
        assert (shown.threads[0].id, shown.typing[0].times) == (thread, 1)
        assert not shown.errors


async def test_streams_need_a_recipient_in_channels_and_end() -> None:
    async with stage() as at:
        ts = await at.driver.say(at.anna, at.channel, "tell me")
        where: dict[str, Any] = {"channel": at.channel, "thread_ts": ts}
        assert await at.error("chat.startStream", **where) == "missing_recipient_team_id"
        team = (await at.client.auth_test())["team_id"]
        stream = await at.client.chat_stream(
            **where, recipient_user_id=at.anna, recipient_team_id=team, buffer_size=1
        )
        await stream.append(markdown_text="**one**")
        await stream.append(markdown_text=" two")
        message = await at.driver.message("**one** two")
        assert message.streaming
        edit = {"channel": at.channel, "ts": message.id, "text": "x"}
        assert await at.error("chat.update", **edit) == "streaming_state_conflict"
        del edit["text"]
        assert await at.error("chat.delete", **edit) == "cant_delete_message"
        replies = await at.client.conversations_replies(channel=at.channel, ts=ts)
        assert replies["messages"][1]["streaming_state"] == "in_progress"
        await stream.stop(markdown_text=" three", blocks=[APPROVE])
        message = await at.driver.message("**one** two three")
        assert message.earlier == ("**one**", "**one** two")
        assert (message.labels, message.streaming) == (("Approve",), False)
        over = "message_not_in_streaming_state"
        late = {"channel": at.channel, "ts": message.id, "markdown_text": "x"}
        assert await at.error("chat.appendStream", **late) == over
        assert not await at.driver.errors()


async def test_files_go_both_ways_and_a_download_needs_the_token() -> None:
    async with stage() as at, connected(at):
        await at.client.files_upload_v2(
            channel=at.channel, content=b"print()", filename="a.py", initial_comment="code"
        )
        file = (await at.driver.message("code")).file
        assert file is not None
        assert await at.driver.content(file.id) == b"print()"
        info = (await at.client.files_info(file=file.id))["file"]
        [share] = info["shares"]["public"][at.channel]
        assert share["ts"] == (await at.driver.message("code")).id
        upload = Upload(name="b.txt", media_type="text/plain", content=b"hello")
        await at.driver.say(at.anna, at.channel, "look", files=[upload])
        events = [body["event"] for body in await at.until_heard(2)]
        assert {it["subtype"] for it in events} == {"file_share"}
        url = events[1]["files"][0]["url_private_download"]
        async with http.client(trust_env=False, follow_redirects=True) as browser:
            bearer = {"Authorization": f"Bearer {at.peer.token}"}
            assert (await browser.get(url, headers=bearer)).content == b"hello"
            page = await browser.get(url)
            assert page.headers["content-type"].startswith("text/html")
            await at.driver.fail("download", Trouble.FORBIDDEN)
            assert (await browser.get(url, headers=bearer)).status_code == 403
        assert not await at.driver.errors()


async def test_presses_and_commands_are_acknowledged_and_answered() -> None:
    async with stage() as at, connected(at) as app:
        pressed: list[dict[str, Any]] = []

        @app.action("yes")
        async def approve(ack: Any, body: dict[str, Any]) -> None:
            await ack()
            pressed.append(body)

        @app.command("/segue")
        async def command(ack: Any, body: dict[str, Any], say: Any) -> None:
            await ack()
            await say(f"{body['text']} of {body['user_id']}")

        sent = await at.client.chat_postMessage(
            channel=at.channel, text="Run it?", blocks=[QUESTION, APPROVE]
        )
        await at.client.chat_update(channel=at.channel, ts=sent["ts"], text="Never mind")
        assert (await at.driver.message("Run it?")).labels == ("Approve",), "the blocks stay"
        query = await at.driver.press(at.anna, at.channel, sent["ts"], "Approve")
        await at.driver.until(lambda shown: shown.answered == (query,))
        assert pressed[0]["actions"][0]["value"] == "42"
        assert pressed[0]["container"]["message_ts"] == sent["ts"]
        edit = {"channel": at.channel, "ts": sent["ts"], "text": "Run it? Yes."}
        await at.client.chat_update(**edit, blocks=[])
        assert not (await at.driver.message("Run it? Yes.")).buttons
        await at.driver.command(at.anna, at.channel, "/segue", "status")
        await at.driver.message(f"status of {at.anna}")
        await at.driver.settings(Settings(ack_seconds=0.05))
        await at.driver.command(at.anna, at.channel, "/unknown")
        shown = await at.driver.until(lambda shown: bool(shown.failed))
        assert shown.failed == ("slash_commands: not acknowledged",)
        assert not shown.errors


async def test_an_event_comes_again_and_each_goes_to_one_of_several_sockets() -> None:
    async with stage(Settings(ack_seconds=0.1, retry_seconds=(0.0, 0.0))) as at:
        clients = [SocketModeClient(at.peer.app_token, web_client=at.client) for _ in range(2)]
        got: list[tuple[int, SocketModeRequest]] = []
        arrived = asyncio.Event()
        for number, client in enumerate(clients):

            async def listen(client: Any, request: SocketModeRequest, number: int = number) -> None:
                got.append((number, request))
                arrived.set()
                if request.retry_attempt:
                    await client.send_socket_mode_response({"envelope_id": request.envelope_id})

            client.socket_mode_request_listeners.append(listen)
            await client.connect()
        await at.driver.until(lambda shown: shown.sockets == 2)
        await at.driver.say(at.anna, at.channel, "hello")
        await at.driver.until(lambda shown: len(got) >= 2 and not shown.unconfirmed)
        (first, one), (second, two), *_ = got
        assert (first, second) == (0, 1)
        assert one.envelope_id != two.envelope_id
        assert one.payload["event_id"] == two.payload["event_id"]
        assert (two.retry_attempt, two.retry_reason) == (1, "timeout")
        await at.driver.settings(Settings())
        arrived.clear()
        await at.driver.say(at.anna, at.channel, "again")
        await arrived.wait()
        number, lost = got[2]
        await clients[number].close()
        await at.driver.until(lambda shown: len(got) >= 4 and not shown.unconfirmed)
        assert got[3][1].payload == lost.payload
        await clients[1 - number].close()


async def test_an_app_reconnects_after_a_warning_and_hears_what_waited() -> None:
    async with stage() as at, connected(at):
        for reason in ("warning", "refresh_requested"):
            await at.driver.disconnect(reason)
            await at.driver.until(lambda shown: shown.sockets == 0)
            await at.driver.say(at.anna, at.channel, reason)
            await at.driver.until(lambda shown: shown.sockets == 1)
        await at.until_heard(2)
        await at.driver.repeat()
        heard = await at.until_heard(3)
        assert heard[1]["event_id"] == heard[2]["event_id"]
        assert not await at.driver.errors()


REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("chat.postMessage", {"channel": "C1", "text": "x"}, "channel_not_found"),
    ("chat.postMessage", {}, "invalid_arguments"),
    ("chat.postMessage", {"text": 7}, "invalid_arguments"),
    ("chat.postMessage", {"text": "x", "colour": "red"}, "invalid_arguments"),
    ("chat.postMessage", {"text": ""}, "no_text"),
    ("chat.postMessage", {"text": "x", "thread_ts": "1.0"}, "thread_not_found"),
    ("chat.postMessage", {"text": "x", "blocks": [{"type": "poll"}]}, "invalid_blocks"),
    ("chat.postMessage", {"blocks": [{**QUESTION, "block_id": "b"}] * 2}, "invalid_blocks"),
    ("chat.postMessage", {"text": "x", "metadata": {}}, ""),
    ("chat.update", {"ts": "1.0", "text": "x"}, "message_not_found"),
    ("conversations.history", {}, "invalid_arguments"),
    ("chat.sing", {}, "unknown_method"),
)


async def test_calls_are_refused_with_slacks_errors_and_limited() -> None:
    async with stage() as at:
        for method, arguments, error in REFUSED:
            where = {} if arguments == {} else {"channel": at.channel}
            assert await at.error(method, **{**where, **arguments}) == error, arguments
        hers = await at.driver.say(at.anna, at.channel, "mine")
        for method in ("update", "delete"):
            text = {"text": "x"} if method == "update" else {}
            error = await at.error(f"chat.{method}", channel=at.channel, ts=hers, **text)
            assert error == f"cant_{method}_message"
        post: dict[str, Any] = {"channel": at.channel, "text": "x"}
        long = await at.client.chat_postMessage(channel=at.channel, text="x" * 40_001)
        assert len(long["message"]["text"]) == 40_000
        edit = {"channel": at.channel, "ts": long["ts"], "text": "x" * 4001}
        assert await at.error("chat.update", **edit) == "msg_too_long"
        await at.driver.fail("chat.postMessage", Trouble.BUSY, seconds=29.5)
        with pytest.raises(SlackApiError, match="ratelimited") as caught:
            await at.client.chat_postMessage(**post)
        busy = caught.value.response
        assert (busy.status_code, busy.headers["Retry-After"]) == (429, "30")
        await at.driver.rights(at.anna, at.channel, archived=True)
        assert await at.error("chat.postMessage", **post) == "is_archived"
        for error in ("restricted_action", "restricted_action_thread_only_channel"):
            await at.driver.rights(at.anna, at.channel, error=error)
            assert await at.error("chat.postMessage", **post) == error
        await at.driver.rights(at.anna, at.channel, joined=False)
        assert await at.error("chat.postMessage", **post) == "not_in_channel"
        await at.driver.rights(at.anna, at.channel)
        assert await at.error("chat.postMessage", **post) == ""
        scopes = ("chat:write", "users:read")
        await at.driver.settings(Settings(scopes=scopes))
        with pytest.raises(SlackApiError) as caught:
            await at.client.conversations_history(channel=at.channel)
        refusal = caught.value.response
        assert (refusal["error"], refusal["needed"]) == ("missing_scope", "channels:history")
        assert (await at.client.auth_test()).headers["x-oauth-scopes"] == ",".join(scopes)
        await at.driver.settings(Settings(revoked=True))
        assert await at.error("auth.test") == "token_revoked"
        other = AsyncWebClient("xoxb-other", base_url=at.peer.base_url)
        with pytest.raises(SlackApiError, match="invalid_auth"):
            await other.auth_test()


async def test_a_separate_process_records_every_call_in_its_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with running(journal=journal) as peer:
        async with peer.driver() as driver:
            chat = await driver.chat(Kind.CHANNEL, [await driver.user("Anna")])
            client: Any = AsyncWebClient(peer.token, base_url=peer.base_url)
            ts = (await client.chat_postMessage(channel=chat, text="hello"))["ts"]
            await client.chat_delete(channel=chat, ts=ts)
            await driver.clear()
            assert not (await driver.look()).messages
    noted = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [it["method"] for it in noted] == ["chat.postMessage", "chat.delete"]
    assert noted[0]["parameters"]["text"] == "hello"
