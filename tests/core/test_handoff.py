"""The transition table of a handoff."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from segue.core.address import Address, ChatType, Platform
from segue.core.session import Ticks
from segue.core.text import REASON_LIMIT, short_reason
from segue.handoffs import values as handoff
from segue.handoffs.values import Handoff, HandoffEvent, State, next_state, stayed

# Repeated on purpose: a mistake in the table must be noticed.
ALLOWED = {
    ("pending", "claim"): "running",
    ("pending", "cancel"): "failed",
    ("pending", "expire"): "failed",
    ("running", "claim"): "running",
    ("running", "complete"): "completed",
    ("running", "fail"): "failed",
    ("running", "cancel"): "failed",
    ("running", "expire"): "failed",
}
DESK = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id="desk")
PENDING = Handoff(
    id=1,
    session_id="s",
    platform=Platform.TELEGRAM,
    state=State.PENDING,
    requested=datetime(2026, 3, 1, tzinfo=UTC),
    claim_by=Ticks(100),
    key="k",
)


def test_a_handoff_changes_state_only_as_the_table_allows():
    changes = {
        (state.value, event.value): changed
        for state, event in product(State, HandoffEvent)
        if (changed := next_state(state, event)) is not None
    }
    assert changes == ALLOWED


@pytest.mark.parametrize("state", State)
def test_a_handoff_is_in_flight_while_it_has_transitions(state: State):
    way_out = any(next_state(state, event) for event in HandoffEvent)
    assert structs.replace(PENDING, state=state).in_flight is way_out


@given(st.lists(st.sampled_from(HandoffEvent)))
def test_any_sequence_of_steps_finishes_a_handoff_at_most_once(events: list[HandoffEvent]):
    state, finished = State.PENDING, 0
    for event in events:
        after = next_state(state, event) or state
        finished += after is not state and after not in handoff.IN_FLIGHT
        state = after
    assert finished == (state not in handoff.IN_FLIGHT)


@pytest.mark.parametrize("state", State)
def test_a_handoff_in_flight_expires_at_its_deadline_and_a_finished_one_never(state: State):
    moved = structs.replace(PENDING, state=state)
    assert not moved.expired(Ticks(99))
    assert moved.expired(Ticks(100)) is moved.in_flight
    assert moved.expired(Ticks(101)) is moved.in_flight


# Reasons


@pytest.mark.parametrize("character", ["x", "é", "🛰"])
def test_a_reason_is_truncated_after_500_characters(character: str):
    assert REASON_LIMIT == 500
    assert short_reason(character * 500) == character * 500
    assert short_reason(character * 501) == character * 499 + "…"


@given(st.text(st.characters(exclude_categories=()), max_size=1100))
def test_any_reason_is_accepted_and_fits(reason: str):
    short = short_reason(reason)
    assert len(short) <= 500
    assert short == reason or reason.startswith(short[:-1])


@pytest.mark.parametrize("reason", list(handoff.REASONS.values()))
def test_our_own_reasons_are_never_truncated(reason: str):
    assert short_reason(reason) == reason


def test_the_notice_in_an_abandoned_thread_has_the_place_of_the_session_and_the_reason():
    line = "The session stayed where it was, in the terminal: the handoff failed."
    assert stayed(None, "") == line
    assert stayed(DESK, "no") == f"{line} no."
    assert stayed(None, handoff.REASONS[handoff.Failure.CANCELLED]) == f"{line} Cancelled."
    assert stayed(None, handoff.REASONS[handoff.Failure.ABANDONED]) == (
        f"{line} The gateway stopped during the handoff, and no other gateway continued it."
    )
    assert stayed(None, "x" * 600) == f"{line} {'x' * 199}…."
    assert "\n" not in stayed(None, "one\ntwo\r\nthree")


def test_the_notice_in_an_abandoned_thread_names_the_chat_of_the_session():
    chat = replace(DESK, platform=Platform.SLACK, chat_id="C1")
    assert (
        stayed(chat, "") == "The session stayed where it was, on slack dm C1: the handoff failed."
    )
