"""The Slack fake's interface for the bot: the Web API, sockets and files.

docs.slack.dev/apis/web-api: a token in the Authorization header; arguments as a form or, for
methods that write, as JSON. Without the token, a file's `url_private` leads to a login page.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any, cast

from segue.testing import peers
from segue.testing.http import Request, Response
from segue.testing.peers import Record
from segue.testing.peers.errors import page
from segue.testing.peers.server import Effect
from segue.testing.websocket import WebSocket
from tests.fakes.slack.control import Control
from tests.fakes.slack.errors import Refuse, check, mistake
from tests.fakes.slack.methods import METHODS, Methods
from tests.fakes.slack.snapshot import Json, Settings
from tests.fakes.slack.state import State

APP_TOKEN = "xapp-1-A0100000001-100000003-thetokenoftheappfortests"
_TARGET = re.compile(r"/(api|upload|download)/([^/?]+).*")


class Server(peers.Server[Settings, State]):
    control = Control

    def fresh(self, settings: Settings) -> State:
        return State(settings, self.pulse)

    async def connect(self, wire: WebSocket, target: str) -> None:
        await self.state.envelopes.connect(target, wire, self.outages.now)

    async def _answer_bot(self, request: Request) -> Response:
        response = await super()._answer_bot(request)
        headers = {"X-OAuth-Scopes": ",".join(self.state.settings.scopes), **response.headers}
        # Files are on other servers, whose errors are not JSON.
        refused = not request.target.startswith("/api/") and "Content-Type" not in headers
        status = 403 if refused and response.status == 200 else response.status
        return dataclasses.replace(response, status=status, headers=headers)

    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        methods, match = Methods(self.state), _TARGET.fullmatch(request.target)
        kind, name = (match[1], match[2]) if match is not None else ("login", "")
        _, _, token = request.headers.get("authorization", "").partition("Bearer ")
        record.method = name if kind == "api" else kind
        if kind == "api":
            return self._call(methods, token, request, record)
        if kind == "upload":
            return functools.partial(methods.upload, name, request.body), None
        if kind == "download" and (file := self.state.files.get(name)) is not None:
            if token == self.token and "files:read" in self.state.settings.scopes:
                return lambda: file[1], None
            raise page("Found", 302, Location=f"{self.state.url}/?redir={request.target}")
        raise page("Sign in to Segue", 200)

    def _call(
        self, methods: Methods, token: str, request: Request, record: Record
    ) -> tuple[Effect, str | None]:
        name, settings = record.method, self.state.settings
        app, called = name.startswith("apps."), METHODS.get(name)
        if called is None or name in settings.missing:
            raise Refuse("unknown_method", mistake=called is None)
        declared, taken = called
        check(token, "not_authed")
        check(token != (self.token if app else APP_TOKEN), "not_allowed_token_type")
        check(token in (self.token, APP_TOKEN), "invalid_auth")
        check(app or not settings.revoked, "token_revoked")
        self.state.need(declared.scope, app=app)
        if not declared.json and "json" in request.headers.get("content-type", ""):
            raise mistake(f"{name} takes no JSON")
        it: Any = taken(**self.arguments(taken, request, record))
        if name == "chat.postMessage" and it.thread_ts:
            record.method = "reply"
        chat = getattr(it, "channel", None) or getattr(it, "channel_id", None)
        return functools.partial(getattr(methods, declared.do), it), chat

    def envelope(self, result: object) -> object:
        return {"ok": True, **cast("Json", result)}

    def malformed(self, reason: str) -> Refuse:
        return mistake(reason)
