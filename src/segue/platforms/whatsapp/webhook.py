"""The webhook that Meta calls: the handshake, signed requests, and the order of their updates.

https://developers.facebook.com/docs/graph-api/webhooks/getting-started
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from segue.core.text import one_line
from segue.platforms.errors import Lost, Refused, bad_adapter
from segue.platforms.spec import PlatformSettings
from segue.platforms.webhook import WebhookRequest, WebhookResponse, WebhookRules
from segue.platforms.whatsapp.updates import WebhookUpdate

ORDER_SECONDS = 0.2
"""How long an update waits for an earlier one that is delivered after it."""
CHECK_SECONDS = 60.0
"""There is no connection that could break, so the platform is called now and then."""
RULES = WebhookRules(methods=("GET", "POST"), body_limit=4 * 1024 * 1024, seconds=5.0)
"""A request of Meta has 3 MB at most."""
_CHALLENGE = 128
FORBIDDEN = WebhookResponse(status=HTTPStatus.FORBIDDEN)
UNAVAILABLE = WebhookResponse(status=HTTPStatus.SERVICE_UNAVAILABLE)


def own_port(settings: PlatformSettings) -> int | None:
    """The separate port of the webhook. None if it has none. Raise PlatformError."""
    port = settings.value("port")
    if not port:
        return None
    if not port.isdecimal() or not 0 < int(port) < 2**16:
        reason = f"platforms.{settings.platform}.port is {one_line(port)}, which is no port"
        raise bad_adapter(settings.platform, reason)
    return int(port)


def verify_token(app_secret: str) -> str:
    """The token that Meta sends in the handshake. Derived from the secret, so that the user need
    not keep another one."""
    return _digest(app_secret, b"segue verify token")[:32]


def handshake(request: WebhookRequest, app_secret: str) -> WebhookResponse:
    """Answer the request with which Meta checks the callback URL."""
    query = request.query
    given = query.get("hub.verify_token", "")
    challenge = query.get("hub.challenge", "")
    if query.get("hub.mode") != "subscribe" or len(challenge) > _CHALLENGE:
        return FORBIDDEN
    if not hmac.compare_digest(given.encode(), verify_token(app_secret).encode()):
        return FORBIDDEN
    return WebhookResponse(body=challenge.encode())


async def flaw(ask: Callable[[Mapping[str, str]], Awaitable[bytes]], app_secret: str) -> str | None:
    """Repeat the handshake through the public address. Return None if it leads to this webhook,
    else the reason, which is empty if it is unknown. `ask` sends the query."""
    token = verify_token(app_secret)
    challenge = secrets.token_hex(8)
    query = {"hub.mode": "subscribe", "hub.verify_token": token, "hub.challenge": challenge}
    try:
        answer = await ask(query)
    except (Refused, Lost) as error:
        return error.reason
    return None if answer == challenge.encode() else ""


def is_signed(request: WebhookRequest, app_secret: str) -> bool:
    """Whether Meta signed these bytes. Without a secret, no request counts as signed."""
    if not app_secret:
        return False
    given = request.headers.get("x-hub-signature-256", "")
    expected = f"sha256={_digest(app_secret, request.body)}"
    return hmac.compare_digest(given.encode(), expected.encode())


def _digest(app_secret: str, message: bytes) -> str:
    return hmac.new(app_secret.encode(), message, hashlib.sha256).hexdigest()


# Order


class Deliveries:
    """The updates of webhook requests, in the order of their times.

    Requests overtake each other, so an update waits some seconds for an earlier one that is
    delivered after it. A request is answered when its updates are recorded, so the platform
    delivers lost updates again.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._waiting: dict[str, _Unanswered] = {}
        self._count = 0
        self._changed = asyncio.Event()

    async def record(self, updates: Iterable[WebhookUpdate]) -> bool:
        """Add updates, and return True when all are recorded, or False if they were dropped. One
        that was delivered twice is one."""
        futures = [self._add(update) for update in updates]
        self._changed.set()
        if futures:
            await asyncio.wait(futures)
        return not any(future.cancelled() for future in futures)

    def _add(self, update: WebhookUpdate) -> asyncio.Future[None]:
        known = self._waiting.get(update.id)
        if known is None:
            self._count += 1
            done = asyncio.get_running_loop().create_future()
            known = _Unanswered(update, self._count, self._clock(), done)
            self._waiting[update.id] = known
        return known.recorded

    async def first(self, seconds: float | None = None) -> WebhookUpdate | None:
        """The earliest update, once its time to wait is over. None if updates were added or
        dropped, or after `seconds` without an update."""
        while True:
            self._changed.clear()
            # Times may be whole seconds. Within one, the order of arrival is the best guess.
            earliest = min(
                self._waiting.values(),
                key=lambda it: (it.update.timestamp, it.number),
                default=None,
            )
            left = seconds
            if earliest is not None:
                left = earliest.since + self.seconds - self._clock()
                if left <= 0:
                    return earliest.update
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
                    return None
            if earliest is None:
                return None

    async def each(
        self, check: Callable[[], Awaitable[object]], seconds: float
    ) -> AsyncGenerator[WebhookUpdate | None]:
        """Yield the updates, and None in between. An update counts as recorded when the caller asks
        for the next one. `check` is called every `seconds`."""
        checked = self._clock()
        while True:
            left = checked + seconds - self._clock()
            if left <= 0:
                await check()
                checked = self._clock()
                continue
            update = await self.first(left)
            yield update
            if update is not None:
                self.recorded(update)

    def recorded(self, update: WebhookUpdate) -> None:
        done = self._waiting.pop(update.id, None)
        if done is not None:
            done.recorded.set_result(None)

    def drop(self) -> None:
        """Forget all updates. Their requests fail, so the platform delivers them again."""
        for waiting in self._waiting.values():
            waiting.recorded.cancel()
        self._waiting.clear()
        self._changed.set()


@dataclass(slots=True)
class _Unanswered:
    update: WebhookUpdate
    number: int
    """The order of arrival."""
    since: float
    recorded: asyncio.Future[None]
