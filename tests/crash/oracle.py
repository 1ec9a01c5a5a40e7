"""What must hold after any crash. It judges plain evidence, so that it can be shown false evidence
too: see test_oracle.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from segue.core.address import Address, Platform
from segue.core.handoff import Handoff, State
from segue.core.transcript import INTERRUPTED, Kind, Message, Role
from segue.store.outbox import Outgoing, OutgoingState
from segue.testing.platform import Message as Shown
from segue.testing.platform import Thread
from tests.crash.mind import HANDOFF, WORD

STUCK = 30.0
_HARMLESS = frozenset({"conflict", "not_changed", "no_threads", "no_permission"})
"""Refusals that an adapter has to live with: another poll of its own, an edit that was made
already, a chat without threads."""
_FAULTS = ("Traceback", "CRITICAL", "ERROR")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that is known of one conversation when nothing is under way in it."""

    session_id: str
    words: tuple[str, ...]
    """What the person said, in order."""
    in_chat: frozenset[str]
    """Those that were said in the chat."""
    handoffs: tuple[Handoff, ...]
    """The oldest first."""
    addresses: tuple[Address, ...]
    """Where the session is."""
    is_taken_back: bool
    """The person took it back into a terminal since the last handoff."""
    resumes: int
    """How often that was from a chat."""
    transcript: tuple[Message, ...]
    outgoing: tuple[Outgoing, ...]
    """All that was ever queued for the chat."""
    waiting: int
    """What came in from the chat and is not done with."""
    bubbles: int
    """Messages in the chat that are still being written."""
    messages: tuple[Shown, ...]
    """What the bot wrote in the chat, as the platform shows it."""
    threads: tuple[Thread, ...]
    keys: bool
    """Whether the platform takes keys."""
    refused: tuple[str, ...]
    """Why the platform refused calls."""
    asked: Mapping[str, int]
    """How often the model was asked about each thing."""
    tasks: frozenset[str]
    """The words for which it uses a tool, and is asked again with the result."""
    kills: Mapping[str, int]
    """How often a gateway was killed between a thing was said and its answer was recorded."""
    runs: Mapping[str, int]
    """How often the tool ran for each word."""
    told: str | None
    """How the last handoff ended, as a living terminal was told."""
    waited: float
    """Seconds that it took to settle after the kill."""
    log: str
    """What the gateways told."""


def violations(seen: Evidence) -> list[str]:
    """Every promise that was broken."""
    return [
        *_stuck(seen),
        *_place(seen),
        *_order(seen),
        *_turns(seen),
        *_knowledge(seen),
        *_queued(seen),
        *_delivered(seen),
        *_doubled(seen),
        *_threads(seen),
        *_repeated(seen),
        *_faults(seen),
    ]


def _stuck(seen: Evidence) -> Iterator[str]:
    if seen.waited > STUCK:
        yield f"it took {seen.waited:.1f} s to settle"
    if seen.waiting:
        yield f"{seen.waiting} messages of the person wait for an answer"
    if seen.bubbles:
        yield f"{seen.bubbles} messages are still being written"
    for row in seen.outgoing:
        if row.state in (OutgoingState.QUEUED, OutgoingState.SENDING):
            yield f"{row.key} is stuck in the outbox: {row.state}, {row.error}"
    for handoff in seen.handoffs:
        if handoff.in_flight:
            yield f"handoff {handoff.id} is stuck: {handoff.state}, {handoff.step}"


def _place(seen: Evidence) -> Iterator[str]:
    """It is in one place: where the last handoff brought it, or where it was taken back to."""
    if len(seen.addresses) != 1:
        yield f"the session is in {len(seen.addresses)} places: {seen.addresses}"
        return
    (address,) = seen.addresses
    last = seen.handoffs[-1] if seen.handoffs else None
    moved = last is not None and last.state is State.COMPLETED and not seen.is_taken_back
    expected = last.thread if last and moved else None
    if moved and address != expected:
        yield f"the session is at {address}, and was handed off to {expected}"
    if not moved and address.platform is not Platform.LOCAL:
        yield f"the session is at {address}, and not in the terminal"
    if seen.told is not None and last is not None:
        told = {"Completed": State.COMPLETED, "Failed": State.FAILED}.get(seen.told)
        if told is not last.state:
            yield f"the terminal was told {seen.told}, and the handoff is {last.state}"


