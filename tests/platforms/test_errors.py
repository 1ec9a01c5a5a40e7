"""The translation of failures, from a table of rules."""

from __future__ import annotations

import pytest

from segue.core.address import Platform
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.platforms.errors import NONSENSE, FailureRule, Failures, Lost, Refused

FAILURES = Failures(
    Platform.SLACK,
    connecting=[
        FailureRule("the token is not right", status=(401,)),
        FailureRule("go away", ("taken",)),
    ],
    delivering=[
        FailureRule("the token is not right", status=(401,), account=True),
        FailureRule("invite the bot", ("not_in_channel", "is not a member")),
        FailureRule("wait a little", ("ratelimited",), retry=True),
        FailureRule(says=("broken for good",), retry=False),
    ],
    known={
        KeyError: lambda _: Lost(NONSENSE, arrived=True),
        ValueError: lambda error: Refused(403, str(error)),
    },
)


def undelivered(error: Exception) -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as caught, FAILURES.delivering():
        raise error
    assert caught.value.__cause__ is error
    return caught.value


@pytest.mark.parametrize(
    ("error", "reason", "retry", "arrived"),
    [
        (Refused(400, "Bad"), "Bad", False, False),
        (Refused(400, "", code="not_in_channel"), "invite the bot", False, False),
        (Refused(400, "The bot IS NOT A MEMBER"), "invite the bot", False, False),
        (Refused(200, "slow", code="ratelimited"), "wait a little", True, False),
        (Refused(429, "slow"), "slow", True, False),
        (Refused(503, "oops"), "oops", True, True),
        (Refused(500, "broken for good"), "broken for good", False, True),
        (Lost("gone", arrived=True), "gone", True, True),
        (Lost("gone", arrived=False), "gone", True, False),
        (KeyError("x"), "its answer makes no sense", True, True),
        (ValueError("no"), "no", False, False),
    ],
)
def test_the_first_rule_that_matches_decides(
    error: Exception, reason: str, retry: bool, arrived: bool
):
    failed = undelivered(error)
    assert (failed.reason, failed.retry, failed.arrived) == (reason, retry, arrived)


def test_the_wait_that_the_platform_asks_for_is_in_the_error():
    assert undelivered(Refused(429, "slow", after=7.5)).after == 7.5


def test_an_account_error_does_not_fail_the_message():
    with pytest.raises(ConnectFailed, match="token is not right"), FAILURES.delivering():
        raise Refused(401, "no")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Refused(401, "no"), "the token is not right"),
        (Refused(409, "it is taken"), "go away"),
        (Refused(500, "oops"), "oops"),
        (Lost("gone", arrived=True), "gone"),
        (KeyError("x"), "its answer makes no sense"),
    ],
)
def test_every_failure_while_connecting_is_connect_failed(error: Exception, reason: str):
    with pytest.raises(ConnectFailed) as caught, FAILURES.connecting():
        raise error
    assert caught.value.fields["reason"] == reason


def test_other_errors_are_not_translated():
    for translated in (FAILURES.connecting, FAILURES.delivering):
        with pytest.raises(ZeroDivisionError), translated():
            raise ZeroDivisionError
