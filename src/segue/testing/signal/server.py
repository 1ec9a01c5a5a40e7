"""The Signal fake's interface for the bot: HttpServerHandler.java and JsonRpcReader.java."""

from __future__ import annotations

import functools
import urllib.parse
from collections.abc import Callable
from typing import Any, cast

import msgspec

from segue.testing import peers
from segue.testing.http import Request, Response
from segue.testing.peers import Record
from segue.testing.peers.server import Effect
from segue.testing.peers.templates import Json
from segue.testing.signal import errors
from segue.testing.signal.control import Control
from segue.testing.signal.errors import Nothing, Refuse, mistake
from segue.testing.signal.methods import GLOBAL, METHODS, Methods, exists, unknown
from segue.testing.signal.snapshot import Settings
from segue.testing.signal.state import State

_TYPES = {str: "STRING", int: "NUMBER", float: "NUMBER", bool: "BOOLEAN", type(None): "NULL"}
_MEMBERS = {"jsonrpc", "method", "params", "id"}


class Server(peers.Server[Settings, State]):
    control = Control
    polls = "check"

    def fresh(self, settings: Settings) -> State:
        return State(settings, self.pulse)

    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        url = urllib.parse.urlsplit(request.target)
        record.method = url.path.removeprefix("/api/v1/")
        methods = {"rpc": "POST", "events": "GET", "check": "GET"}
        if record.method not in methods:
            raise Nothing(404)
        if request.method != methods[record.method]:
            raise Nothing(405)
        if record.method == "events":
            return self._events(dict(urllib.parse.parse_qsl(url.query))), None
        if record.method == "check":
            return lambda: Response(headers={"Content-Type": ""}), None
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise Nothing(415)
        called = _read(request.body)
        try:
            return self._call(called, record)
        except Refuse as refuse:
            raise _of(refuse, called) from refuse

    def _events(self, query: dict[str, str]) -> Effect:
        account = query.get("account")
        if account and not self.state.settings.single and account not in self.state.accounts:
            raise Nothing(400, mistake=False)
        stream = {"Content-Type": "text/event-stream"}
        return lambda: Response(headers=stream, body=self.state.events.listen())

    def _call(self, called: Json, record: Record) -> tuple[Effect, str | None]:
        settings, name = self.state.settings, called.get("method")
        record.parameters = given = dict(called.get("params") or {})
        record.method = "edit" if name == "send" and "editTimestamp" in given else str(name)
        if not exists(str(name), single=settings.single) or name in settings.missing:
            raise unknown(str(name), mistake=str(name) not in METHODS)
        declared, taken = METHODS[str(name)]
        if name not in GLOBAL:
            self._account(given.pop("account", None))
        try:
            it: Any = msgspec.convert(given, taken)
        except msgspec.ValidationError as error:
            raise mistake(f"{name}: {error}") from error
        chat = [*(getattr(it, "recipient", None) or ()), *(getattr(it, "groupId", None) or ()), ""]
        effect = functools.partial(getattr(Methods(self.state), declared.do), it)
        return functools.partial(self._answer, effect, called), str(chat[0]) or None

    async def _answer(self, effect: Callable[[], Any], called: Json) -> object:
        try:
            result = effect()
            result = await result if hasattr(result, "__await__") else result
        except Refuse as refuse:
            raise _of(refuse, called) from refuse
        return {"jsonrpc": "2.0", "result": result, "id": called.get("id")}

    def _account(self, account: object) -> None:
        """SignalJsonRpcCommandHandler.handleRequest"""
        state = self.state
        if state.settings.single:
            return
        if account is not None and account not in state.accounts:
            raise Refuse(errors.INVALID_PARAMS, "Specified account does not exist")
        if account is None and len(state.accounts) != 1:
            raise Refuse(errors.INVALID_PARAMS, "Method requires valid account parameter")

    def malformed(self, reason: str) -> Refuse:
        return mistake(reason)


def _read(body: bytes) -> Json:
    """JsonRpcReader.parseJsonRpcMessage, without batches."""
    if not body.strip():
        raise mistake("unexpected type: MISSING")
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise mistake(str(error), errors.PARSE) from error
    if found == []:
        raise mistake("invalid request")
    if isinstance(found, list):
        raise mistake("a bot like ours makes one call at a time")
    if not isinstance(found, dict):
        raise mistake(f"unexpected type: {_TYPES[type(found)]}")
    called = cast("Json", found)
    if called.get("params", {}) is None:
        del called["params"]
    reason = _flaw(called)
    if reason:
        raise _of(mistake(reason), called)
    if called.get("id") is None:
        raise Nothing(201)  # a notification, which has no answer
    return called


def _flaw(called: Json) -> str:
    if more := called.keys() - _MEMBERS:
        return f'Unrecognized field "{min(more)}"'
    if not isinstance(called.get("params", {}), dict):
        return "Problem deserializing property 'params'"
    if isinstance(called.get("id"), dict | list):
        return "Problem deserializing property 'id'"
    if called.get("jsonrpc") != "2.0":
        return "only jsonrpc version 2.0 is supported"
    return "" if called.get("method") is not None else "method field must be set"


def _of(refuse: Refuse, called: Json) -> Refuse:
    """The error as the answer to that call."""
    name = called.get("id")
    refuse.response = refuse.answer(None if isinstance(name, dict | list) else name)
    return refuse
