"""JSON-RPC 2.0 over HTTP, without batches: https://www.jsonrpc.org/specification.

Errors have the status 200. Their texts are those of signal-cli's JsonRpcReader.java.
"""

from __future__ import annotations

import inspect
from typing import Any, cast

import msgspec
from msgspec import Struct

from segue.testing.http import Response
from segue.testing.peers import faults
from segue.testing.peers.server import Effect

PARSE = -32700
INVALID_REQUEST = -32600
NO_METHOD = -32601
INVALID_PARAMS = -32602
_TYPES: dict[type, str] = {
    list: "ARRAY", str: "STRING", int: "NUMBER", float: "NUMBER", bool: "BOOLEAN",
    type(None): "NULL",
}  # fmt: skip


class RpcRefuse(faults.Refuse):
    """Raised by the handler of a call: it is answered with this error."""

    def __init__(
        self, code: int, message: str, data: object = None, *, mistake: bool = False
    ) -> None:
        self.error = {"code": code, "message": message, "data": data}
        super().__init__(f"{code}: {message}", Response(), mistake=mistake)
        self.answering(None)

    def answering(self, call: object) -> RpcRefuse:
        """The error as the answer to the call with that id."""
        name = None if isinstance(call, dict | list) else call
        body = msgspec.json.encode({"jsonrpc": "2.0", "error": self.error, "id": name})
        self.response = Response(body=body)
        return self


def mistake(reason: str, code: int = INVALID_REQUEST) -> RpcRefuse:
    """A call that no bot should make, such as one with a parameter that does not exist."""
    return RpcRefuse(code, reason, mistake=True)


class RpcCall(Struct, frozen=True, forbid_unknown_fields=True):
    jsonrpc: str = ""
    method: str | int | None = None
    params: dict[str, Any] | None = None
    id: str | int | None = None
    """None for a notification, which has no answer."""


def read(body: bytes) -> RpcCall:
    """Return the call in a request. Raises RpcRefuse."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise mistake(str(error), PARSE) from error
    if not isinstance(found, dict):
        kind = _TYPES[type(found)]
        raise mistake("invalid request" if found == [] else f"unexpected type: {kind}")
    name = cast("dict[str, Any]", found).get("id")
    try:
        call = msgspec.convert(found, RpcCall)
    except msgspec.ValidationError as error:
        raise mistake(str(error)).answering(name) from error
    if call.jsonrpc != "2.0":
        raise mistake("only jsonrpc version 2.0 is supported").answering(name)
    if call.method is None:
        raise mistake("method field must be set").answering(name)
    return call


def answer(call: RpcCall, effect: Effect) -> Effect:
    """The effect of a call, with its result as the answer. Raises RpcRefuse."""

    async def answered() -> object:
        try:
            result = effect()
            result = await result if inspect.isawaitable(result) else result
        except RpcRefuse as refuse:
            raise refuse.answering(call.id) from refuse
        return {"jsonrpc": "2.0", "result": result, "id": call.id}

    return answered


def arguments(method: str, kind: type[Struct], given: dict[str, Any]) -> Any:
    """The arguments of a call, as `kind`. Raises RpcRefuse."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise mistake(f"{method}: {error}") from error
