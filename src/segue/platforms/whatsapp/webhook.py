"""The webhook: the handshake, and the signature of requests.

https://developers.facebook.com/docs/graph-api/webhooks/getting-started
"""

from __future__ import annotations

import hashlib
import hmac
from http import HTTPStatus

from segue.platforms.webhook import WebhookRequest, WebhookResponse, WebhookRules

RULES = WebhookRules(methods=("GET", "POST"), body_limit=4 * 1024 * 1024, seconds=5.0)
"""A request of Meta has 3 MB at most."""
ORDER_SECONDS = 0.2
"""How long an update waits for an earlier one that is delivered after it."""
_CHALLENGE = 128
FORBIDDEN = WebhookResponse(status=HTTPStatus.FORBIDDEN)
UNAVAILABLE = WebhookResponse(status=HTTPStatus.SERVICE_UNAVAILABLE)


def verify_token(app_secret: str) -> str:
    """What Meta must name in the handshake. Derived, so that there is one secret less to keep."""
    return _digest(app_secret, b"segue verify token")[:32]


def handshake(request: WebhookRequest, app_secret: str) -> WebhookResponse:
    """Answer the request by which Meta checks the callback URL."""
    query = request.query
    given, challenge = query.get("hub.verify_token", ""), query.get("hub.challenge", "")
    if query.get("hub.mode") != "subscribe" or len(challenge) > _CHALLENGE:
        return FORBIDDEN
    if not hmac.compare_digest(given.encode(), verify_token(app_secret).encode()):
        return FORBIDDEN
    return WebhookResponse(body=challenge.encode())


def is_signed(request: WebhookRequest, app_secret: str) -> bool:
    """Whether Meta signed these bytes."""
    given = request.headers.get("x-hub-signature-256", "")
    expected = f"sha256={_digest(app_secret, request.body)}"
    return hmac.compare_digest(given.encode(), expected.encode())


def _digest(app_secret: str, message: bytes) -> str:
    return hmac.new(app_secret.encode(), message, hashlib.sha256).hexdigest()
