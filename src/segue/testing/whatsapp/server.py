"""The WhatsApp fake's interface for the bot: the Graph API and files."""

from __future__ import annotations

from typing import cast

from segue.testing.http import Request
from segue.testing.peers import Record
from segue.testing.peers.rest import RestServer
from segue.testing.peers.server import Effect
from segue.testing.whatsapp.control import Control
from segue.testing.whatsapp.errors import check, refuse
from segue.testing.whatsapp.methods import ROUTES, Methods
from segue.testing.whatsapp.snapshot import Json, Settings
from segue.testing.whatsapp.state import State


class Server(RestServer[Settings, State]):
    control = Control
    routes = ROUTES
    methods = Methods
    errors = refuse
    unknown = 2500

    def fresh(self, settings: Settings) -> State:
        return State(settings, self.pulse)

    def check(self, request: Request, *, is_open: bool) -> None:
        _, _, token = request.headers.get("authorization", "").partition("Bearer ")
        check(token, 104)
        check(token == self.token and not self.state.settings.revoked, 190)

    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        """Messages and read marks are posted to the same path."""
        effect, _ = super().parse(request, record)
        if record.method != "post":
            return effect, None
        record.parameters = body = cast("Json", record.parameters["body"])
        record.method = "mark_read" if "status" in body else "send"
        return effect, str(body.get("to"))
