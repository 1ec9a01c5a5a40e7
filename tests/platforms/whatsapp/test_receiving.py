"""What the webhook takes, in which order, and what becomes of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import segue.store
from segue.config import WebSettings
from segue.core.address import Platform
from segue.core.errors import ConnectFailed
from segue.platforms import hub
from segue.platforms.base import InboundKind, Quote
from segue.platforms.webhook import WebhookRequest
from segue.platforms.whatsapp.parser import address, last_message, parse
from segue.testing.contract.rig import listening
from segue.testing.http import request
from segue.testing.peers.hub import signature
from segue.testing.whatsapp import APP_SECRET, NUMBER, PHONE, Settings
from segue.web.server import SharedServer
from tests.platforms.whatsapp.rig import WhatsAppRig
from tests.platforms.whatsapp.specimens import ANNA, message, payload
from tests.web.bare_server import reserved_port


def posted(body: bytes, **headers: str) -> WebhookRequest:
    return WebhookRequest(method="POST", query={}, headers=headers, body=body)


def asked(**query: str) -> WebhookRequest:
    given = {f"hub.{name}": value for name, value in query.items()}
    return WebhookRequest(method="GET", query=given, headers={}, body=b"")


def found(kind: str, content: Any, **more: Any) -> Any:
    """The Inbound of one message, or None."""
    updates = [*parse(json.dumps(message(kind, content, **more)).encode(), PHONE)]
    return updates[0].inbound if updates and updates[0] else None


# Authentication


@pytest.mark.parametrize(
    ("mode", "token", "challenge", "status"),
    [
        ("subscribe", hub.verify_token(APP_SECRET), "123", 200),
        ("subscribe", "another", "123", 403),
        ("subscribe", "", "123", 403),
        ("unsubscribe", hub.verify_token(APP_SECRET), "123", 403),
        ("subscribe", hub.verify_token(APP_SECRET), "1" * 1000, 403),
    ],
)
def test_the_handshake_needs_the_verify_token(mode: str, token: str, challenge: str, status: int):
    it = asked(mode=mode, verify_token=token, challenge=challenge)
    answer = hub.handshake(it, APP_SECRET)
    assert answer.status == status
    assert answer.body == (b"123" if status == 200 else b"")


def test_a_signature_is_over_the_bytes_with_the_secret():
    body = '{"text": "ü"}'.encode()
    good = signature(APP_SECRET, body)
    assert hub.is_signed(posted(body, **{"x-hub-signature-256": good}), APP_SECRET)
    escaped = posted(b'{"text": "\\u00fc"}', **{"x-hub-signature-256": good})
    for wrong in (
        escaped,
        posted(body),
        posted(body, **{"x-hub-signature-256": good.removeprefix("sha256=")}),
        posted(body, **{"x-hub-signature-256": "sha256=é"}),
        posted(body, **{"x-hub-signature": good}),
    ):
        assert not hub.is_signed(wrong, APP_SECRET)


async def test_an_adapter_without_an_app_secret_does_not_connect(rig: WhatsAppRig):
    adapter, body = rig.made(app_secret=""), b"{}"
    signed = {"x-hub-signature-256": signature("", body)}
    assert (await adapter.handle_webhook(posted(body, **signed))).status == 403
    with pytest.raises(ConnectFailed, match="app secret"):
        await adapter.connect()


# Delivery


async def test_a_request_is_answered_when_its_update_is_recorded_and_not_before(rig: WhatsAppRig):
    body = json.dumps(message("text", {"body": "hello"})).encode()
    sign = {"X_Hub_Signature_256": signature(APP_SECRET, body)}
    post = asyncio.ensure_future(request("POST", rig.hook, body, **sign))
    again = asyncio.ensure_future(request("POST", rig.hook, body, **sign))
    async with listening(rig.adapter) as ear:
        assert (await ear.next()).text == "hello"
        assert not post.done()
        assert not again.done()
        asking = asyncio.ensure_future(ear.next())
        assert [status for status, _ in await asyncio.gather(post, again)] == [200, 200]
        asking.cancel()
        await asyncio.wait([asking])


async def test_updates_that_overtake_each_other_are_put_in_order(rig: WhatsAppRig):
    anna = await rig.driver.user("Anna")
    await rig.driver.settings(Settings(parallel=8))
    rig.adapter = adapter = rig.another(order_seconds=0.3)
    await adapter.connect()
    await rig.driver.hold()
    for number in range(5):
        await rig.driver.say(anna, str(number), at=1_790_000_000 + number)
    await rig.driver.release(backwards=True)
    async with listening(adapter) as ear:
        assert [(await ear.next()).text for _ in range(5)] == ["0", "1", "2", "3", "4"]


async def test_one_request_can_have_many_updates(rig: WhatsAppRig):
    anna = await rig.driver.user("Anna")
    await rig.driver.settings(Settings(batch=10))
    await rig.driver.hold()
    for number in range(4):
        await rig.driver.say(anna, str(number))
    await rig.driver.release()
    async with listening(rig.adapter) as ear:
        assert [(await ear.next()).text for _ in range(4)] == ["0", "1", "2", "3"]
        last = asyncio.ensure_future(ear.next())
        shown = await rig.driver.until(lambda shown: shown.unconfirmed == 0)
        last.cancel()
        await asyncio.wait([last])
    assert shown.answers["200"] == 1


async def test_the_webhook_can_have_a_port_of_its_own(rig: WhatsAppRig, tmp_path: Path):
    async with await segue.store.open(f"sqlite://{tmp_path}/store.db") as store:
        shared = SharedServer(WebSettings(), store)
        with reserved_port() as port:
            adapter = rig.made(port=str(port))
            await shared.mount(Platform.WHATSAPP, adapter)
            hook = f"http://127.0.0.1:{port}/hooks/whatsapp"
            token = hub.verify_token(APP_SECRET)
            query = f"hub.mode=subscribe&hub.challenge=7&hub.verify_token={token}"
            assert await request("GET", f"{hook}?{query}") == (200, b"7")
            with pytest.raises(ConnectFailed, match=r"platforms\.whatsapp\.port"):
                await shared.mount(Platform.WHATSAPP, adapter)
            await shared.unmount(Platform.WHATSAPP)
            assert (await request("GET", hook))[0] == 0
    assert shared.server is None


# Parsing


def test_what_is_no_text_is_put_in_words():
    place = {"latitude": 1.5, "longitude": 2, "name": "Harbour\n", "address": "Quay 1"}
    assert found("location", place).text == (
        "[A place: Harbour, Quay 1, at latitude 1.5, longitude 2.0]"
    )
    eve = {"name": {"formatted_name": "Eve"}, "phones": [{"phone": "+1 23"}]}
    assert found("contacts", [eve]).text == "[A contact: Eve, +1 23]"
    reaction = {"message_id": "wamid.X", "emoji": "👍"}
    assert found("reaction", reaction).text == "[A reaction: 👍]"
    assert found("reaction", {"message_id": "wamid.X"}) is None
    assert found("unsupported", {}).text.startswith("[A message of a kind")
    assert found("button", {"payload": "p", "text": "Stop"}).text == "Stop"
    assert found("system", {"body": "changed number"}) is None


def test_files_have_names_that_fit_their_types():
    voice = {"mime_type": "audio/ogg; codecs=opus", "id": "1", "voice": True}
    picture = {"mime_type": "image/png", "id": "2", "caption": "Look."}
    paper = {"mime_type": "application/pdf", "id": "3", "filename": "bill.pdf"}
    files = [found("audio", voice), found("image", picture), found("document", paper)]
    named = [(it.attachments[0].name, it.attachments[0].media_type, it.text) for it in files]
    assert named[1:] == [
        ("photo.png", "image/png", "Look."),
        ("bill.pdf", "application/pdf", ""),
    ]
    assert named[0][0].startswith("voice.")
    assert named[0][1] == "audio/ogg"


def test_a_chosen_row_is_a_press_and_a_reply_has_its_quote():
    row = {"type": "list_reply", "list_reply": {"id": "a:1", "title": "One"}}
    press = found("interactive", row, context={"from": NUMBER, "id": "wamid.OURS"})
    assert (press.kind, press.text) == (InboundKind.BUTTON, "a:1")
    assert press.message_id == "wamid.OURS"
    reply = found("text", {"body": "yes"}, context={"from": NUMBER, "id": "wamid.OURS"})
    assert reply.quote == Quote(ours=True)
    many = found("text", {"body": "/approve"}, context={"frequently_forwarded": True})
    assert (many.typed, many.forwarded_from) == ("", "")


def test_messages_of_groups_and_of_other_numbers_are_left_out():
    assert found("text", {"body": "hello"}, group_id="G1") is None
    other = message("text", {"body": "hello"})
    other["entry"][0]["changes"][0]["value"]["metadata"]["phone_number_id"] = "7"
    assert [*parse(json.dumps(other).encode(), PHONE)] == []


def test_a_bad_message_does_not_take_the_good_ones_with_it():
    good = message("text", {"body": "good"})["entry"][0]["changes"][0]["value"]["messages"][0]
    bad, update = parse(json.dumps(payload(messages=[{"id": 7}, good])).encode(), PHONE)
    assert bad is None
    assert update is not None
    assert update.inbound.text == "good"


def test_the_id_of_an_update_has_the_time_of_the_message():
    inbound = found("text", {"body": "hello"})
    assert last_message(inbound.update_id) == (1_790_000_000, "wamid.HBgL")
    assert inbound.address == address(ANNA)
    assert last_message("") == last_message("x y") == (0, "")
