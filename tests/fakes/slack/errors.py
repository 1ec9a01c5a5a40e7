"""Error responses of the Web API.

Almost all have the status 200 and `"ok": false`: docs.slack.dev/apis/web-api. Each method's errors
are on its page, docs.slack.dev/reference/methods/<method>, as collected in smstoslack/slack_kit.
"""

from __future__ import annotations

import math

import msgspec

from segue.testing import peers
from segue.testing.http import Response
from segue.testing.peers import Trouble
from segue.testing.peers.errors import bad_gateway


class Refuse(peers.Refuse):
    """Raised by the handler of a call: it is answered with this error."""

    def __init__(self, error: str, reason: str = "", *, mistake: bool = False, **more: str) -> None:
        messages = {"messages": [f"[ERROR] {reason}"]} if reason else {}
        answer = {"ok": False, "error": error, "response_metadata": messages, **more}
        body = msgspec.json.encode(answer)
        super().__init__(f"{error}: {reason}", Response(body=body), mistake=mistake)


def check(fine: object, error: str) -> None:
    """Refuse the call with this error, unless all is fine."""
    if not fine:
        raise Refuse(error)


def mistake(reason: str, error: str = "invalid_arguments") -> Refuse:
    """A call that no bot should make, such as one with an argument that does not exist."""
    return Refuse(error, reason, mistake=True)


def too_often(seconds: float) -> peers.Refuse:
    """docs.slack.dev/apis/web-api/rate-limits"""
    after = {"Retry-After": str(max(math.ceil(seconds), 1))}
    return peers.Refuse("ratelimited", Response(429, after, b'{"ok":false,"error":"ratelimited"}'))


def injected(trouble: Trouble, seconds: float) -> peers.Refuse:
    """Return the error for a fault that a test ordered."""
    if trouble is Trouble.BUSY:
        return too_often(seconds)
    return Refuse("restricted_action") if trouble is Trouble.FORBIDDEN else bad_gateway()
