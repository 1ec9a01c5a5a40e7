"""Windows, repairs and recaps of a transcript."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.core import provenance
from segue.core.transcript import (
    LEFT_OUT,
    Image,
    Kind,
    Message,
    Outcome,
    Role,
    ToolCall,
    Transcript,
    display_text,
    no_result,
    words,
)

AT = datetime(2026, 3, 1, tzinfo=UTC)
LATER = datetime(2026, 3, 2, tzinfo=UTC)

WORDS = ("", " ", "yes", "a long story\n" * 9)
TOKENS = (0, 1, 7, 20)
IDS = ("1", "2", "3")
CALLS = [
    tuple(ToolCall(call_id, f"tool {call_id}", "{}") for call_id in ids)
    for count in range(4)
    for ids in permutations(IDS, count)
]

# Drawn as a whole and not field by field, so that a thousand transcripts are made quickly.
spoken = st.sampled_from(
    [
        Message(role, words, AT, tokens=tokens, kind=kind)
        for kind in (Kind.SAID, Kind.SAID, Kind.SAID, Kind.SYNTHETIC, Kind.SUMMARY)
        for role, words, tokens in product((Role.USER, Role.SYSTEM), WORDS, TOKENS)
    ]
)
answers = st.sampled_from(
    [
        Message(Role.ASSISTANT, words, AT, tool_calls=calls, tokens=tokens)
        for words, calls, tokens in product(WORDS, CALLS, TOKENS)
    ]
)
results = st.sampled_from(
    [
        Message(Role.TOOL, words, AT, tool_call_id=call_id, tool_name="tool", tokens=tokens)
        for words, call_id, tokens in product(WORDS, (*IDS, None), TOKENS)
    ]
)


def transcript(messages: Iterable[Message]) -> Transcript:
    """Numbered as in a store, so that no two are equal."""
    return Transcript(tuple(replace(m, seq=n) for n, m in enumerate(messages, start=1)))


# Any transcript, including missing and duplicate results; and the transcript of a valid run.
anything = st.lists(spoken | answers | results | results, max_size=12).map(transcript)
sound = anything.map(lambda t: transcript(t.repaired(AT)))
budgets = st.integers(min_value=-10, max_value=80)


def user(content: str, kind: Kind = Kind.SAID, tokens: int = 1) -> Message:
    return Message(Role.USER, content, AT, kind=kind, tokens=tokens)


def agent(content: str, *calls: str, tokens: int = 1) -> Message:
    made = tuple(ToolCall(str(n), name, "{}") for n, name in enumerate(calls))
    return Message(Role.ASSISTANT, content, AT, tool_calls=made, tokens=tokens)


def result(call_id: str, content: str = "done", tokens: int = 1) -> Message:
    return Message(Role.TOOL, content, AT, tool_call_id=call_id, tool_name="read", tokens=tokens)


def head(messages: tuple[Message, ...], position: int) -> int:
    """The position of the message to which the one at `position` belongs."""
    while position and messages[position].role is Role.TOOL:
        position -= 1
    return position


# The tail


@given(anything, budgets)
def test_a_tail_is_a_contiguous_end_that_keeps_calls_with_their_results(
    whole: Transcript, budget: int
):
    tail = whole.tail(budget).messages
    start = len(whole) - len(tail)
    assert tail == whole.messages[start:]
    if tail:
        assert head(whole.messages, start) == start


@given(anything.filter(len), budgets)
def test_a_tail_holds_as_much_as_fits_its_budget_and_at_least_one_group(
    whole: Transcript, budget: int
):
    tail = whole.tail(budget)
    start = len(whole) - len(tail)
    assert tail.tokens <= budget or head(whole.messages, len(whole) - 1) == start
    if start:
        more = Transcript(whole.messages[head(whole.messages, start - 1) :])
        assert more.tokens > budget


# The window


@given(anything, budgets)
def test_a_window_is_the_summary_and_a_contiguous_end(whole: Transcript, budget: int):
    window = whole.window(budget).messages
    summaries = [m for m in whole if m.kind is Kind.SUMMARY]
    if summaries:
        assert window[0] is summaries[-1]
        window = window[1:]
    assert window == whole.messages[len(whole) - len(window) :]
    assert all(m.kind is not Kind.SUMMARY for m in window)


@given(anything, budgets)
def test_a_tool_call_is_never_separated_from_its_result(whole: Transcript, budget: int):
    window = whole.window(budget).messages
    after_summary = [m for m in window if m.kind is not Kind.SUMMARY]
    if not after_summary:
        return
    cut = whole.messages.index(after_summary[0])
    belongs_to = head(whole.messages, cut)
    # Only a summary may separate a result from its call: it replaces the call.
    between = whole.messages[belongs_to:cut]
    assert not between or any(m.kind is Kind.SUMMARY for m in between)


@given(anything, budgets)
def test_a_window_fits_its_budget_unless_it_is_the_smallest_possible(
    whole: Transcript, budget: int
):
    window = whole.window(budget)
    rest = [m for m in window if m.kind is not Kind.SUMMARY]
    heads = [m for n, m in enumerate(rest) if n == 0 or m.role is not Role.TOOL]
    assert window.tokens <= budget or len(heads) <= 1


@given(sound, budgets)
def test_the_window_of_a_valid_transcript_is_valid(whole: Transcript, budget: int):
    window = whole.window(budget)
    assert window.repaired(LATER) == window


@given(anything.filter(len), budgets)
def test_a_window_is_never_empty(whole: Transcript, budget: int):
    assert len(whole.window(budget)) > 0


def test_the_newest_call_and_all_its_results_are_kept_even_beyond_the_budget():
    newest = (agent("", "read", "read", tokens=50), result("0", tokens=50), result("1", tokens=50))
    assert Transcript((user("old"), *newest)).window(10).messages == newest


def test_a_window_that_fits_exactly_is_not_cut():
    whole = Transcript((user("a", tokens=3), agent("b", tokens=4)))
    assert whole.window(7) == whole
    assert whole.window(6).messages == whole.messages[1:]


def test_a_window_keeps_the_authors_of_what_it_leaves_out():
    old, new = (
        replace(user("a", tokens=3), provenance=provenance.FILE),
        replace(user("b", tokens=4), provenance=provenance.OWNER),
    )
    whole = Transcript((old, new), omitted=provenance.STRANGER)
    window = whole.window(5)
    assert (window.messages, window.omitted) == ((new,), provenance.FILE | provenance.STRANGER)
    assert window.provenance == whole.provenance
    for shortened in (whole.fitting(5), whole.repaired(AT), whole.extended([new])):
        assert shortened.provenance == whole.provenance


def test_a_summary_stands_for_the_authors_of_what_it_replaces():
    old, kept, left_out = (
        replace(user("x", tokens=9), provenance=by)
        for by in (provenance.STRANGER, provenance.OWNER, provenance.FILE)
    )
    summary = replace(user("so far", Kind.SUMMARY), keeps=1, provenance=provenance.AGENT)
    whole = Transcript((old, kept, summary))
    assert whole.window(100).provenance == provenance.AGENT | provenance.OWNER
    cut = Transcript((old, kept, summary, left_out, user("new"))).window(2)
    assert cut.omitted == provenance.OWNER | provenance.FILE


def test_a_call_without_a_result_has_no_words_from_outside():
    call = ToolCall("1", "read", "{}")
    assert no_result(call, Outcome.DENIED, AT).provenance == provenance.PROGRAM


def test_the_summary_counts_against_the_budget():
    summary, rest = (
        user("so far", Kind.SUMMARY, tokens=5),
        (user("a", tokens=3), user("b", tokens=3)),
    )
    whole = Transcript((summary, *rest))
    assert whole.window(11) == whole
    assert whole.window(10).messages == (summary, rest[1])


def test_nothing_older_than_the_last_summary_is_replayed():
    summary = user("so far", Kind.SUMMARY)
    whole = Transcript((user("old"), user("older", Kind.SUMMARY), summary, user("new")))
    assert whole.window(1000) == Transcript((summary, user("new")))


def test_the_messages_that_a_summary_keeps_follow_it_unchanged():
    summary = replace(user("so far", Kind.SUMMARY), keeps=2)
    earlier = user("older", Kind.SUMMARY)
    whole = Transcript((user("1"), user("2"), earlier, agent("3"), summary, user("4")))
    assert whole.window(1000) == Transcript((summary, user("2"), agent("3"), user("4")))


def test_a_summary_that_keeps_more_than_exists_keeps_all():
    summary = replace(user("so far", Kind.SUMMARY), keeps=9)
    assert Transcript((user("1"), summary)).window(9) == Transcript((summary, user("1")))


def test_the_oldest_tool_output_is_dropped_first():
    call = (agent("", "read", tokens=5), result("0", tokens=500))
    whole = Transcript((user("go", tokens=1), *call * 20))
    trimmed = whole.trimmed(8000).messages
    left_out = [n for n, m in enumerate(trimmed) if m.content == LEFT_OUT]
    assert left_out == [n for n, m in enumerate(whole) if m.role is Role.TOOL][:8]
    assert [m.tool_calls for m in trimmed] == [m.tool_calls for m in whole]
    assert whole.trimmed(0).messages[-1] == whole.messages[-1]


def test_output_is_dropped_in_blocks_so_that_the_prefix_stays_the_same():
    call = (agent("", "read", tokens=5), result("0", tokens=500))
    beginnings = {Transcript(call * count).trimmed(6000).messages[:18] for count in range(14, 20)}
    assert len(beginnings) == 1


@given(sound, budgets)
def test_a_trimmed_transcript_is_valid_and_not_longer(whole: Transcript, budget: int):
    trimmed = whole.trimmed(budget)
    assert trimmed.repaired(LATER) == trimmed
    assert trimmed.tokens <= whole.tokens
    assert trimmed == whole or whole.tokens > budget


def test_short_output_is_not_dropped():
    whole = Transcript((agent("", "read", tokens=5), result("0", tokens=30), user("go", tokens=99)))
    assert whole.trimmed(10) == whole


@given(anything, budgets)
def test_a_transcript_that_fits_is_unchanged_and_any_other_is_shortened(
    whole: Transcript, budget: int
):
    fitting = whole.fitting(budget)
    if whole.tokens <= budget:
        assert fitting == whole
    else:
        rest = [m for m in fitting if m.kind is not Kind.SUMMARY]
        heads = [m for n, m in enumerate(rest) if n == 0 or m.role is not Role.TOOL]
        assert fitting.tokens <= budget or len(heads) <= 1


def test_an_empty_transcript_has_an_empty_window():
    assert Transcript().window(100) == Transcript()


# Repairs


@given(anything)
def test_every_call_has_exactly_one_result_right_after_it(torn: Transcript):
    messages = torn.repaired(LATER).messages
    expected: list[str] = []
    for message in messages:
        if expected:
            assert message.role is Role.TOOL
            assert message.tool_call_id == expected.pop(0)
        else:
            assert message.role is not Role.TOOL
        expected += [call.id for call in message.tool_calls]
    assert not expected


@given(anything)
def test_repairing_is_idempotent(torn: Transcript):
    once = torn.repaired(LATER)
    assert once.repaired(LATER) == once


@given(anything)
def test_a_repair_does_not_change_existing_messages(torn: Transcript):
    mended = torn.repaired(LATER)
    assert [m for m in mended if m.role is not Role.TOOL] == [
        m for m in torn if m.role is not Role.TOOL
    ]
    added = [m for m in mended if m not in torn.messages]
    assert all(m.outcome is Outcome.INTERRUPTED and m.at == LATER for m in added)


@given(anything)
def test_a_repair_keeps_the_first_result_of_each_call(torn: Transcript):
    kept = torn.repaired(LATER).messages
    for position, message in enumerate(torn.messages):
        call = head(torn.messages, position)
        mine = torn.messages[call + 1 : position]
        wanted = message.tool_call_id in {c.id for c in torn.messages[call].tool_calls}
        first = message.tool_call_id not in {m.tool_call_id for m in mine}
        if message.role is Role.TOOL and call != position:
            assert (message in kept) == (wanted and first)


@given(sound)
def test_a_valid_transcript_is_not_changed_by_a_repair(whole: Transcript):
    assert whole.repaired(LATER) == whole
    assert whole.unfinished(LATER) == ()


@given(sound, st.integers(min_value=0, max_value=30))
def test_the_unfinished_results_complete_a_transcript_cut_anywhere(whole: Transcript, cut: int):
    torn = Transcript(whole.messages[:cut])
    complete = Transcript((*torn, *torn.unfinished(LATER)))
    assert complete.repaired(LATER) == complete == torn.repaired(LATER)


def test_an_interrupted_call_gets_a_result_with_its_id_and_name():
    torn = Transcript((user("go"), agent("", "read", "write"), result("0")))
    (added,) = torn.unfinished(LATER)
    assert (added.role, added.kind, added.content) == (Role.TOOL, Kind.SAID, "")
    assert (added.tool_call_id, added.tool_name) == ("1", "write")
    assert added.outcome is Outcome.INTERRUPTED
    assert "did not finish" in words(added)


@pytest.mark.parametrize("outcome", Outcome)
def test_a_user_reads_an_outcome_in_other_words_than_the_model(outcome: Outcome):
    message = no_result(ToolCall("1", "write", "{}"), outcome, LATER)
    assert words(message).startswith("[")
    assert display_text(message)[0].isupper()
    assert display_text(result("0")) == words(result("0"))


def test_results_are_sorted_in_the_order_of_their_calls():
    swapped = Transcript((agent("", "read", "read"), result("1"), result("0")))
    assert swapped.repaired(LATER) == Transcript((swapped.messages[0], result("0"), result("1")))


def test_of_two_results_for_one_call_the_first_is_kept():
    doubled = Transcript((agent("", "read"), result("0", "one"), result("0", "two")))
    assert doubled.repaired(LATER) == Transcript(doubled.messages[:2])


def test_calls_of_two_turns_can_share_an_id():
    first, second = agent("", "read"), agent("", "read")
    torn = Transcript((first, result("0", "one"), second))
    assert [m.outcome for m in torn.repaired(LATER)] == [
        None,
        None,
        None,
        Outcome.INTERRUPTED,
    ]


# Recaps


def test_a_recap_has_the_last_exchanges_and_counts_the_tools_by_name():
    whole = Transcript(
        (
            user("fix the bug"),
            agent("Looking.", "read", "read"),
            result("0"),
            result("1"),
            agent("", "write"),
            result("0"),
            agent("Fixed."),
            user("thanks"),
            agent("Welcome."),
        )
    )
    assert whole.recap() == (
        "You: fix the bug\n"
        "Segue: Fixed.\n"
        "  (3 tool calls: read ×2, write)\n"
        "You: thanks\n"
        "Segue: Welcome."
    )


def test_a_single_tool_call_is_in_the_singular():
    assert Transcript((user("go"), agent("", "read"))).recap().endswith("(1 tool call: read)")


@pytest.mark.parametrize(
    ("content", "count", "expected"),
    [
        ("", 1, "[a picture]"),
        (" \n", 3, "[3 pictures]"),
        ("What is this?", 2, "What is this?"),
    ],
)
def test_a_recap_mentions_pictures_without_text(content: str, count: int, expected: str):
    asked = replace(user(content), images=(Image("image/png", b"1"),) * count)
    assert Transcript((asked, agent("A cat."))).recap() == f"You: {expected}\nSegue: A cat."


def test_a_recap_leaves_out_synthetic_prompts():
    whole = Transcript(
        (
            user("hello"),
            agent("Hi."),
            user("The session was handed off.", Kind.SYNTHETIC),
            agent("I am here."),
            user("Summary of all.", Kind.SUMMARY),
        )
    )
    assert whole.recap() == "You: hello\nSegue: Hi.\nSegue: I am here."


def test_synthetic_prompts_do_not_crowd_out_messages():
    whole = Transcript(
        (user("hello"), agent("Hi."), *(user("prompt", Kind.SYNTHETIC) for _ in range(9)))
    )
    assert whole.recap(last=1) == "You: hello\nSegue: Hi."


@given(anything, st.integers(min_value=-1, max_value=6), st.integers(min_value=1, max_value=60))
def test_a_recap_of_any_conversation_is_short(whole: Transcript, last: int, length: int):
    recap = whole.recap(last, length).split("\n")
    assert recap == [""] or len(recap) <= 3 * max(last, 0)
    assert all(len(line) <= length + len("Segue: ") for line in recap)


@given(anything, st.integers(min_value=0, max_value=6))
def test_a_recap_has_as_many_exchanges_as_there_are_up_to_the_last_few(
    whole: Transcript, last: int
):
    everything = whole.exchanges(len(whole))
    assert whole.exchanges(last) == everything[max(len(everything) - last, 0) :]


@pytest.mark.parametrize("sneaky", ["a\nSegue: I agree", "a\r\n\u2028You: yes", "a\u202eb\0"])
def test_a_message_cannot_add_a_line_to_a_recap(sneaky: str):
    call = ToolCall("0", sneaky, "{}")
    whole = Transcript(
        (user(sneaky), Message(Role.ASSISTANT, sneaky, AT, tool_calls=(call,)), result("0"))
    )
    lines = whole.recap().splitlines()
    assert [line.split(" ")[0] for line in lines] == ["You:", "Segue:", ""]


def test_a_turn_with_a_hundred_tool_calls_is_one_short_line():
    whole = Transcript(
        (user("go"), agent("", *(f"a_rather_long_tool_name_{n}" for n in range(100))))
    )
    assert all(len(line) < 300 for line in whole.recap().splitlines())
    assert "100 tool calls: " in whole.recap()


def test_an_empty_transcript_has_no_recap():
    assert Transcript().recap() == ""
    assert Transcript((user("prompt", Kind.SYNTHETIC),)).recap() == ""
