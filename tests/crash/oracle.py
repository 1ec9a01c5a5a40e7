"""The invariants that must hold after any crash.

The oracle works on plain evidence, so test_oracle.py can show it false evidence too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from segue.core.address import Address, Platform
from segue.core.transcript import Kind, Message, Outcome, Role
from segue.gateway.texts import INTERRUPTED
from segue.handoffs.values import Failure, Handoff, State
from segue.store.outbox import Outgoing, OutgoingState
from tests.crash.model import HANDOFF, WORD
from tests.rigs import Message as Shown
from tests.rigs import Thread

STUCK = 30.0
_FAULTS = ("Traceback", "CRITICAL", "ERROR")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything known about one conversation when nothing is in progress in it."""

    session_id: str
    words: tuple[str, ...]
    """What the user said, in order."""
    in_chat: frozenset[str]
    """The words that the user said in the chat."""
    handoffs: tuple[Handoff, ...]
    """Oldest first."""
    addresses: tuple[Address, ...]
    """The addresses bound to the session."""
    is_taken_back: bool
    """Whether the user took the session back into a terminal since the last handoff."""
    resumes: int
    """How often the session was taken back from a chat."""
    transcript: tuple[Message, ...]
    outgoing: tuple[Outgoing, ...]
    """Everything ever queued for the chat."""
    waiting: int
    """The number of inbound messages that are not finished."""
    bubbles: int
    """The number of messages in the chat that are still being written."""
    messages: tuple[Shown, ...]
    """The bot's messages in the chat, as the platform shows them."""
    threads: tuple[Thread, ...]
    keys: bool
    """Whether the platform supports idempotency keys."""
    edits_later: bool
    """Whether a gateway can edit what an earlier one sent. If not, half an answer that the earlier
    one may have finished stays, and the user is notified."""
    mistakes: tuple[str, ...]
    """The calls that no bot should make."""
    asked: Mapping[str, int]
    """The number of model requests about each word or handoff."""
    tasks: frozenset[str]
    """The words for which the model uses a tool and is then asked again with the result."""
    moving: frozenset[str] = frozenset()
    """The words said in a terminal that handed the session off in the middle of the turn."""
    cut_off: frozenset[str] = frozenset()
    """The words whose turn may have no answer: its terminal was killed, or a terminal took the
    session in the middle of it."""
    kills: Mapping[str, int]
    """How often a gateway was killed between a message and the recording of its answer."""
    runs: Mapping[str, int]
    """The number of tool runs for each word."""
    told: str | None
    """The outcome of the last handoff as a surviving terminal received it."""
    waited: float
    """Seconds until the conversation settled after the kill."""
    log: str
    """The gateways' log."""


def violations(seen: Evidence) -> list[str]:
    """Return a description of every violated invariant."""
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
    """The session has one address: where the last handoff or resume put it."""
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
    """Every message is in the transcript once, in order."""
    said = [m for m in seen.transcript if m.role is Role.USER and m.kind is Kind.SAID]
    words = [word for m in said for word in WORD.findall(m.content)]
    if words != [*seen.words]:
        yield f"the person said {seen.words}, and the transcript has {words}"
    prompts = sum(m.role is Role.USER and m.kind is Kind.SYNTHETIC for m in seen.transcript)
    completed = sum(h.state is State.COMPLETED and not h.mid_turn for h in seen.handoffs)
    if prompts != completed:
        yield f"there are {prompts} prompts of handoffs, and {completed} were completed"


def _turns(seen: Evidence) -> Iterator[str]:
    """Each message and each handoff prompt has one turn, and every tool call one result."""
    for turn in _turns_of(seen.transcript):
        asked = turn[0].content[:40]
        finals = [m for m in turn if m.role is Role.ASSISTANT and not m.tool_calls]
        if turn[0].role is not Role.USER:
            yield f"nobody asked for {asked!r}"
        elif not finals and _is_cut_off(turn, seen):
            continue
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


def _has_moved(turn: list[Message], seen: Evidence) -> bool:
    """Whether the turn began in a terminal and went on in the chat."""
    moved = any(h.state is State.COMPLETED and h.mid_turn for h in seen.handoffs)
    return moved and not seen.moving.isdisjoint(WORD.findall(turn[0].content))


