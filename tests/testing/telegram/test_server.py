"""What the Telegram fake refuses and delivers. The real client library tests the rest of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from segue.system import http
from tests.fakes.telegram import (
    TOKEN,
    Driver,
    Kind,
    OrderRefused,
    Peer,
    Settings,
    Status,
    Upload,
    running,
    serving,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
MEGABYTE = 1024 * 1024
NO_THREAD = (400, "Bad Request: message thread not found")
FINE = (200, "ok")


@dataclass
class Stage:
    peer: Peer
    driver: Driver
    http: httpx2.AsyncClient
    anna: int
    forum: int
    """A forum in which the bot manages topics."""

    async def call(self, method: str, **parameters: Any) -> tuple[int, str]:
        """Return the status, and the description or `ok`."""
        response = await self.http.post(method, json=parameters)
        return response.status_code, response.json().get("description", "ok")

    async def send(self, chat: int, text: str = "x", **more: Any) -> tuple[int, str]:
        return await self.call("sendMessage", chat_id=chat, text=text, **more)

    async def result(self, method: str, **parameters: Any) -> Any:
        return (await self.http.post(method, json=parameters)).json()["result"]

    async def upload(self, method: str, content: bytes, **more: str) -> tuple[int, str]:
        files = {method.removeprefix("send").lower(): ("a", content, "a/b")}
        data = {"chat_id": str(self.forum), **more}
        response = await self.http.post(method, data=data, files=files)
        return response.status_code, response.json().get("description", "ok")

    async def messages(self, **more: Any) -> list[dict[str, Any]]:
        """The messages among the waiting updates."""
        updates = await self.result("getUpdates", **more)
        return [update["message"] for update in updates if "message" in update]

    async def texts(self, **more: Any) -> list[str]:
        return [message["text"] for message in await self.messages(**more)]


@contextlib.asynccontextmanager
async def stage(settings: Settings = Settings()) -> AsyncGenerator[Stage]:  # noqa: B008
    async with serving(settings) as peer, peer.driver() as driver:
        url = f"{peer.base_url}{peer.token}/"
        async with http.client(url, trust_env=False) as client:
            anna = await driver.user("Anna")
            forum = await driver.chat(Kind.FORUM, [anna], manage_topics=True)
            yield Stage(peer, driver, client, anna, forum)


async def test_an_invalid_call_is_refused_and_recorded() -> None:
    async with stage() as at:
        chat: dict[str, Any] = {"chat_id": at.forum}
        calls: Sequence[tuple[str, dict[str, Any]]] = (
            ("sendMessage", {**chat, "text": "x", "to": 1}),
            ("sendMessage", {"text": "x"}),
            ("sendMessage", {**chat, "text": 7}),
            ("sendMessage", {**chat, "text": "x", "parse_mode": "MarkdownV2"}),
            ("sendMessage", {**chat, "text": "x", "reply_markup": {"keyboard": []}}),
            ("getUpdates", {"limit": 101}),
            ("getUpdates", {"allowed_updates": ["messages"]}),
            ("sendChatAction", {**chat, "action": "singing"}),
            ("createForumTopic", {**chat, "name": "x" * 129}),
        )
        for number, (method, parameters) in enumerate(calls, 1):
            status, description = await at.call(method, **parameters)
            assert (status, description[:13]) == (400, "Bad Request: ")
            assert len(await at.driver.errors()) == number
        assert await at.call("sing") == (404, "Not Found")
        twice = await at.http.post("getChat", content=b"chat_id=1&chat_id=2")
        assert twice.status_code == 400
        assert len(await at.driver.errors()) == len(calls) + 2
        assert await at.call("getme") == FINE
        for token, status in ((TOKEN[:-1] + "2", 401), ("nonsense", 404)):
            answer = await at.http.post(f"{at.peer.base_url}{token}/getMe")
            assert answer.status_code == status


async def test_texts_buttons_edits_and_files_have_limits() -> None:
    async with stage() as at:
        for text in ("👍" * 2048, " same "):
            assert await at.send(at.forum, text) == FINE
        for text, reason in (
            ("", "message text is empty"),
            (" \n\u200b", "text must be non-empty"),
            ("👍" * 2049, "message is too long"),
        ):
            assert await at.send(at.forum, text) == (400, f"Bad Request: {reason}")
        for data, status in (
            ({"callback_data": "ü" * 32}, 200),
            ({"callback_data": ""}, 400),
            ({}, 400),
        ):
            keyboard = {"inline_keyboard": [[{"text": "Yes", **data}]]}
            assert (await at.send(at.forum, reply_markup=keyboard))[0] == status
        same = (await at.driver.message("same")).id
        edit = await at.call("editMessageText", chat_id=at.forum, message_id=same, text="same")
        assert edit[1].startswith("Bad Request: message is not modified")
        assert await at.upload("sendDocument", b"x", caption="x" * 1024) == FINE
        assert await at.upload("sendPhoto", PNG) == FINE
        for method, content, caption, status in (
            ("sendDocument", b"x", "x" * 1025, 400),
            ("sendDocument", b"", "", 400),
            ("sendDocument", bytes(50 * MEGABYTE + 1), "", 413),
            ("sendPhoto", b"not a picture", "", 400),
            ("sendPhoto", PNG + bytes(10 * MEGABYTE), "", 400),
        ):
            assert (await at.upload(method, content, caption=caption))[0] == status
        large = Upload(name="a", media_type="a/b", content=bytes(20 * MEGABYTE + 1))
        await at.driver.say(at.anna, at.forum, "", files=[large])
        file = (await at.messages())[-1]["document"]["file_id"]
        assert await at.call("getFile", file_id=file) == (400, "Bad Request: file is too big")


async def test_a_call_to_a_chat_without_write_access_returns_the_reason() -> None:
    async with stage() as at:
        dm = await at.driver.private(await at.driver.user("Bob"))
        group = await at.driver.chat(Kind.GROUP, [at.anna])
        for chat, refusal in (
            (1, (400, "Bad Request: chat not found")),
            (at.anna, (403, "Forbidden: bot can't initiate conversation with a user")),
            (
                await at.driver.user("Other", bot=True),
                (403, "Forbidden: bots can't send messages to bots"),
            ),
            (
                await at.driver.chat(Kind.CHANNEL, [at.anna]),
                (400, "Bad Request: need administrator rights in the channel chat"),
            ),
        ):
            assert await at.send(chat) == refusal
        for chat, status, reason in (
            (dm, Status.KICKED, "bot was blocked by the user"),
            (group, Status.KICKED, "bot was kicked from the group chat"),
            (at.forum, Status.LEFT, "bot is not a member of the supergroup chat"),
        ):
            await at.driver.rights(at.anna, chat, status)
            assert await at.send(chat) == (403, f"Forbidden: {reason}")
        after = await at.driver.migrate(group)
        answer = await at.http.post("sendMessage", json={"chat_id": group, "text": "x"})
        assert answer.json()["parameters"] == {"migrate_to_chat_id": after}


async def test_topics_need_a_forum_and_rights_and_can_be_closed_and_deleted() -> None:
    async with stage(Settings(topics=False)) as at:
        create = "createForumTopic"
        for chat in (
            await at.driver.private(at.anna),
            await at.driver.chat(Kind.GROUP, [at.anna], admin=True),
            await at.driver.chat(Kind.SUPERGROUP, [at.anna], manage_topics=True),
        ):
            refused = await at.call(create, chat_id=chat, name="x")
            assert refused == (400, "Bad Request: the chat is not a forum")
            assert await at.send(chat, message_thread_id=7) == NO_THREAD
        thread = await at.driver.open_topic(at.anna, at.forum, "hers")
        await at.driver.close_topic(at.anna, at.forum, thread)
        assert await at.send(at.forum, message_thread_id=thread) == FINE, "it manages topics"
        await at.driver.rights(at.anna, at.forum, Status.MEMBER)
        closed = await at.send(at.forum, message_thread_id=thread)
        assert closed == (400, "Bad Request: TOPIC_CLOSED")
        refused = await at.call(create, chat_id=at.forum, name="x")
        assert refused == (400, "Bad Request: not enough rights to create a topic")
        with pytest.raises(OrderRefused, match="TOPIC_CLOSED"):
            await at.driver.say(await at.driver.user("Ben"), at.forum, "x", thread=thread)
        await at.driver.delete_topic(at.forum, thread)
        assert await at.send(at.forum, message_thread_id=thread) == NO_THREAD
        thread = await at.driver.open_topic(at.anna, at.forum, "hers")
        await at.driver.delete_topic(at.forum, thread, silently=True)
        assert await at.send(at.forum, message_thread_id=thread) == FINE
        assert (await at.driver.look()).messages[-1].thread is None


async def test_a_reply_in_a_supergroup_has_a_thread_that_is_not_a_topic() -> None:
    async with stage() as at:
        first = await at.driver.say(at.anna, at.forum, "first")
        second = await at.driver.say(at.anna, at.forum, "second", reply_to=first)
        await at.driver.say(at.anna, at.forum, "third", reply_to=second)
        for message in (await at.messages())[1:]:
            assert message["message_thread_id"] == first
            assert "is_topic_message" not in message
        assert await at.send(at.forum, message_thread_id=first) == NO_THREAD


async def test_updates_are_returned_until_confirmed_and_only_one_client_polls() -> None:
    async with stage() as at:
        for text in ("one", "two", "three"):
            await at.driver.say(at.anna, at.forum, text)
        first = (await at.result("getUpdates"))[0]["update_id"]
        assert await at.texts(limit=2) == ["one", "two"]
        assert await at.texts(offset=first + 1) == ["two", "three"]
        assert await at.texts(offset=-1) == ["three"]
        await at.texts(offset=first + 3, allowed_updates=["callback_query"])
        await at.driver.say(at.anna, at.forum, "not asked for")
        polling = asyncio.ensure_future(at.call("getUpdates", timeout=10))
        await at.driver.until(lambda shown: shown.calls["getUpdates"] == 6)
        assert await at.texts() == []
        assert (await polling)[0] == 409
        await at.driver.bot(Settings(webhook="https://example.org"))
        assert (await at.call("getUpdates"))[0] == 409
        assert await at.call("deleteWebhook") == FINE
        assert await at.texts() == []


async def test_in_privacy_mode_a_bot_receives_what_is_addressed_to_it() -> None:
    async with stage(Settings(reads_all=False)) as at:
        group = await at.driver.chat(Kind.GROUP, [at.anna])
        await at.send(group, "hi")
        hers = await at.driver.say(at.anna, group, "to everyone")
        await at.driver.say(at.anna, group, "to herself", reply_to=hers)
        for text in ("/help@other_bot", "so, @other_bot?", "/help", "so, @Segue_Test_Bot?"):
            await at.driver.say(at.anna, group, text)
        await at.driver.say(at.anna, group, "to it", reply_to=hers - 1)
        await at.driver.say(at.anna, at.forum, "to an administrator")
        expected = ["/help", "so, @Segue_Test_Bot?", "to it", "to an administrator"]
        assert await at.texts() == expected


async def test_too_many_messages_in_one_chat_are_refused() -> None:
    async with stage(Settings(chat_seconds=30.0)) as at:
        for _ in range(5):
            assert await at.send(at.forum) == FINE
        answer = await at.http.post("sendMessage", json={"chat_id": at.forum, "text": "x"})
        assert answer.status_code == 429
        assert 1 <= answer.json()["parameters"]["retry_after"] <= 30
        assert await at.send(await at.driver.private(at.anna)) == FINE


async def test_a_separate_process_records_every_call_in_its_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with running(journal=journal) as peer:
        async with peer.driver() as driver, httpx2.AsyncClient(trust_env=False) as http:
            group = await driver.chat(Kind.GROUP, [await driver.user("Anna")])
            url = f"{peer.base_url}{peer.token}/sendMessage"
            await http.post(url, json={"chat_id": group, "text": "hello"})
            await driver.clear()
            assert not (await driver.look()).messages
    [noted] = [json.loads(line) for line in journal.read_text().splitlines()]
    assert (noted["method"], noted["status"]) == ("sendMessage", 200)
    assert noted["parameters"]["text"] == "hello"
