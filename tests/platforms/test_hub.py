"""Webhooks of a hub: the handshake, signatures, and the answers to requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest
from msgspec import Raw

from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.errors import BadAdapter, ConnectFailed
from segue.core.secret import Secret
from segue.platforms import hub
from segue.platforms.base import Capabilities, Inbound, InboundKind
from segue.platforms.errors import Failures, Lost, Refused
from segue.platforms.hub import HubAdapter, HubUpdate
from segue.platforms.spec import PlatformSettings
from segue.platforms.webhook import WebhookRequest
from segue.testing.contract.rig import listening
from tests.fakes.protocols.hub import signature

SECRET = "the secret of the app"
TOKEN = hub.verify_token(SECRET)


def post(body: bytes, secret: str = SECRET, **headers: str) -> WebhookRequest:
    signed = headers or {"x-hub-signature-256": signature(secret, body)}
    return WebhookRequest(method="POST", query={}, headers=signed, body=body)


def ask(**query: str) -> WebhookRequest:
    given = {f"hub.{name}": value for name, value in query.items()}
    return WebhookRequest(method="GET", query=given, headers={}, body=b"")


class Client:
    def __init__(self) -> None:
        self.is_denied = False

    async def close(self) -> None:
        pass


class Numbers(HubAdapter[Client]):
    """A platform whose requests are numbers with dots between them."""

    platform = Platform.WHATSAPP
    capabilities = Capabilities()

    def __init__(self, secret: str = SECRET, port: str = "") -> None:
        given = {"app_secret": Secret(secret, "test"), "port": port}
        settings = PlatformSettings(platform=Platform.WHATSAPP, values=given)
        super().__init__(Failures(Platform.WHATSAPP), settings)
        self.deliveries.seconds = 0.0

    def _make(self) -> Client:
        return Client()

    async def _greet(self, client: Client) -> None:
        if client.is_denied:
            raise Refused(401, "the token was revoked")
        self.account = "1"

    def _parse(self, body: bytes) -> Iterable[HubUpdate | None]:
        return hub.each(map(Raw, body.split(b".")), int, _update)


def _update(number: int) -> HubUpdate | None:
    at = Address(platform=Platform.WHATSAPP, chat_type=ChatType.DM, chat_id="1")
    sender = Sender(platform=Platform.WHATSAPP, user_id="1")
    inbound = Inbound(
        kind=InboundKind.MESSAGE, update_id=f"{number}", address=at, sender=sender, text=f"{number}"
    )
    return HubUpdate(number, inbound) if number else None


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
async def test_the_handshake_needs_the_verify_token(
    mode: str, token: str, challenge: str, status: int
):
    request = ask(mode=mode, verify_token=token, challenge=challenge)
    answer = await Numbers().handle_webhook(request)
    assert answer.status == status
    assert answer.body == (b"123" if status == 200 else b"")


async def test_a_webhook_is_recognised_by_repeating_its_handshake():
    async def here(query: Mapping[str, str]) -> bytes:
        request = WebhookRequest(method="GET", query=query, headers={}, body=b"")
        return (await Numbers().handle_webhook(request)).body

    async def elsewhere(query: Mapping[str, str]) -> bytes:
        return b"<html>"

    async def nowhere(query: Mapping[str, str]) -> bytes:
        raise Lost("no connection can be made", arrived=False)

    found = [await hub.flaw(ask, SECRET) for ask in (here, elsewhere, nowhere)]
    assert found == [None, "", "no connection can be made"]


def test_a_signature_is_over_the_bytes_with_the_secret():
    body = '{"text": "ü"}'.encode()
    good = signature(SECRET, body)
    assert hub.is_signed(post(body), SECRET)
    for wrong in (
        post(b'{"text": "\\u00fc"}', **{"x-hub-signature-256": good}),
        post(body, "another secret"),
        post(body, **{"x-hub-signature-256": ""}),
        post(body, **{"x-hub-signature-256": good.removeprefix("sha256=")}),
        post(body, **{"x-hub-signature-256": "sha256=é"}),
        post(body, **{"x-hub-signature": good}),
    ):
        assert not hub.is_signed(wrong, SECRET)


async def test_without_a_secret_nothing_is_signed():
    adapter = Numbers(secret="")
    await adapter.connect()
    assert (await adapter.handle_webhook(post(b"1", ""))).status == 403


# Delivery


async def test_a_request_is_answered_when_all_of_it_is_recorded():
    adapter = Numbers()
    assert (await adapter.handle_webhook(post(b"1"))).status == 503, "it is not connected"
    await adapter.connect()
    assert (await adapter.handle_webhook(post(b"x.0"))).status == 200, "it has no update"
    # The second number is malformed, and the last one is ignored.
    answer = asyncio.ensure_future(adapter.handle_webhook(post(b"2.x.1.0")))
    again = asyncio.ensure_future(adapter.handle_webhook(post(b"1")))
    async with listening(adapter) as ear:
        assert [(await ear.next()).text for _ in range(2)] == ["1", "2"]
        for _ in range(10):  # turns of the event loop, in which it could be answered
            await asyncio.sleep(0)
        assert not answer.done()
        last = asyncio.ensure_future(ear.next())
        assert [(await it).status for it in (again, answer)] == [200, 200]
        last.cancel()
        await asyncio.wait([last])


async def test_what_is_not_recorded_when_the_adapter_closes_is_delivered_again():
    adapter = Numbers()
    await adapter.connect()
    answer = asyncio.ensure_future(adapter.handle_webhook(post(b"1")))
    await asyncio.wait([answer], timeout=0)
    await adapter.close()
    assert (await answer).status == 503


async def test_a_platform_that_is_out_of_reach_is_noticed_without_an_update(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(hub, "CHECK_SECONDS", 0.01)
    adapter = Numbers()
    await adapter.connect()
    adapter.client.is_denied = True
    with pytest.raises(ConnectFailed, match="revoked"):
        async with listening(adapter) as ear:
            await ear.next()


@pytest.mark.parametrize("port", ["x", "0", "65536"])
def test_a_port_that_is_none_is_refused(port: str):
    with pytest.raises(BadAdapter, match=rf"platforms\.whatsapp\.port is {port}, which is no port"):
        Numbers(port=port)
    assert Numbers(port="8443").webhook_rules.port == 8443