def _order(seen: Evidence) -> Iterator[str]:
    """All that was said is there, once, in order."""
    said = [m for m in seen.transcript if m.role is Role.USER and m.kind is Kind.SAID]
    words = [word for m in said for word in WORD.findall(m.content)]
    if words != [*seen.words]:
        yield f"the person said {seen.words}, and the transcript has {words}"
    prompts = sum(m.role is Role.USER and m.kind is Kind.SYNTHETIC for m in seen.transcript)
    completed = sum(handoff.state is State.COMPLETED for handoff in seen.handoffs)
    if prompts != completed:
        yield f"there are {prompts} prompts of handoffs, and {completed} were completed"


def _turns(seen: Evidence) -> Iterator[str]:
    """Each thing said, and each prompt, has one turn, and every tool call one result."""
    for turn in _turns_of(seen.transcript):
        asked = turn[0].content[:40]
        finals = [m for m in turn if m.role is Role.ASSISTANT and not m.tool_calls]
        if turn[0].role is not Role.USER:
            yield f"nobody asked for {asked!r}"
        elif len(finals) != 1:
            yield f"{asked!r} has {len(finals)} answers: {[m.content for m in finals]}"
        elif (last := [m for m in turn if m.role is not Role.SYSTEM][-1]) is not finals[0]:
            yield f"the answer to {asked!r} is followed by {last.content!r}"
        contents = Counter(m.content for m in turn if m.role is Role.ASSISTANT)
        for text, count in contents.items():
            if count > 1:
                yield f"the agent said {text!r} {count} times"
        calls = Counter(call.id for m in turn for call in m.tool_calls)
        results = Counter(m.tool_call_id for m in turn if m.role is Role.TOOL)
        if calls != results or any(count > 1 for count in calls.values()):
            yield f"the tool calls {dict(calls)} have the results {dict(results)}"


def _knowledge(seen: Evidence) -> Iterator[str]:
    """Each answer knows all that was said until then, and nothing else."""
    known: list[str] = []
    for message in seen.transcript:
        if message.role is Role.USER:
            known += WORD.findall(message.content)
        elif message.role is Role.ASSISTANT and not message.tool_calls:
            told = WORD.findall(message.content)
            if told != known:
                yield f"the answer knows {told}, and was told {known}"


def _turns_of(transcript: Iterable[Message]) -> list[list[Message]]:
    turns: list[list[Message]] = []
    for message in transcript:
        if message.role is Role.USER or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


# What was to be said there


def _queued(seen: Evidence) -> Iterator[str]:
    """Everything that had to be said was queued, once, and nothing else."""
    expected = Counter(_expected(seen))
    keys = Counter(_kind(row.key) for row in seen.outgoing)
    for key in expected - keys:
        yield f"{key} was never queued"
    optional = Counter(f"handoff:{h.id}:recap" for h in seen.handoffs)
    if not seen.keys:
        optional["half"] = keys["half"]
        for row in seen.outgoing:
            if row.state is OutgoingState.UNCERTAIN:
                optional[f"again:{row.key}"] += 1
    for key in keys - expected - optional:
        yield f"{key} was queued, and should not have been"
    for row in seen.outgoing:
        unknown = row.state is OutgoingState.UNCERTAIN and seen.keys
        if row.state is OutgoingState.FAILED or unknown:
            yield f"{row.key} is {row.state}: {row.error}"


def _expected(seen: Evidence) -> Iterator[str]:
    for handoff in seen.handoffs:
        if handoff.state is State.COMPLETED:
            yield f"handoff:{handoff.id}:recap"
            yield f"handoff:{handoff.id}:reply"
        elif handoff.thread is not None:
            yield f"handoff:{handoff.id}:stayed"
    yield from ["moved"] * seen.resumes
    for turn in _turns_of(seen.transcript):
        if not seen.in_chat.intersection(WORD.findall(turn[0].content)):
            continue
        for message in turn:
            if message.role is Role.ASSISTANT and message.content:
                yield f"{seen.session_id}/{message.seq}"
        if any(m.role is Role.TOOL and m.content == INTERRUPTED for m in turn):
            yield "unknown"


