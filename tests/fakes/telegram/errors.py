"""Error responses of the Bot API.

Their format is documented at core.telegram.org/bots/api#making-requests and #responseparameters.
The texts are from tdlib/telegram-bot-api (`Client.cpp`: `fail_query_with_error`,
`check_chat_access`, `check_message`) and from tdlib/td, which it is built on. Texts in capitals
come from the servers behind it. Where a module names no source, the text is as reported by bots.
"""

from __future__ import annotations

import math

import msgspec

from segue.testing import peers
from segue.testing.http import Response
from segue.testing.peers import Trouble
from segue.testing.peers.errors import bad_gateway


class Refuse(peers.Refuse):
    """Raised by the handler of a call: it is answered with this status and description."""

    def __init__(
        self, status: int, description: str, *, mistake: bool = False, **parameters: int
    ) -> None:
        answer = {"ok": False, "error_code": status, "description": description}
        more = {"parameters": parameters} if parameters else {}
        body = msgspec.json.encode({**answer, **more})
        super().__init__(description, Response(status, body=body), mistake=mistake)


def bad(reason: str) -> Refuse:
    return Refuse(400, f"Bad Request: {reason}")


def mistake(reason: str) -> Refuse:
    """A call that no bot should make, such as one with a parameter that does not exist."""
    return Refuse(400, f"Bad Request: {reason}", mistake=True)


def forbidden(reason: str) -> Refuse:
    return Refuse(403, f"Forbidden: {reason}")


def too_often(seconds: float) -> Refuse:
    wait = max(math.ceil(seconds), 1)
    return Refuse(429, f"Too Many Requests: retry after {wait}", retry_after=wait)


def injected(trouble: Trouble, seconds: float) -> peers.Refuse:
    """Return the error for a fault that a test ordered."""
    if trouble is Trouble.BUSY:
        return too_often(seconds)
    if trouble is Trouble.FORBIDDEN:
        return forbidden("bot was kicked from the supergroup chat")
    return bad_gateway()
