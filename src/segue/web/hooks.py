"""The webhooks of the server, by platform. Anyone may reach them: the host and origin checks of the
page do not apply, and each handler authenticates its requests."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from urllib.parse import parse_qsl

from websockets.http11 import Request, Response

from segue.core.address import Platform
from segue.platforms.webhook import Webhook, WebhookRequest
from segue.web import files
from segue.web.guard import Refused
from segue.web.http import BodyReceiver

PATH = "/hooks/"
MOST_RUNNING = 64
"""Requests that are handled at the same time. More are refused, for the platform to send again."""
_MOST_FIELDS = 100
"""Fields of a query."""

logger = logging.getLogger(__name__)


class Hooks:
    def __init__(self) -> None:
        self._mounted: dict[str, Webhook] = {}
        self._running: dict[asyncio.Task[Response], str] = {}
        """The platform of each running handler."""

    def __len__(self) -> int:
        return len(self._mounted)

    def mount(self, platform: Platform, webhook: Webhook) -> None:
        self._mounted[platform.value] = webhook

    async def unmount(self, platform: Platform) -> None:
        """Idempotent. Running handlers are cancelled."""
        self._mounted.pop(platform.value, None)
        running = [task for task, name in self._running.items() if name == platform.value]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def receiver(self, request: Request) -> Response | BodyReceiver:
        """Return what receives the request's body, or a response. Raise guard.Refused."""
        path, _, query = request.path.partition("?")
        name = path.removeprefix(PATH)
        webhook = self._mounted.get(name)
        if webhook is None:
            raise Refused(HTTPStatus.NOT_FOUND)
        rules = webhook.webhook_rules
        if request.method not in rules.methods:
            allowed = ", ".join(rules.methods)
            return files.refusal(HTTPStatus.METHOD_NOT_ALLOWED, Allow=allowed)
        if int(request.headers.get("Content-Length", 0)) > rules.body_limit:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if len(self._running) >= MOST_RUNNING:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE)
        fields = _fields(query)
        headers = {key: ", ".join(request.headers.get_all(key)) for key in request.headers}

        def start(body: bytes) -> asyncio.Task[Response]:
            whole = WebhookRequest(method=request.method, query=fields, headers=headers, body=body)
            task = asyncio.create_task(_handle(name, webhook, whole))
            self._running[task] = name
            task.add_done_callback(self._running.pop)
            return task

        return BodyReceiver(rules.body_limit, start)


async def _handle(name: str, webhook: Webhook, request: WebhookRequest) -> Response:
    try:
        async with asyncio.timeout(webhook.webhook_rules.seconds):
            response = await webhook.handle_webhook(request)
    except TimeoutError:
        logger.error("webhook timed out platform=%s", name)  # noqa: TRY400 - where is of no use
        return files.refusal(HTTPStatus.SERVICE_UNAVAILABLE)
    return files.response(response.status, "", response.body, response.media_type)


def _fields(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise Refused(HTTPStatus.BAD_REQUEST) from error