def _is_cut_off(turn: list[Message], seen: Evidence) -> bool:
    """Whether the turn may have ended without an answer."""
    words = WORD.findall(turn[0].content)
    return not seen.cut_off.isdisjoint(words) and not _has_moved(turn, seen)


def _knowledge(seen: Evidence) -> Iterator[str]:
    """Each answer knows every earlier message, and nothing else."""
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


# The outbox


def _queued(seen: Evidence) -> Iterator[str]:
    """Every required message was queued once, and nothing else was queued."""
    expected = Counter(_expected(seen))
    keys = Counter(_kind(row.key) for row in seen.outgoing)
    for key in expected - keys:
        yield f"{key} was never queued"
    optional = Counter(f"handoff:{h.id}:{_first(seen, h)}" for h in seen.handoffs)
    optional["elsewhere"] = len(seen.in_chat)  # asked once about a message
    optional["end"] = len(seen.cut_off & seen.in_chat)  # no answer follows
    # Without a new thread, it is needed only if the thread shows already that the session comes.
    optional.update(f"handoff:{h.id}:stayed" for h in seen.handoffs if h.thread and h.error)
    if not seen.keys:  # it says that the recap may be missing
        optional.update(f"handoff:{h.id}:reply" for h in seen.handoffs if h.mid_turn)
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
            yield f"handoff:{handoff.id}:{_first(seen, handoff)}"
            if not handoff.mid_turn:
                yield f"handoff:{handoff.id}:reply"
        elif handoff.thread is not None and (_is_new(seen, handoff) or _has_spoken(seen, handoff)):
            yield f"handoff:{handoff.id}:stayed"
    yield from ["moved"] * seen.resumes
    for turn in _turns_of(seen.transcript):
        moved = _has_moved(turn, seen)
        if not moved and not seen.in_chat.intersection(WORD.findall(turn[0].content)):
            continue
        for message in turn:
            before = moved and message.tool_calls  # said in the terminal
            if message.role is Role.ASSISTANT and message.content and not before:
                yield f"{seen.session_id}/{message.seq}"
        if any(m.outcome is Outcome.INTERRUPTED for m in turn):
            yield "unknown"


def _first(seen: Evidence, handoff: Handoff) -> str:
    """The kind of the first message of a handoff: a recap, or that it is back in its thread."""
    return "return" if _door(seen, handoff) else "recap"


def _has_spoken(seen: Evidence, handoff: Handoff) -> bool:
    """Whether the first message of a handoff was sent, or is to be sent."""
    key = f"handoff:{handoff.id}:{_first(seen, handoff)}"
    return any(row.key == key for row in seen.outgoing)


def _is_new(seen: Evidence, handoff: Handoff) -> bool:
    """Whether a thread was opened for the handoff."""
    thread = handoff.thread
    return thread is not None and thread.thread_id not in (None, _door(seen, handoff))


def _door(seen: Evidence, handoff: Handoff) -> str | None:
    """The thread that the session had before that handoff."""
    before = seen.handoffs[: seen.handoffs.index(handoff)]
    threads = [h.thread.thread_id for h in before if h.state is State.COMPLETED and h.thread]
    return threads[-1] if threads else None


def _kind(key: str) -> str:
    """Reduce keys that cannot be predicted to their purpose."""
    if key.startswith("moved:"):
        return "moved"
    if key.startswith("notice:") and key.endswith(":unknown"):
        return "unknown"
    if key.startswith("notice:") and key.endswith(":elsewhere"):
        return "elsewhere"
    if key.startswith("notice:") and key.endswith(":end"):
        return "end"
    return "half" if key.startswith("half:") else key


