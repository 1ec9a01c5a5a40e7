"""The webhook: the handshake, signatures, the order of updates, and the answers to requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from segue.core.address import Platform, Sender
from segue.core.errors import ConnectFailed, PlatformError
from segue.platforms.base import Inbound, InboundKind
from segue.platforms.errors import Lost
from segue.platforms.webhook import WebhookRequest
from segue.platforms.whatsapp import webhook
from segue.platforms.whatsapp.updates import WebhookUpdate, address
from segue.platforms.whatsapp.webhook import Deliveries
from segue.testing.contract.rig import reading
from tests.fakes.protocols.hub import signature
from tests.fakes.whatsapp import APP_SECRET, Settings
from tests.rigs.whatsapp.contract import AnnaOnWhatsApp
from tests.rigs.whatsapp.specimens import message, payload

SECRET = "the secret of the app"
TOKEN = webhook.verify_token(SECRET)


def post(body: bytes, secret: str = SECRET, **headers: str) -> WebhookRequest:
    signed = headers or {"x-hub-signature-256": signature(secret, body)}
    return WebhookRequest(method="POST", query={}, headers=signed, body=body)


def ask(**query: str) -> WebhookRequest:
    given = {f"hub.{name}": value for name, value in query.items()}
    return WebhookRequest(method="GET", query=given, headers={}, body=b"")


# Authentication


@pytest.mark.parametrize(
    ("mode", "token", "challenge", "status"),
    [
        ("subscribe", TOKEN, "123", 200),
        ("subscribe", "another", "123", 403),
        ("subscribe", "é", "123", 403),
        ("subscribe", "", "123", 403),
        ("unsubscribe", TOKEN, "123", 403),
        ("subscribe", TOKEN, "1" * 1000, 403),
    ],
)
def test_the_handshake_needs_the_verify_token(mode: str, token: str, challenge: str, status: int):
    request = ask(mode=mode, verify_token=token, challenge=challenge)
    answer = webhook.handshake(request, SECRET)
    assert answer.status == status
    assert answer.body == (b"123" if status == 200 else b"")


async def test_a_webhook_is_recognised_by_repeating_its_handshake():
    async def here(query: Mapping[str, str]) -> bytes:
        request = WebhookRequest(method="GET", query=query, headers={}, body=b"")
        return webhook.handshake(request, SECRET).body

    async def elsewhere(query: Mapping[str, str]) -> bytes:
        return b"<html>"

    async def nowhere(query: Mapping[str, str]) -> bytes:
        raise Lost("no connection can be made", arrived=False)

    found = [await webhook.flaw(ask, SECRET) for ask in (here, elsewhere, nowhere)]
    assert found == [None, "", "no connection can be made"]


def test_a_signature_is_over_the_bytes_with_the_secret():
    body = '{"text": "ü"}'.encode()
    good = signature(SECRET, body)
    assert webhook.is_signed(post(body), SECRET)
    for wrong in (
        post(b'{"text": "\\u00fc"}', **{"x-hub-signature-256": good}),
        post(body, "another secret"),
        post(body, **{"x-hub-signature-256": ""}),
        post(body, **{"x-hub-signature-256": good.removeprefix("sha256=")}),
        post(body, **{"x-hub-signature-256": "sha256=é"}),
        post(body, **{"x-hub-signature": good}),
    ):
        assert not webhook.is_signed(wrong, SECRET)


async def test_without_a_secret_nothing_is_signed(rig: AnnaOnWhatsApp):
    adapter = rig.made(app_secret="")
    assert (await adapter.handle_webhook(post(b"1", ""))).status == 403


# Order


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def update(timestamp: int, update_id: str) -> WebhookUpdate:
    sender = Sender(platform=Platform.WHATSAPP, user_id="1")
    inbound = Inbound(
        kind=InboundKind.MESSAGE, update_id=update_id, address=address("1"), sender=sender
    )
    return WebhookUpdate(timestamp, inbound)


async def test_a_delivery_waits_for_one_that_it_has_overtaken():
    clock = Clock()
    early = update(1, "a")
    late = update(2, "b")
    updates = Deliveries(5.0, clock)
    requests = [asyncio.ensure_future(updates.record([it])) for it in (late, early)]
    await asyncio.wait(requests, timeout=0)
    waiting = asyncio.ensure_future(updates.first())
    await asyncio.wait([waiting], timeout=0)
    assert not waiting.done()
    waiting.cancel()
    clock.now = 5.0
    assert await updates.first() == early
    assert await updates.first() == early, "it is not recorded yet"
    updates.recorded(early)
    assert await updates.first() == late
    assert [request.done() for request in requests] == [False, False]
    assert await requests[1]
    updates.recorded(late)
    assert await requests[0]


async def test_within_a_second_the_order_of_arrival_counts():
    updates = Deliveries(0.0)
    them = [update(1, name) for name in "zay"]
    request = asyncio.ensure_future(updates.record(them))
    for expected in them:
        while (found := await updates.first()) is None:
            pass
        assert found == expected
        updates.recorded(found)
    assert await request


async def test_deliveries_that_are_dropped_are_not_confirmed():
    updates = Deliveries(0.0)
    request = asyncio.ensure_future(updates.record([update(1, "a")]))
    await asyncio.wait([request], timeout=0)
    updates.drop()
    assert not await request
    assert await updates.first(0.0) is None
    assert await updates.record([]), "a request without updates"


# Delivery

MALFORMED = {"type": 1}
IGNORED = message("system", {"body": "the number changed"})


def said(number: int) -> Any:
    more = {"id": f"wamid.{number}", "timestamp": f"{number}"}
    return message("text", {"body": f"{number}"}, **more)


def request(*messages: Any) -> WebhookRequest:
    return post(json.dumps(payload(*messages)).encode(), APP_SECRET)


async def test_a_request_is_answered_when_all_of_it_is_recorded(rig: AnnaOnWhatsApp):
    adapter = rig.made()
    assert (await adapter.handle_webhook(request(said(1)))).status == 503, "it is not connected"
    await adapter.connect()
    answer = await adapter.handle_webhook(request(MALFORMED, IGNORED))
    assert answer.status == 200, "it has no update"
    several = request(said(2), MALFORMED, said(1), IGNORED)
    answering = asyncio.ensure_future(adapter.handle_webhook(several))
    again = asyncio.ensure_future(adapter.handle_webhook(request(said(1))))
    async with reading(adapter) as reader:
        assert [(await reader.next()).text for _ in range(2)] == ["1", "2"]
        for _ in range(10):  # turns of the event loop, in which it could be answered
            await asyncio.sleep(0)
        assert not answering.done()
        last = asyncio.ensure_future(reader.next())
        assert [(await it).status for it in (again, answering)] == [200, 200]
        last.cancel()
        await asyncio.wait([last])
    await adapter.close()


async def test_what_is_not_recorded_when_the_adapter_closes_is_delivered_again(rig: AnnaOnWhatsApp):
    adapter = rig.made()
    await adapter.connect()
    answer = asyncio.ensure_future(adapter.handle_webhook(request(said(1))))
    await asyncio.wait([answer], timeout=0)
    await adapter.close()
    assert (await answer).status == 503


async def test_a_platform_that_is_out_of_reach_is_noticed_without_an_update(
    rig: AnnaOnWhatsApp, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(webhook, "CHECK_SECONDS", 0.01)
    adapter = rig.made()
    await adapter.connect()
    await rig.driver.settings(Settings(revoked=True))
    with pytest.raises(ConnectFailed, match="access token"):
        async with reading(adapter) as reader:
            await reader.next()
    await adapter.close()


@pytest.mark.parametrize("port", ["x", "0", "65536"])
async def test_a_port_that_is_none_is_refused(rig: AnnaOnWhatsApp, port: str):
    with pytest.raises(
        PlatformError, match=rf"platforms\.whatsapp\.port is {port}, which is no port"
    ):
        rig.made(port=port)
    assert rig.made(port="8443").webhook_rules.port == 8443
