"""How the Bot API says no.

The form of an answer is that of core.telegram.org/bots/api#making-requests and
#responseparameters. The texts are those of tdlib/telegram-bot-api (`Client.cpp`:
`fail_query_with_error`, `check_chat_access`, `check_message`) and of tdlib/td, which it is built
on; where a module names no source for one, it is as bots report it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from segue.testing import peers
from segue.testing.peers import Fail, Trouble

NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)
OTHER_POLL = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is "
    "running"
)
WEBHOOK_SET = (
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete "
    "the webhook first"
)


class Refuse(peers.Refuse):
    """Raised where a call is handled: it is answered with this status and description."""

    def __init__(
        self, status: int, description: str, parameters: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters


class Malformed(Exception):
    """The bot called what no bot should: it is answered with 400, or with 404 when there is no such
    method, and noted as an error."""

    def __init__(self, reason: str, *, refuse: Refuse | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.refuse = refuse or bad(reason)


class BadGateway(Exception):
    """What stands before Telegram's servers answers in their place: with 502, in HTML."""


def bad(reason: str) -> Refuse:
    return Refuse(400, f"Bad Request: {reason}")


def forbidden(reason: str) -> Refuse:
    return Refuse(403, f"Forbidden: {reason}")


def migrated(to: int) -> Refuse:
    return Refuse(
        400,
        "Bad Request: group chat was upgraded to a supergroup chat",
        {"migrate_to_chat_id": to},
    )


def too_often(seconds: int) -> Refuse:
    return Refuse(429, f"Too Many Requests: retry after {seconds}", {"retry_after": seconds})


def ordered(fail: Fail) -> Refuse | BadGateway:
    """The trouble that a test wants for a call."""
    if fail.trouble is Trouble.BUSY:
        return too_often(max(math.ceil(fail.seconds), 1))
    if fail.trouble is Trouble.FORBIDDEN:
        return forbidden("bot was kicked from the supergroup chat")
    return BadGateway("Bad Gateway")