def _delivered(seen: Evidence) -> Iterator[str]:
    """Each sent message is shown once, in the place that its receipt names."""
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
    """The chat shows no message that was not sent.

    Half an answer stays, with a mark, if a terminal took the session in the middle of it. Without
    idempotency keys two more exceptions are allowed: an uncertain message may be shown once, and
    half a message may remain if the user is notified of it.
    """
    receipts = _receipts(seen)
    uncertain = [row for row in seen.outgoing if row.state is OutgoingState.UNCERTAIN]
    halves = sum(_kind(row.key) == "half" for row in seen.outgoing)
    marked = len(seen.cut_off & seen.in_chat)
    left = Counter[str]()
    for message in seen.messages:
        if receipts[message.id]:
            continue
        if message.text.endswith(INTERRUPTED) and marked:
            marked -= 1
            continue
        if (_is_half(message.text) or not seen.edits_later) and halves:
            halves -= 1
            left[message.text] += 1
            continue
        maybe = [row for row in uncertain if _plain(message.text) in _plain(row.body)]
        if maybe:
            uncertain.remove(maybe[0])
        else:
            yield f"{message.text!r} is shown, and nobody was sending it"
    texts = Counter((m.thread, m.text) for m in seen.messages if WORD.search(m.text))
    for (_, text), count in texts.items():
        # Two handoffs to one chat can have the same recap.
        if count - left[text] > max(
            1, sum(_plain(text) == _plain(row.body) for row in seen.outgoing)
        ):
            yield f"{text!r} is shown {count} times"


def _receipts(seen: Evidence) -> Counter[str]:
    return Counter(receipt for row in seen.outgoing for receipt in row.receipts)


def _is_answer(row: Outgoing, seen: Evidence) -> bool:
    return row.key.startswith(seen.session_id) or row.key.endswith(":reply")


def _is_half(text: str) -> bool:
    """Return whether the text is a partial answer that is still being written."""
    return text.endswith("…")


def _plain(text: str) -> str:
    """Strip all markup."""
    return "".join(filter(str.isalnum, text))


def _threads(seen: Evidence) -> Iterator[str]:
    """Every opened thread is recorded with the handoff that it was opened for.

    Only then can the gateway post in the thread how that handoff ended. Later handoffs return to
    the thread of the first that was completed.
    """
    known: Counter[str] = Counter()
    for handoff in seen.handoffs:
        thread = handoff.thread and handoff.thread.thread_id
        if not thread:
            continue
        door = _door(seen, handoff)
        if door is not None and thread != door:
            yield f"{thread} was opened, and the session has {door}"
        if door is None and known[thread]:
            yield f"{thread} was opened for 2 handoffs"
        known[thread] += 1
    orphans = [thread for thread in seen.threads if not known[thread.id]]
    # An interrupted call may or may not have opened a thread. Without keys its handoff failed; with
    # keys the next gateway repeats the call, unless all gateways that tried were killed.
    lost = [
        h
        for h in seen.handoffs
        if h.state is State.FAILED
        and h.thread is None
        and (h.failure is Failure.ABANDONED or not seen.keys)
    ]
    if len(orphans) > len(lost):
        yield f"nobody knows of {orphans}"


# Repetition


def _repeated(seen: Evidence) -> Iterator[str]:
    """The model is asked once per attempt. Each kill before the answer is recorded allows one more.

    A tool runs only once.
    """
    mine = {*seen.words, *(f"{HANDOFF} after {word}" for word in seen.words)}
    for about in sorted(mine & seen.asked.keys()):
        most = 1 + (about in seen.tasks) + seen.kills.get(about, 0)
        if seen.asked[about] > most:
            yield f"the model was asked {seen.asked[about]} times about {about}, not {most}"
    for word in seen.words:
        ran = seen.runs.get(word, 0)
        if word in seen.moving and not ran and _has_result(word, seen):
            yield f"the tool did not run for {word}"
        if ran > 1:
            yield f"the tool ran {seen.runs[word]} times for {word}"


def _has_result(word: str, seen: Evidence) -> bool:
    return any(
        m.tool_call_id == f"call_{word}" and m.outcome is None
        for m in seen.transcript
        if m.role is Role.TOOL
    )


def _faults(seen: Evidence) -> Iterator[str]:
    for mistake in seen.mistakes:
        yield f"the platform refused a call: {mistake}"
    for line in seen.log.splitlines():
        if any(fault in line for fault in _FAULTS):
            yield f"the gateway tells of a fault: {line}"
