"""Errors of the daemon's commands: SignalJsonRpcCommandHandler.java."""

from __future__ import annotations

import math
from collections.abc import Sequence

from segue.testing import peers
from segue.testing.peers import Trouble
from segue.testing.peers.errors import bad_gateway
from segue.testing.peers.templates import Json
from tests.fakes.protocols.jsonrpc import RpcRefuse
from tests.fakes.signal.snapshot import ME, Failure, fill

USER, IO, UNTRUSTED, RATE_LIMIT = -1, -3, -4, -5
_UNSENT = {
    Failure.IDENTITY: (UNTRUSTED, " due to untrusted identities"),
    Failure.RATE_LIMIT: (RATE_LIMIT, " due to rate limiting"),
}


def check(fine: object, reason: str) -> None:
    """Refuse the call as the user's error, unless all is fine."""
    if not fine:
        raise RpcRefuse(USER, reason)


def unsent(failure: Failure, results: Sequence[Json], at: int) -> RpcRefuse:
    """SendMessageResultUtils.outputResult: no recipient got the message. What the command had
    written before it failed is in `data.response`."""
    code, why = _UNSENT.get(failure, (USER, ""))
    data = {"response": {"timestamp": at, "results": results}}
    return RpcRefuse(code, f"Failed to send message{why}", data)


def injected(trouble: Trouble, seconds: float) -> peers.Refuse:
    """Return the error for a fault that a test ordered."""
    if trouble is Trouble.BROKEN:
        return bad_gateway()
    busy = trouble is Trouble.BUSY
    failure = Failure.RATE_LIMIT if busy else Failure.UNREGISTERED
    given = {"by": ME, "known": ME.username, "group": None, "type": failure, "token": None}
    result = fill("result", **given, seconds=math.ceil(seconds) if busy else None)
    return unsent(failure, [result], 1)
