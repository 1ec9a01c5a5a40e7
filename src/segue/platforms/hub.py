"""Adapters of platforms that call a webhook as Meta does: the handshake, signed requests, and
updates that overtake each other.

https://developers.facebook.com/docs/graph-api/webhooks/getting-started
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from http import HTTPStatus
from typing import TypeVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from segue.platforms.adapter import RemoteAdapter
from segue.platforms.base import Inbound
from segue.platforms.connection import C
from segue.platforms.errors import Failures, Lost, Refused, parsed
from segue.platforms.spec import PlatformSettings
from segue.platforms.unrecorded import Deliveries
from segue.platforms.webhook import WebhookRequest, WebhookResponse, WebhookRules, own_port

T = TypeVar("T")

logger = logging.getLogger(__name__)

ORDER_SECONDS = 0.2
"""How long an update waits for an earlier one that is delivered after it."""
CHECK_SECONDS = 60.0
"""No connection says that the platform is out of reach, so it is asked now and then."""
_RULES = WebhookRules(methods=("GET", "POST"), body_limit=4 * 1024 * 1024, seconds=5.0)
"""A request of Meta has 3 MB at most."""
_CHALLENGE = 128
_FORBIDDEN = WebhookResponse(status=HTTPStatus.FORBIDDEN)
_UNAVAILABLE = WebhookResponse(status=HTTPStatus.SERVICE_UNAVAILABLE)


class HubUpdate(Struct, frozen=True):
    timestamp: int
    inbound: Inbound
    code: str = ""
    """Of a message of ours that did not arrive, the code of the error."""

    @property
    def id(self) -> str:
        return self.inbound.update_id


class HubAdapter(RemoteAdapter[C]):
    """Receives by webhook. A request is answered when its updates are recorded."""

    def __init__(self, failures: Failures, settings: PlatformSettings) -> None:
        """The settings have the app's secret, and can have a port for the webhook alone."""
        super().__init__(failures)
        self.app_secret = settings.value("app_secret")
        self.webhook_rules = replace(_RULES, port=own_port(settings))
        self.deliveries = Deliveries[HubUpdate](ORDER_SECONDS)

    # The platform's calls

    def _parse(self, body: bytes) -> Iterable[HubUpdate | None]:
        """The updates of a request. None for each part that is malformed."""
        raise NotImplementedError

    def _note(self, update: HubUpdate) -> None:
        """Learn from an update before it is yielded."""

    # The contract

    async def close(self) -> None:
        await super().close()
        self.deliveries.drop()

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResponse:
        """The platform delivers again what is not answered by 200. What it signed but cannot be
        parsed is skipped: it would be the same the next time."""
        if request.method == "GET":
            return handshake(request, self.app_secret)
        if not is_signed(request, self.app_secret):
            logger.warning("webhook refused platform=%s reason=signature", self.platform)
            return _FORBIDDEN
        if not self.account:  # not connected yet
            return _UNAVAILABLE
        found = list(self._parse(request.body))
        self._skip(["unknown"] * found.count(None))
        recorded = await self.deliveries.record(filter(None, found))
        return WebhookResponse() if recorded else _UNAVAILABLE

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        self.connection.check()
        updates = self.deliveries.each(self._check, CHECK_SECONDS)
        async with contextlib.aclosing(updates):
            async for update in updates:
                self.connection.check()
                if update is not None:
                    self._note(update)
                yield update and update.inbound

    async def _check(self) -> None:
        with self.failures.connecting():
            await self._greet(self.client)


def each(
    parts: Iterable[Raw] | None, kind: type[T], convert: Callable[[T], HubUpdate | None]
) -> Generator[HubUpdate | None]:
    """Yield the updates that `convert` makes of the parts of a request, and None for each part that
    is malformed, or that `convert` cannot handle. A part of which it makes None is ignored."""
    for part in parts or ():
        it = parsed(part, kind)
        update = None
        try:
            update = None if it is None else convert(it)
        except Exception:
            logger.exception("part of a request failed")
            it = None
        if it is None or update is not None:
            yield update


# Authentication


def verify_token(app_secret: str) -> str:
    """What the hub must name in the handshake. Derived: one secret less to keep."""
    return _digest(app_secret, b"segue verify token")[:32]


def handshake(request: WebhookRequest, app_secret: str) -> WebhookResponse:
    """Answer the request by which the hub checks the callback URL."""
    query = request.query
    given, challenge = query.get("hub.verify_token", ""), query.get("hub.challenge", "")
    if query.get("hub.mode") != "subscribe" or len(challenge) > _CHALLENGE:
        return _FORBIDDEN
    if not hmac.compare_digest(given.encode(), verify_token(app_secret).encode()):
        return _FORBIDDEN
    return WebhookResponse(body=challenge.encode())


async def flaw(ask: Callable[[Mapping[str, str]], Awaitable[bytes]], app_secret: str) -> str | None:
    """Repeat the handshake through the public address. Return None if it leads to this webhook,
    else why it does not, if that is known. `ask` sends the query."""
    token, challenge = verify_token(app_secret), secrets.token_hex(8)
    query = {"hub.mode": "subscribe", "hub.verify_token": token, "hub.challenge": challenge}
    try:
        return None if await ask(query) == challenge.encode() else ""
    except (Refused, Lost) as error:
        return error.reason


def is_signed(request: WebhookRequest, app_secret: str) -> bool:
    """Whether the hub signed these bytes. Without a secret, nothing is signed."""
    given = request.headers.get("x-hub-signature-256", "")
    expected = f"sha256={_digest(app_secret, request.body)}"
    return bool(app_secret) and hmac.compare_digest(given.encode(), expected.encode())


def _digest(app_secret: str, message: bytes) -> str:
    return hmac.new(app_secret.encode(), message, hashlib.sha256).hexdigest()
