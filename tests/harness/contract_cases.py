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
INVENTED = {(Outage.GOODBYE, False), (Outage.TOO_MANY, False), (Outage.BUSY, True)}
"""For the invented platform: those that its fake answers in its own way, and one other."""
LOST = {Trouble.BROKEN, Trouble.DROP_AFTER, Trouble.HANG}
"""Of the faults after which the adapter cannot know whether the call took effect."""
SENDING = {Trouble.BUSY, Trouble.FORBIDDEN, Trouble.GARBLED, *LOST}
OTHER_CALLS = {Trouble.BUSY, Trouble.FORBIDDEN, Trouble.DROP_AFTER}
CONTENT = {
    "test_a_deleted_message_is_named",
    "test_a_file_is_seen_where_it_was_sent",
    "test_a_message_has_its_text_and_its_sender",
    "test_a_reply_quotes_the_message_that_it_answers",
    "test_any_title_opens_a_thread",
    "test_every_failed_check_has_a_fix",
    "test_forwarded_text_has_its_author_and_is_not_typed_by_the_sender",
    "test_messages_of_bots_are_ignored",
    "test_typing_is_shown_in_the_thread",
}
"""Tests of what a message holds, which is alike in all chats with several members."""
SHAPES = {"channel", "dm", "forum", "group", "text"}
"""A direct message, and on each platform one other kind of chat."""


def is_usual(item: pytest.Item) -> bool:
    """Whether `make test` runs this test of an adapter."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return True
    given: dict[str, Any] = item.callspec.params
    match item.originalname:
        case "test_connections_that_fail_cost_few_calls_and_the_adapter_hears_again":
            is_invented = item.path.parent.name == "testing"
            return (given["outage"], given["everything"]) in (INVENTED if is_invented else OUTAGES)
        case "test_an_error_says_whether_to_retry_and_whether_the_call_arrived":
            return given["trouble"] in (SENDING if given["act"] is Act.SEND else OTHER_CALLS)
        case "test_a_message_that_may_have_arrived_is_repeated_under_its_key":
            return given["trouble"] in LOST
        case "test_an_update_with_long_texts_does_not_stop_the_next":
            return given["is_owner"]
        case name if name in CONTENT:
            return "shape" not in given or given["shape"] in SHAPES
        case _:
            return True
