"""The WhatsApp fake's interface for the bot: the Graph API, files and the webhook."""

from __future__ import annotations

import asyncio
import functools
import re

from msgspec import Raw

from segue.testing import peers
from segue.testing.http import Request
from segue.testing.peers import Record, forms
from segue.testing.peers.server import Effect
from segue.testing.whatsapp.control import Control
from segue.testing.whatsapp.delivery import Delivery
from segue.testing.whatsapp.errors import check, missing, mistake
from segue.testing.whatsapp.methods import Methods
from segue.testing.whatsapp.snapshot import PHONE, Settings
from segue.testing.whatsapp.state import State

APP_SECRET = "the-secret-of-the-app-for-tests"  # noqa: S105 - it opens nothing but this
VERIFY_TOKEN = "the-verify-token-for-tests"  # noqa: S105
_TARGET = re.compile(r"/v\d+\.\d+/([^/?]+)(?:/([^/?]+))?(?:\?.*)?")
_FILE = re.compile(r"/whatsapp_business/attachments/\?.*")


class Server(peers.Server[Settings, State]):
    control = Control
    _delivery: asyncio.Task[None] | None = None

    def fresh(self, settings: Settings) -> State:
        return State(settings, self.pulse)

    async def open(self) -> None:
        await super().open()
        self._deliver()

    async def clear(self, settings: Raw) -> None:
        await super().clear(settings)
        self._deliver()

    async def close(self) -> None:
        if self._delivery is not None:
            self._delivery.cancel()
        await super().close()

    def _deliver(self) -> None:
        """Deliver the updates of the current state."""
        if self._delivery is not None:
            self._delivery.cancel()
        self._delivery = asyncio.create_task(Delivery(self.state, APP_SECRET).run())

    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        methods, found = Methods(self.state), _TARGET.fullmatch(request.target)
        if found is None and not _FILE.fullmatch(request.target):
            record.method = request.target
            raise mistake("Unknown path components")
        self._authorize(request)
        if found is None:
            return self._call("download", methods, request, record)
        name, edge = found[1], found[2]
        if name != PHONE:
            record.method = "get_media"
            if edge is None and request.method == "GET":
                return functools.partial(methods.get_media, name), None
            raise missing(name, request.method)
        match request.method, edge:
            case "POST", "messages":
                return self._send(methods, request, record)
            case "POST", "media":
                return self._call("upload", methods, request, record)
            case "GET", None:
                return self._call("get_number", methods, request, record)
            case _:
                record.method = f"{request.method} {edge}"
                raise mistake(f"Unknown path components: /{edge}")

    def _authorize(self, request: Request) -> None:
        _, _, token = request.headers.get("authorization", "").partition("Bearer ")
        check(token, 104)
        check(token == self.token and not self.state.settings.revoked, 190)

    def _send(
        self, methods: Methods, request: Request, record: Record
    ) -> tuple[Effect, str | None]:
        record.method = "send"
        if request.headers.get("content-type") != "application/json":
            raise mistake("a message is JSON")
        body = dict(forms.read(request).values)
        record.parameters = body
        if "status" in body:
            record.method = "mark_read"
            return functools.partial(methods.mark_read, body), None
        return functools.partial(methods.send, body), str(body.get("to"))

    def _call(
        self, name: str, methods: Methods, request: Request, record: Record
    ) -> tuple[Effect, str | None]:
        record.method, method = name, getattr(Methods, name)
        return functools.partial(method, methods, **self.arguments(method, request, record)), None

    def malformed(self, reason: str) -> peers.Refuse:
        return mistake(reason)
