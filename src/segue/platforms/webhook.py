"""Webhooks: requests that a platform sends to the gateway.

An adapter that is also a `Webhook` receives them at `/hooks/<platform>` of the gateway's HTTP
server, while the gateway receives its updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Protocol, runtime_checkable

from msgspec import Struct

from segue.core.address import Platform


class WebhookRules(Struct, frozen=True, kw_only=True):
    """The requests that a webhook accepts."""

    methods: tuple[str, ...] = ("POST",)
    body_limit: int = 1024 * 1024
    """Maximum bytes of a body."""
    seconds: float = 10.0
    """How long a handler may take."""
    port: int | None = None
    """A port of this machine for this webhook alone. None for the server that all share."""


class WebhookRequest(Struct, frozen=True, kw_only=True):
    method: str
    query: Mapping[str, str]
    """Decoded. Of a repeated name, the last value."""
    headers: Mapping[str, str]
    """Names are lower-case. Values of a repeated name are joined by commas."""
    body: bytes
    """The bytes as sent, over which signatures are computed."""


class WebhookResponse(Struct, frozen=True, kw_only=True):
    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    media_type: str = "text/plain"


@runtime_checkable
class Webhook(Protocol):
    """Anyone can send these requests: the handler authenticates them."""

    @property
    def webhook_rules(self) -> WebhookRules: ...

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResponse:
        """Answer the request. The platform gets the response when this returns, so return once the
        updates in it are recorded. The platform gets 500 after an exception, and 503 if this takes
        too long or is cancelled; most platforms then send the request again."""
        ...


class WebhookServer(Protocol):
    async def mount(self, platform: Platform, webhook: Webhook) -> None:
        """Pass requests to `webhook`, or raise ConnectFailed if there is no port to serve on."""
        ...

    async def unmount(self, platform: Platform) -> None:
        """Stop passing requests. Running handlers are cancelled. Idempotent; never raises."""
        ...
