"""Which cases of the contract suite `make test` runs for each platform. Every night all run.

The suite belongs to the authors of adapters, so it does not know the marks of these tests.
"""

from __future__ import annotations

from typing import Any

import pytest

from segue.testing.contract.rig import Act
from segue.testing.peers import Outage, Trouble

OUTAGES = {
    (Outage.REFUSE, False),
    (Outage.UNAUTHORIZED, False),
    (Outage.GOODBYE, False),
    (Outage.TOO_MANY, False),
    (Outage.SILENT, True),
    (Outage.BUSY, True),
}
"""One outage of each kind: with no connection, a refusal, a connection that ends at once, and a
platform that does not answer or asks to wait."""
LOST = {Trouble.BROKEN, Trouble.DROP_AFTER, Trouble.HANG}
"""Of the faults after which the adapter cannot know whether the call took effect."""
SENDING = {Trouble.BUSY, Trouble.FORBIDDEN, Trouble.GARBLED, *LOST}
OTHER_CALLS = {Trouble.FORBIDDEN, Trouble.DROP_AFTER}


def is_usual(item: pytest.Item) -> bool:
    """Whether `make test` runs this test of an adapter."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return True
    given: dict[str, Any] = item.callspec.params
    match item.originalname:
        case "test_connections_that_fail_cost_few_calls_and_the_adapter_hears_again":
            return (given["outage"], given["everything"]) in OUTAGES
        case "test_an_error_says_whether_to_retry_and_whether_the_call_arrived":
            return given["trouble"] in (SENDING if given["act"] is Act.SEND else OTHER_CALLS)
        case "test_a_message_that_may_have_arrived_is_repeated_under_its_key":
            return given["trouble"] in LOST
        case "test_an_update_with_long_texts_does_not_stop_the_next":
            return given["is_owner"]
        case _:
            return True
