"""Error responses of the Bot API.

Their format is documented at core.telegram.org/bots/api#making-requests and #responseparameters.
The texts are from tdlib/telegram-bot-api (`Client.cpp`: `fail_query_with_error`,
`check_chat_access`, `check_message`) and from tdlib/td, which it is built on. Where a module names
no source, the text is as reported by bots.
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
    """Raised by the handler of a call: it is answered with this status and description."""

    def __init__(
        self, status: int, description: str, parameters: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters


class Malformed(Exception):
    """A call that no bot should make.

    It is answered with 400, or 404 if the method does not exist, and recorded as an error.
    """

    def __init__(self, reason: str, *, refuse: Refuse | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.refuse = refuse or bad(reason)


class BadGateway(Exception):
    """The proxy in front of Telegram's servers answers instead of them: 502 with an HTML body."""


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
    """Return the error for a fault that a test ordered."""
    if fail.trouble is Trouble.BUSY:
        return too_often(max(math.ceil(fail.seconds), 1))
    if fail.trouble is Trouble.FORBIDDEN:
        return forbidden("bot was kicked from the supergroup chat")
    return BadGateway("Bad Gateway")
