"""The Signal fake's interface for the bot: HttpServerHandler.java."""

from __future__ import annotations

import functools
import urllib.parse
from typing import Any

from segue.testing import peers
from segue.testing.http import Request, Response
from segue.testing.peers import Outage, Record
from segue.testing.peers.errors import bare
from segue.testing.peers.server import Effect
from tests.fakes.protocols import jsonrpc
from tests.fakes.protocols.jsonrpc import RpcCall, RpcRefuse
from tests.fakes.signal.control import Control
from tests.fakes.signal.methods import METHODS, Methods
from tests.fakes.signal.snapshot import Settings
from tests.fakes.signal.state import State

_PATHS = {"/api/v1/rpc": "POST", "/api/v1/events": "GET", "/api/v1/check": "GET"}
_ACCOUNTS = ("listAccounts", "startLink", "finishLink")
"""Methods that exist only in multi-account mode."""


class Server(peers.Server[Settings, State]):
    control = Control
    polls = "check"

    def fresh(self, settings: Settings) -> State:
        return State(settings, self.pulse)

    def receives_updates(self, request: Request) -> bool:
        return request.target.startswith("/api/v1/events")

    def farewell(self, request: Request, outage: Outage) -> Response:
        """An event stream that ends at once. There is no limit to their number."""
        return Response(headers={"Content-Type": "text/event-stream"}, body=b":\n")

    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        url = urllib.parse.urlsplit(request.target)
        record.method = url.path.removeprefix("/api/v1/")
        if url.path not in _PATHS:
            raise bare(404)
        if request.method != _PATHS[url.path]:
            raise bare(405)
        if record.method == "check":
            return lambda: Response(headers={"Content-Type": ""}), None
        if record.method == "events":
            account = dict(urllib.parse.parse_qsl(url.query)).get("account")
            if account and not self.state.settings.single and account not in self.state.accounts:
                raise bare(400, mistake=False)
            return functools.partial(self.state.events.listen, "receive"), None
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise bare(415)
        call = jsonrpc.read(request.body)
        if call.id is None:
            raise bare(201)  # a notification, which has no answer
        try:
            effect, chat = self._call(str(call.method), call, record)
        except RpcRefuse as refuse:
            raise refuse.answering(call.id) from refuse
        return jsonrpc.answer(call, effect), chat

    def _call(self, name: str, call: RpcCall, record: Record) -> tuple[Effect, str | None]:
        settings = self.state.settings
        record.parameters = given = dict(call.params or {})
        record.method = "edit" if name == "send" and "editTimestamp" in given else name
        missing = {*settings.missing, *(_ACCOUNTS if settings.single else ())}
        if name not in METHODS or name in missing:
            is_mistake = name not in METHODS
            raise RpcRefuse(jsonrpc.NO_METHOD, "Method not implemented", mistake=is_mistake)
        declared, taken = METHODS[name]
        if name not in ("version", *_ACCOUNTS):
            self._check_account(given.pop("account", None))
        it: Any = jsonrpc.arguments(name, taken, given)
        chat = [*(getattr(it, "recipient", None) or ()), *(getattr(it, "groupId", None) or ())]
        handler = getattr(Methods(self.state), declared.do)
        return functools.partial(handler, it), chat[0] if chat else None

    def _check_account(self, account: object) -> None:
        """SignalJsonRpcCommandHandler.handleRequest"""
        accounts = self.state.accounts
        if self.state.settings.single or account in accounts:
            return
        if account is not None:
            raise RpcRefuse(jsonrpc.INVALID_PARAMS, "Specified account does not exist")
        if len(accounts) != 1:
            raise RpcRefuse(jsonrpc.INVALID_PARAMS, "Method requires valid account parameter")

    def malformed(self, reason: str) -> RpcRefuse:
        return jsonrpc.mistake(reason)
