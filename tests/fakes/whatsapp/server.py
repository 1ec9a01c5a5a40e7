"""The WhatsApp fake's interface for the bot: the Graph API and files."""

from __future__ import annotations

from typing import cast

from segue.testing.http import Request
from segue.testing.peers import Record
from segue.testing.peers.server import Effect
from tests.fakes.protocols.rest import RestServer
from tests.fakes.whatsapp.control import Control
from tests.fakes.whatsapp.errors import check, refuse
from tests.fakes.whatsapp.methods import ROUTES, Methods
from tests.fakes.whatsapp.snapshot import Json, Settings
from tests.fakes.whatsapp.state import State


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