def _kind(key: str) -> str:
    """The keys that cannot be foretold, by what they are for."""
    if key.startswith("moved:"):
        return "moved"
    if key.startswith("notice:") and key.endswith(":unknown"):
        return "unknown"
    return "half" if key.startswith("half:") else key


def _delivered(seen: Evidence) -> Iterator[str]:
    """Each that was sent is shown once, where its receipt says."""
    shown = {message.id: message for message in seen.messages}
    for receipt, count in _receipts(seen).items():
        if count > 1:
            yield f"{receipt} stands for {count} things that were said"
        if receipt not in shown:
            yield f"{receipt} is not shown"
    for row in seen.outgoing:
        if row.state is not OutgoingState.SENT:
            continue
        if not row.receipts:
            yield f"{row.key} was sent, and nobody knows where"
        text = " ".join(shown[r].text for r in row.receipts if r in shown)
        if _is_answer(row, seen) and WORD.findall(text) != WORD.findall(row.body):
            yield f"{row.key} is shown as {text!r}"


def _doubled(seen: Evidence) -> Iterator[str]:
    """Nothing is shown that nobody sent; where the platform takes no keys, what is uncertain may
    be, once, and half a message that people are told of."""
    receipts = _receipts(seen)
    uncertain = [row for row in seen.outgoing if row.state is OutgoingState.UNCERTAIN]
    halves = sum(_kind(row.key) == "half" for row in seen.outgoing)
    for message in seen.messages:
        if receipts[message.id]:
            continue
        if _is_half(message.text) and halves:
            halves -= 1
            continue
        maybe = [row for row in uncertain if _plain(message.text) in _plain(row.body)]
        if maybe:
            uncertain.remove(maybe[0])
        else:
            yield f"{message.text!r} ({message.key}) is shown, and nobody was sending it"
    texts = Counter((m.thread, m.text) for m in seen.messages if WORD.search(m.text))
    for (_, text), count in texts.items():
        if count > 1:
            yield f"{text!r} is shown {count} times"


def _receipts(seen: Evidence) -> Counter[str]:
    return Counter(receipt for row in seen.outgoing for receipt in row.receipts)


def _is_answer(row: Outgoing, seen: Evidence) -> bool:
    return row.key.startswith(seen.session_id) or row.key.endswith(":reply")


def _is_half(text: str) -> bool:
    """Whether it is what is shown of an answer while it comes."""
    return text.endswith("…")


def _plain(text: str) -> str:
    """Without any markup."""
    return "".join(filter(str.isalnum, text))


def _threads(seen: Evidence) -> Iterator[str]:
    """Every thread that was opened is known to the handoff that it was opened for, which is where
    the promise comes from that somebody there is told what became of it."""
    known = Counter(h.thread.thread_id for h in seen.handoffs if h.thread and h.thread.thread_id)
    for thread, count in known.items():
        if count > 1:
            yield f"{thread} was opened for {count} handoffs"
    orphans = [thread for thread in seen.threads if not known[thread.id]]
    # Without keys it is not known whether a call that broke off opened one: the handoff failed.
    lost = [h for h in seen.handoffs if h.state is State.FAILED and h.thread is None]
    if orphans and (seen.keys or len(orphans) > len(lost)):
        yield f"nobody knows of {orphans}"


# What was done more than once


def _repeated(seen: Evidence) -> Iterator[str]:
    """The model is asked once per attempt, and each kill before the answer is recorded allows one
    more attempt. A tool runs once in all."""
    mine = {*seen.words, *(f"{HANDOFF} after {word}" for word in seen.words)}
    for about in sorted(mine & seen.asked.keys()):
        most = 1 + (about in seen.tasks) + seen.kills.get(about, 0)
        if seen.asked[about] > most:
            yield f"the model was asked {seen.asked[about]} times about {about}, not {most}"
    for word in seen.words:
        if seen.runs.get(word, 0) > 1:
            yield f"the tool ran {seen.runs[word]} times for {word}"


def _faults(seen: Evidence) -> Iterator[str]:
    for reason in seen.refused:
        if reason not in _HARMLESS:
            yield f"the platform refused a call: {reason}"
    for line in seen.log.splitlines():
        if any(fault in line for fault in _FAULTS):
            yield f"the gateway tells of a fault: {line}"
