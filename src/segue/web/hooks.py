"""Webhooks: requests under `/hooks/`, passed to the platform's handler.

Anyone may send them, through proxies and under any name, so each handler authenticates its
requests. Each connection is closed after one: a proxy puts requests of several clients onto one
connection, and none of them can then be taken for part of another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from segue.core.address import Platform
from segue.platforms.webhook import Webhook, WebhookRequest
from segue.web.http import CLOSE, Refused, Strangers, refusal, safe_headers
from segue.web.protocols import HttpProtocol

HOOKS = "/hooks/"
SENDING = 10.0
"""Seconds for a request's body to arrive."""
MOST_HOOKS = 64
"""Requests that are handled at the same time. More are refused, for the platform to send again."""
_MOST_FIELDS = 100
"""Fields of a query."""
_SUMMED_SECONDS = 60.0
"""Refused requests are logged once in that time, with their number: anyone can send them."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Refusals:
    """Refused requests of a platform that were not logged yet."""

    number: int
    timer: asyncio.TimerHandle


class Hooks:
    def __init__(self, senders: Strangers) -> None:
        """`senders` are the connections whose bodies are arriving."""
        self._senders = senders
        self._mounted: dict[str, Webhook] = {}
        self._unmounted: set[str] = set()
        """Platforms that had a webhook, and will have one again."""
        self._running: dict[asyncio.Task[Response], str] = {}
        """The platform of each running handler."""
        self._refusals: dict[str, _Refusals] = {}

    def __len__(self) -> int:
        return len(self._mounted)

    def mount(self, platform: Platform, webhook: Webhook) -> None:
        self._mounted[platform.value] = webhook
        self._unmounted.discard(platform.value)

    async def unmount(self, platform: Platform) -> None:
        """Idempotent. Running handlers are cancelled. Later requests are answered with 503, so that
        the platform sends them again."""
        if self._mounted.pop(platform.value, None) is not None:
            self._unmounted.add(platform.value)
        await self._cancel(platform.value)

    async def close(self) -> None:
        """Cancel all running handlers, and log what was counted."""
        await self._cancel(*self._running.values())
        for name in tuple(self._refusals):
            self._log_refusals(name)

    async def _cancel(self, *names: str) -> None:
        running = [task for task, name in self._running.items() if name in names]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def answer(self, request: Request, target: str) -> Response:
        """Return the response to a request under HOOKS. Raise Refused."""
        path, _, query = target.partition("?")
        name = path.removeprefix(HOOKS)
        webhook = self._mounted.get(name)
        if webhook is None:
            is_away = name in self._unmounted
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE if is_away else HTTPStatus.NOT_FOUND)
        rules = webhook.webhook_rules
        if request.method not in rules.methods:
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": ", ".join(rules.methods)})
        if int(request.headers.get("Content-Length", 0)) > rules.body_limit:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if len(self._running) >= MOST_HOOKS:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE)
        fields = _fields(query)
        body = await self._body(request, rules.body_limit)
        headers = {key: ", ".join(request.headers.getlist(key)) for key in request.headers}
        whole = WebhookRequest(method=request.method, query=fields, headers=headers, body=body)
        task = asyncio.create_task(_handle(name, webhook, whole))
        self._running[task] = name
        task.add_done_callback(self._running.pop)
        # The handler goes on even if the client does not wait for it.
        await asyncio.wait({task})
        if task.cancelled():
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE)
        response = task.result()
        if response.status_code == HTTPStatus.FORBIDDEN:
            self._count_refusal(name)
        return response

    async def _body(self, request: Request, limit: int) -> bytes:
        connection: HttpProtocol = request.scope["state"]["connection"]
        self._senders.add(connection, connection.address, connection.send_away)
        body = bytearray()
        try:
            async with asyncio.timeout(SENDING):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > limit:
                        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        except TimeoutError:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT) from None
        finally:
            self._senders.remove(connection)
        return bytes(body)

    def _count_refusal(self, name: str) -> None:
        refusals = self._refusals.get(name)
        if refusals is not None:
            refusals.number += 1
            return
        logger.warning("webhook request refused platform=%s", name)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(_SUMMED_SECONDS, self._log_refusals, name)
        self._refusals[name] = _Refusals(0, timer)

    def _log_refusals(self, name: str) -> None:
        refusals = self._refusals.pop(name)
        refusals.timer.cancel()
        if refusals.number:
            logger.warning(
                "more webhook requests refused platform=%s number=%d", name, refusals.number
            )


async def _handle(name: str, webhook: Webhook, request: WebhookRequest) -> Response:
    try:
        async with asyncio.timeout(webhook.webhook_rules.seconds):
            response = await webhook.handle_webhook(request)
    except TimeoutError:
        logger.error("webhook timed out platform=%s", name)  # noqa: TRY400 - where is of no use
        return refusal(HTTPStatus.SERVICE_UNAVAILABLE)
    headers = {**safe_headers(), **CLOSE, "Content-Type": response.media_type}
    return Response(response.body, response.status.value, headers)


def _fields(query: str) -> Mapping[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise Refused(HTTPStatus.BAD_REQUEST) from error
