"""The oracle accepts correct evidence, and names every violation in false evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec import structs

from segue.core.address import Address, ChatType, Platform
from segue.core.session import Ticks
from segue.core.transcript import Kind, Message, Outcome, Role, ToolCall
from segue.handoffs.values import Failure, Handoff, State, Step
from segue.store.outbox import Outgoing, OutgoingState
from tests.crash.oracle import Evidence, violations
from tests.rigs import Message as Shown
from tests.rigs import Thread

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CHAT = "!dm:1"
THREAD = Address(
    platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id=CHAT, thread_id="topic:2"
)
HERE = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id="s")
HANDOFF = Handoff(
    id=1,
    session_id="s",
    platform=Platform.TELEGRAM,
    state=State.COMPLETED,
    requested=NOW,
    claim_by=Ticks(0),
    key="k",
    step=Step.DELIVERING,
    thread=THREAD,
)


def message(seq: int, role: Role, content: str, **more: object) -> Message:
    return Message(role, content, NOW, seq=seq, **more)  # pyright: ignore[reportArgumentType]


CALL = ToolCall("c1", "shell", "{}")
TRANSCRIPT = (
    message(1, Role.USER, "w1"),
    message(2, Role.ASSISTANT, "I heard w1."),
    message(3, Role.USER, "[handed off]", kind=Kind.SYNTHETIC),
    message(4, Role.ASSISTANT, "I am here, and I heard w1."),
    message(5, Role.USER, "w2 and run it"),
    message(6, Role.ASSISTANT, "I run it for w2.", tool_calls=(CALL,)),
    message(7, Role.TOOL, "", tool_call_id="c1", outcome=Outcome.INTERRUPTED),
    message(8, Role.ASSISTANT, "I heard w1 w2."),
)


def row(number: int, key: str, body: str) -> Outgoing:
    return Outgoing(
        no=number,
        key=key,
        address=THREAD,
        session_id="s",
        body=body,
        file=None,
        state=OutgoingState.SENT,
        attempt=1,
        buttons=(),
        receipts=(f"message:{number}",),
        error=None,
        queued=NOW,
        finished=NOW,
        reported=False,
    )


ROWS = (
    row(1, "handoff:1:recap", "**“Life”** continues here. w1"),
    row(2, "handoff:1:reply", "I am here, and I heard w1."),
    row(3, "s/6", "I run it for w2."),
    row(4, "notice:1:unknown", "I was interrupted while running `shell`."),
    row(5, "s/8", "I heard w1 w2."),
)


def shown(outgoing: Outgoing) -> Shown:
    return Shown(
        id=outgoing.receipts[0],
        author="bot",
        text=outgoing.body.replace("*", ""),
        thread="topic:2",
    )


HONEST = Evidence(
    session_id="s",
    words=("w1", "w2"),
    in_chat=frozenset({"w2"}),
    handoffs=(HANDOFF,),
    addresses=(THREAD,),
    is_taken_back=False,
    resumes=0,
    transcript=TRANSCRIPT,
    outgoing=ROWS,
    waiting=0,
    bubbles=0,
    messages=tuple(map(shown, ROWS)),
    threads=(Thread("topic:2", "Life"),),
    keys=True,
    edits_later=True,
    mistakes=(),
    asked={"w1": 1, "handed off after w1": 2, "w2": 3},
    tasks=frozenset({"w2"}),
    kills={"handed off after w1": 1, "w2": 1},
    runs={"w2": 1},
    told="Completed",
    waited=1.0,
    log="2026 INFO all is well",
)
FAILED = structs.replace(HANDOFF, state=State.FAILED, error="It failed.")
STAYED = replace(
    HONEST,
    words=("w1",),
    in_chat=frozenset(),
    handoffs=(FAILED,),
    addresses=(HERE,),
    transcript=TRANSCRIPT[:2],
    outgoing=(row(1, "handoff:1:stayed", "The session stayed where it was."),),
    messages=(shown(row(1, "", "The session stayed where it was.")),),
    told="Failed",
)
UNSURE = replace(
    HONEST,
    keys=False,
    outgoing=(
        *ROWS[:4],
        structs.replace(
            ROWS[4], state=OutgoingState.UNCERTAIN, receipts=(), error="The gateway stopped."
        ),
    ),
)


def without(transcript: tuple[Message, ...], *seqs: int) -> tuple[Message, ...]:
    return tuple(m for m in transcript if m.seq not in seqs)


def rewritten(seq: int, content: str) -> tuple[Message, ...]:
    return tuple(
        structs.replace(m, content=content) if m.seq == seq else m for m in HONEST.transcript
    )


def again(seq: int, after: int) -> tuple[Message, ...]:
    """The same message once more."""
    (repeated,) = (m for m in TRANSCRIPT if m.seq == seq)
    place = [m.seq for m in TRANSCRIPT].index(after) + 1
    return (*TRANSCRIPT[:place], repeated, *TRANSCRIPT[place:])


def in_state(number: int, state: OutgoingState) -> tuple[Outgoing, ...]:
    return tuple(structs.replace(r, state=state) if r.no == number else r for r in ROWS)


@pytest.mark.parametrize("honest", [HONEST, STAYED, UNSURE], ids=["moved", "stayed", "unsure"])
def test_correct_evidence_has_no_violations(honest: Evidence):
    assert violations(honest) == []


def test_without_keys_a_reported_partial_message_is_not_a_violation():
    half = replace(shown(ROWS[4]), id="message:9", text="I heard w1 …")
    messages = (*HONEST.messages, half)
    untold = replace(HONEST, messages=messages, keys=False)
    assert violations(untold)
    told = row(10, "half:s/8", "If there is half a message above, …")
    rows, all_shown = (*HONEST.outgoing, told), (*messages, shown(told))
    assert not violations(replace(untold, outgoing=rows, messages=all_shown))
    assert violations(replace(untold, outgoing=rows, messages=all_shown, keys=True))


def test_a_partial_answer_left_by_a_takeover_is_not_a_violation():
    half = replace(shown(ROWS[4]), id="message:9", text="I heard w1 …\n\nInterrupted here.")
    left = replace(HONEST, messages=(*HONEST.messages, half))
    assert violations(left)
    taken = replace(left, cut_off=frozenset({"w2"}))
    assert not violations(taken)
    twice = replace(half, id="message:10", text="I heard w1 w2 …\n\nInterrupted here.")
    assert violations(replace(taken, messages=(*taken.messages, twice)))


def test_an_unknown_thread_is_not_a_violation_if_every_gateway_died():
    lost = structs.replace(FAILED, id=2, thread=None, failure=Failure.CANCELLED)
    orphan = replace(
        HONEST, handoffs=(lost, HANDOFF), threads=(*HONEST.threads, Thread("topic:9", "Life"))
    )
    assert violations(orphan)
    abandoned = structs.replace(lost, failure=Failure.ABANDONED)
    assert not violations(replace(orphan, handoffs=(abandoned, HANDOFF)))


def test_the_same_recap_of_two_handoffs_is_not_a_violation():
    second = structs.replace(ROWS[0], no=9, key="handoff:2:recap", receipts=("message:9",))
    twice = replace(
        HONEST,
        handoffs=(structs.replace(FAILED, id=2, thread=None), HANDOFF),
        messages=(shown(second), *HONEST.messages),
    )
    assert violations(twice)
    assert not violations(replace(twice, outgoing=(second, *ROWS)))


BACK = structs.replace(HANDOFF, id=2)
BACK_ROWS = (
    *ROWS,
    row(6, "handoff:2:return", "**“Life”** is back here."),
    row(7, "handoff:2:reply", "I am back, and I heard w1 w2."),
)
RETURNED = replace(
    HONEST,
    handoffs=(HANDOFF, BACK),
    transcript=(
        *TRANSCRIPT,
        message(9, Role.USER, "[handed off]", kind=Kind.SYNTHETIC),
        message(10, Role.ASSISTANT, "I am back, and I heard w1 w2."),
    ),
    outgoing=BACK_ROWS,
    messages=tuple(map(shown, BACK_ROWS)),
)


def test_a_later_handoff_to_the_same_thread_is_not_a_violation():
    assert violations(RETURNED) == []
    other = replace(THREAD, thread_id="topic:9")
    second = replace(
        RETURNED,
        handoffs=(HANDOFF, structs.replace(BACK, thread=other)),
        addresses=(other,),
        threads=(*HONEST.threads, Thread("topic:9", "Life")),
    )
    assert violations(second) == ["topic:9 was opened, and the session has topic:2"]


Lie = Callable[[], Evidence]

LIES: dict[str, tuple[Lie, str]] = {
    "it took too long": (lambda: replace(HONEST, waited=30.5), "30.5 s"),
    "a message waits": (lambda: replace(HONEST, waiting=1), "wait for an answer"),
    "a bubble is left": (lambda: replace(HONEST, bubbles=1), "still being written"),
    "a row is stuck": (
        lambda: replace(HONEST, outgoing=in_state(5, OutgoingState.SENDING)),
        "s/8 is stuck",
    ),
    "a handoff is stuck": (
        lambda: replace(HONEST, handoffs=(structs.replace(HANDOFF, state=State.RUNNING),)),
        "handoff 1 is stuck",
    ),
    "in two places": (lambda: replace(HONEST, addresses=(THREAD, HERE)), "in 2 places"),
    "in no place": (lambda: replace(HONEST, addresses=()), "in 0 places"),
    "in another place": (
        lambda: replace(HONEST, addresses=(replace(THREAD, thread_id="topic:3"),)),
        "was handed off to",
    ),
    "moved, though it failed": (
        lambda: replace(STAYED, addresses=(THREAD,)),
        "not in the terminal",
    ),
    "not moved, though it was completed": (
        lambda: replace(HONEST, addresses=(HERE,)),
        "was handed off to",
    ),
    "the terminal was told something else": (
        lambda: replace(HONEST, told="Failed"),
        "the terminal was told",
    ),
    "a word is lost": (
        lambda: replace(HONEST, transcript=without(TRANSCRIPT, 1, 2)),
        "the person said",
    ),
    "a word is said twice": (lambda: replace(HONEST, transcript=again(5, 4)), "the person said"),
    "words are out of order": (
        lambda: replace(HONEST, words=("w2", "w1")),
        "the person said",
    ),
    "the prompt of a handoff is missing": (
        lambda: replace(HONEST, transcript=without(TRANSCRIPT, 3, 4)),
        "0 prompts",
    ),
    "the prompt of a handoff is there twice": (
        lambda: replace(HONEST, transcript=again(3, 2)),
        "2 prompts",
    ),
    "the prompt of a handoff that failed is left": (
        lambda: replace(STAYED, transcript=TRANSCRIPT[:4]),
        "1 prompts",
    ),
    "no answer": (lambda: replace(HONEST, transcript=without(TRANSCRIPT, 8)), "has 0 answers"),
    "two answers": (lambda: replace(HONEST, transcript=again(8, 8)), "has 2 answers"),
    "an answer is followed by a tool": (
        lambda: replace(HONEST, transcript=(*without(TRANSCRIPT, 7), TRANSCRIPT[6])),
        "is followed by",
    ),
    "something is said twice on the way": (
        lambda: replace(HONEST, transcript=again(6, 7)),
        "2 times",
    ),
    "a tool call without a result": (
        lambda: replace(HONEST, transcript=without(TRANSCRIPT, 7)),
        "have the results {}",
    ),
    "a tool call with two results": (
        lambda: replace(HONEST, transcript=again(7, 7)),
        "have the results {'c1': 2}",
    ),
    "an answer that knows too little": (
        lambda: replace(HONEST, transcript=rewritten(8, "I heard w2.")),
        "the answer knows",
    ),
    "an answer was never queued": (
        lambda: replace(HONEST, outgoing=ROWS[:4], messages=HONEST.messages[:4]),
        "s/8 was never queued",
    ),
    "a recap was never queued": (
        lambda: replace(HONEST, outgoing=ROWS[1:], messages=HONEST.messages[1:]),
        "recap was never queued",
    ),
    "the thread of a failed handoff is not told": (
        lambda: replace(STAYED, outgoing=(), messages=()),
        "stayed was never queued",
    ),
    "the person is not told of a tool that was cut off": (
        lambda: replace(
            HONEST,
            outgoing=(*ROWS[:3], ROWS[4]),
            messages=(*HONEST.messages[:3], HONEST.messages[4]),
        ),
        "unknown was never queued",
    ),
    "the place that it left is not told": (
        lambda: replace(HONEST, addresses=(HERE,), is_taken_back=True, resumes=1),
        "moved was never queued",
    ),
    "something is said that nobody asked for": (
        lambda: replace(HONEST, outgoing=(*ROWS, row(6, "notice:1:end", "Something went wrong."))),
        "should not have been",
    ),
    "a delivery failed": (
        lambda: replace(HONEST, outgoing=in_state(5, OutgoingState.FAILED)),
        "s/8 is failed",
    ),
    "uncertain, though the platform takes keys": (
        lambda: replace(UNSURE, keys=True),
        "s/8 is uncertain",
    ),
    "two things in one message": (
        lambda: replace(
            HONEST, outgoing=(*ROWS[:4], structs.replace(ROWS[4], receipts=("message:3",)))
        ),
        "stands for 2 things",
    ),
    "sent, but not shown": (
        lambda: replace(HONEST, messages=HONEST.messages[:4]),
        "message:5 is not shown",
    ),
    "sent, but no receipt": (
        lambda: replace(HONEST, outgoing=(*ROWS[:4], structs.replace(ROWS[4], receipts=()))),
        "nobody knows where",
    ),
    "overwritten by something else": (
        lambda: replace(
            HONEST,
            messages=(*HONEST.messages[:4], replace(HONEST.messages[4], text="w7")),
        ),
        "is shown as 'w7'",
    ),
    "shown twice": (
        lambda: replace(HONEST, messages=(*HONEST.messages, replace(HONEST.messages[4], id="x"))),
        "nobody was sending it",
    ),
    "shown twice, where one is uncertain": (
        lambda: replace(UNSURE, messages=(*HONEST.messages, replace(HONEST.messages[4], id="x"))),
        "nobody was sending it",
    ),
    "a thread too many": (
        lambda: replace(HONEST, threads=(*HONEST.threads, Thread("topic:9", "Life"))),
        "nobody knows of",
    ),
    "a thread too many, silently, without keys": (
        lambda: replace(
            HONEST,
            keys=False,
            threads=(*HONEST.threads, Thread("topic:9", "Life")),
        ),
        "nobody knows of",
    ),
    "a thread for two handoffs": (
        lambda: replace(STAYED, handoffs=(FAILED, structs.replace(FAILED, id=2))),
        "for 2 handoffs",
    ),
    "a turn was run twice": (
        lambda: replace(HONEST, asked={"w1": 2}),
        "2 times about w1",
    ),
    "a handoff's turn was run once more than it was killed": (
        lambda: replace(HONEST, asked={"handed off after w1": 3}),
        "3 times about handed off",
    ),
    "a turn with a tool was run once more than it was killed": (
        lambda: replace(HONEST, asked={"w2": 4}),
        "4 times about w2",
    ),
    "a tool ran twice": (lambda: replace(HONEST, runs={"w2": 2}), "the tool ran 2 times"),
    "a call was refused": (lambda: replace(HONEST, mistakes=("key_reused",)), "key_reused"),
    "the gateway broke": (
        lambda: replace(HONEST, log="2026 ERROR Message 1 was not answered"),
        "tells of a fault",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_every_violation_is_named(name: str):
    lie, word = LIES[name]
    named = violations(lie())
    assert any(word in violation for violation in named), named
