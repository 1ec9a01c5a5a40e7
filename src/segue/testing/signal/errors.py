"""Error responses of the daemon: SignalJsonRpcCommandHandler.java and JsonRpcResponse.java.

All have the status 200. What a command had written before it failed is in `data.response`.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from segue.testing import peers
from segue.testing.http import Response
from segue.testing.peers import Trouble
from segue.testing.peers.errors import bad_gateway
from segue.testing.signal.snapshot import ME, Failure, fill

USER, IO, UNTRUSTED, RATE_LIMIT = -1, -3, -4, -5
PARSE, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603


class Refuse(peers.Refuse):
    """Raised by the handler of a call: it is answered with this error."""

    def __init__(
        self, code: int, message: str, written: object = None, *, mistake: bool = False
    ) -> None:
        data = None if written is None else {"response": written}
        self.error = {"code": code, "message": message, "data": data}
        super().__init__(f"{code}: {message}", self.answer(None), mistake=mistake)

    def answer(self, of: object) -> Response:
        """The response to the call with that id."""
        return Response(body=encoded(error=self.error, id=of))


class Nothing(peers.Refuse):
    """Raised for a request that gets only a status."""

    def __init__(self, status: int, *, mistake: bool = True) -> None:
        response = Response(status, {"Content-Type": ""})
        super().__init__(f"HTTP {status}", response, mistake=mistake)


def encoded(**members: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **members})


def check(fine: object, reason: str) -> None:
    """Refuse the call as the user's error, unless all is fine."""
    if not fine:
        raise Refuse(USER, reason)


def mistake(reason: str, code: int = INVALID_REQUEST) -> Refuse:
    """A call that no bot should make, such as one with a parameter that does not exist."""
    return Refuse(code, reason, mistake=True)


def unsent(results: list[Any], at: int) -> Refuse:
    """SendMessageResultUtils.outputResult: no recipient got the message."""
    written, kinds = {"timestamp": at, "results": results}, {it["type"] for it in results}
    if kinds == {Failure.IDENTITY}:
        return Refuse(UNTRUSTED, "Failed to send message due to untrusted identities", written)
    if kinds == {Failure.RATE_LIMIT}:
        return Refuse(RATE_LIMIT, "Failed to send message due to rate limiting", written)
    return Refuse(USER, "Failed to send message", written)


def injected(trouble: Trouble, seconds: float) -> peers.Refuse:
    """Return the error for a fault that a test ordered."""
    if trouble is Trouble.BROKEN:
        return bad_gateway()
    kind = Failure.RATE_LIMIT if trouble is Trouble.BUSY else Failure.UNREGISTERED
    wait = math.ceil(seconds) if trouble is Trouble.BUSY else None
    given = {"by": ME, "known": ME.username, "group": None, "type": kind, "token": None}
    return unsent([fill("result", **given, seconds=wait)], 1)
