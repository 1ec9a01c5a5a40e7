"""What went wrong, in the errors of the contract and in words for people."""

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

# By what is in the description, in small letters; the first that fits.
_REASONS = (
    (NO_TOPIC, TOPIC_GONE),
    (("topic_closed",), "the topic is closed, and the bot may not open it; open it there"),
    (("blocked by the user",), "the bot is blocked there; unblock it in your chat with it"),
    (("bot was kicked", "not a member"), "the bot is no longer in that chat; add it there again"),
    (("user is deactivated",), "that account was deleted"),
    (("chat not found",), "there is no such chat, or nobody has written to the bot there yet"),
)

# What the library raises when an answer is good JSON and not what it should be.
SENSELESS = (AttributeError, KeyError, TypeError, ValueError)


@contextlib.contextmanager
def connecting() -> Generator[None]:
    """What goes wrong within it is a ConnectFailed."""
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
    """What goes wrong within it is a DeliveryFailed; a ConnectFailed when Telegram does not know
    us any more."""
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
        # Whatever broke there may have broken after the effect.
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
