"""Convert Telegram failures to the contract's errors, with reasons for the user."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from telegram.error import TelegramError

from segue.core.address import Platform
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.platforms.telegram.transport import Lost, Refused

UNKNOWN_BOT = "the token is not right; copy it from @BotFather and type `segue setup telegram`"
NO_BOT = "there is no token for the bot yet; type `segue setup telegram`"
TAKEN = (
    "another program receives what is sent to this bot; stop it, or get a bot of your own from "
    "@BotFather"
)
TOPIC_GONE = (
    "the topic was deleted, or Telegram does not find it; go on with `segue resume` in a terminal, "
    "or with /resume in another chat"
)
NO_TOPIC = ("message thread not found", "topic_deleted", "topic_id_invalid")

# By fragments of the lower-cased description; the first match counts.
_REASONS = (
    (NO_TOPIC, TOPIC_GONE),
    (("topic_closed",), "the topic is closed, and the bot may not open it; open it there"),
    (("blocked by the user",), "the bot is blocked there; unblock it in your chat with it"),
    (("bot was kicked", "not a member"), "the bot is no longer in that chat; add it there again"),
    (("user is deactivated",), "that account was deleted"),
    (("chat not found",), "there is no such chat, or nobody has written to the bot there yet"),
)

# What the library raises for valid JSON of an unexpected shape.
SENSELESS = (AttributeError, KeyError, TypeError, ValueError)


@contextlib.contextmanager
def connecting() -> Generator[None]:
    """Convert failures to ConnectFailed."""
    try:
        yield
    except Refused as refused:
        raise failed_connection(_why_not_connected(refused)) from refused
    except Lost as lost:
        raise failed_connection(lost.reason) from lost
    except (TelegramError, *SENSELESS) as error:
        raise failed_connection("its answer makes no sense") from error


@contextlib.contextmanager
def delivering() -> Generator[None]:
    """Convert failures to DeliveryFailed, or to ConnectFailed if Telegram no longer accepts the
    token."""
    try:
        yield
    except Refused as refused:
        raise _undelivered(refused) from refused
    except Lost as lost:
        raise failed_delivery(lost.reason, retry=True, arrived=lost.arrived) from lost
    except (TelegramError, *SENSELESS) as error:
        raise failed_delivery("its answer makes no sense", retry=True, arrived=True) from error


def failed_connection(reason: str) -> ConnectFailed:
    return ConnectFailed(platform=Platform.TELEGRAM, reason=reason)


def failed_delivery(
    reason: str, *, retry: bool = False, after: float | None = None, arrived: bool = False
) -> DeliveryFailed:
    return DeliveryFailed(
        platform=Platform.TELEGRAM, reason=reason, retry=retry, after=after, arrived=arrived
    )


def _undelivered(refused: Refused) -> DeliveryFailed | ConnectFailed:
    if refused.status == 401:
        return failed_connection(UNKNOWN_BOT)
    broken = refused.status >= 500
    return failed_delivery(
        _why_not_delivered(refused),
        retry=broken or refused.status == 429,
        after=refused.after,
        # A server error may have happened after the effect.
        arrived=broken,
    )


def _why_not_delivered(refused: Refused) -> str:
    for fragments, reason in _REASONS:
        if refused.says(*fragments):
            return reason
    return refused.reason


def _why_not_connected(refused: Refused) -> str:
    match refused.status:
        case 401 | 404:
            return UNKNOWN_BOT
        case 409 if refused.says("webhook"):
            return "another program has set a webhook for this bot; it will be removed"
        case 409:
            return TAKEN
        case _:
            return refused.reason
