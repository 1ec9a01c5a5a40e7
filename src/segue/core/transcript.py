"""Messages, and the rules for replaying, repairing and recapping them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from segue.core import provenance
from segue.core.provenance import Provenance
from segue.core.text import one_line, tokens_in

LEFT_OUT = "[this output was left out to save room; use the tool again if you need it]"
_LEFT_OUT_TOKENS = 20
_BLOCK = 8


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class Kind(StrEnum):
    """Why a Message is in the Transcript."""

    SAID = "said"
    SUMMARY = "summary"
    """Replaces everything before it except the messages it `keeps`. The window starts here."""
    SYNTHETIC = "synthetic"
    """A prompt from the program, such as a handoff's, not typed by a user."""


class Outcome(StrEnum):
    """Why a tool call has no result."""

    INTERRUPTED = "interrupted"
    """It did not finish, and its effect is unknown. The message has what it had printed."""
    NOT_BEGUN = "not begun"
    DENIED = "denied"
    """The user did not allow it."""


_OUTCOMES: Mapping[Outcome, str] = {
    Outcome.INTERRUPTED: "[interrupted: this tool call did not finish; its effect is unknown]",
    Outcome.NOT_BEGUN: "[interrupted: this tool call was not begun and had no effect]",
    Outcome.DENIED: (
        "[not allowed: the user denied this call. Do not repeat it; ask, or do without.]"
    ),
}

"""What the model reads."""

_SHOWN: Mapping[Outcome, str] = {
    Outcome.INTERRUPTED: "Interrupted. Its effect is unknown.",
    Outcome.NOT_BEGUN: "Not run: the turn was interrupted.",
    Outcome.DENIED: "Not allowed.",
}
"""What the user reads."""


class ToolCall(Struct, frozen=True, gc=False):
    """A tool call by the agent. The arguments stay as the model wrote them."""

    id: str
    name: str
    arguments: str


class Image(Struct, frozen=True, gc=False):
    """A picture that came with a message."""

    media_type: str
    """Such as `image/png`."""
    data: bytes


# Structs rather than dataclasses, and not tracked by the garbage collector, which has nothing to
# find in them: ten thousand load in a fraction of the time.
class Message(Struct, frozen=True, omit_defaults=True, gc=False):
    """One role's entry in a Transcript."""

    role: Role
    content: str
    at: Annotated[datetime, Meta(tz=True)]
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    tool_name: str | None = None
    tokens: Annotated[int, Meta(ge=0, lt=1 << 62)] = 0
    kind: Kind = Kind.SAID
    extras: Mapping[str, Any] | None = None
    """Data that one provider needs back verbatim. Other providers ignore it."""
    images: tuple[Image, ...] = ()
    keeps: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0
    """For a summary: how many messages right before it, not counting summaries, it does not
    replace.

    The model still sees those in full.
    """
    outcome: Outcome | None = None
    """For the message of a tool call that has no result: why. Its content is empty."""
    provenance: Provenance = provenance.UNKNOWN
    """The authors of its words."""
    seq: int = 0
    """Its position in the session, assigned by the store; 0 until it is stored."""


def spoken(text: str, at: datetime, by: Provenance = provenance.OWNER) -> Message:
    """Return a user message. For pictures see `segue.core.images.with_images`."""
    return Message(Role.USER, text, at, tokens=tokens_in(text), provenance=by)


def prompted(text: str, at: datetime, by: Provenance = provenance.PROGRAM) -> Message:
    """Return a synthetic user message."""
    return structs.replace(spoken(text, at, by), kind=Kind.SYNTHETIC)


def no_result(call: ToolCall, outcome: Outcome, at: datetime) -> Message:
    """Return the message of a tool call that has no result."""
    return Message(
        Role.TOOL,
        "",
        at,
        tool_call_id=call.id,
        tool_name=call.name,
        tokens=tokens_in(_OUTCOMES[outcome]),
        outcome=outcome,
        provenance=provenance.PROGRAM,
    )


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn in short: the question, the final answer and the tools used."""

    asked: str
    answered: str
    tools: tuple[tuple[str, int], ...]

    def lines(self, length: int) -> Iterator[str]:
        if self.asked:
            yield f"You: {one_line(self.asked, length)}"
        if self.answered:
            yield f"Segue: {one_line(self.answered, length)}"
        if self.tools:
            count = sum(n for _, n in self.tools)
            names = ", ".join(name if n == 1 else f"{name} ×{n}" for name, n in self.tools)
            calls = one_line(f"{count} tool call{'s' if count > 1 else ''}: {names}", length)
            yield f"  ({calls})"


class Transcript(Struct, frozen=True):
    """The ordered Messages of a session, or of the end of one."""

    messages: tuple[Message, ...] = ()
    omitted: Provenance = provenance.NOTHING
    """The authors of messages that were left out, and that no summary stands for. What the agent
    said later may repeat them."""

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    @property
    def tokens(self) -> int:
        return sum(message.tokens for message in self.messages)

    @property
    def provenance(self) -> Provenance:
        """The authors of everything that the agent has read or may repeat."""
        return provenance.union((self.omitted, *(m.provenance for m in self.messages)))

    def extended(self, messages: Iterable[Message]) -> Transcript:
        """Return the transcript with these messages after it."""
        return structs.replace(self, messages=(*self.messages, *messages))

    def tail(self, budget: int) -> Transcript:
        """Return the newest part that fits `budget` tokens.

        Tool calls stay together with their results. The newest group is kept even if it alone
        exceeds the budget: a tail without it would be useless.
        """
        left = budget
        kept: list[tuple[Message, ...]] = []
        for group in reversed(_groups(self.messages)):
            left -= sum(m.tokens for m in group)
            if kept and left < 0:
                break
            kept.append(group)
        messages = tuple(m for group in reversed(kept) for m in group)
        left_out = self.messages[: len(self.messages) - len(messages)]
        omitted = provenance.union((self.omitted, *(m.provenance for m in left_out)))
        return Transcript(messages, omitted)

    def window(self, budget: int) -> Transcript:
        """Return the window for a model with room for `budget` tokens.

        This is the last summary, regardless of its size, and the tail of the messages that it does
        not replace.
        """
        start = max((i for i, m in enumerate(self.messages) if m.kind is Kind.SUMMARY), default=-1)
        if start < 0:
            return self.tail(budget)
        summary = self.messages[start]
        after = self.messages[start + 1 :]
        before = [m for m in self.messages[:start] if m.kind is not Kind.SUMMARY]
        kept = before[max(len(before) - summary.keeps, 0) :]
        tail = Transcript((*kept, *after), self.omitted).tail(budget - summary.tokens)
        return structs.replace(tail, messages=(summary, *tail))

    def trimmed(self, budget: int) -> Transcript:
        """Return the transcript without as much old tool output as needed to fit `budget` tokens.

        The result may still be too long. The output of the newest tool calls stays. Output is
        removed in blocks, so that the start of the prompt changes rarely and a provider's prompt
        cache stays useful.
        """
        excess = self.tokens - budget
        if excess <= 0 or not self.messages:
            return self
        newest = len(self.messages) - len(_groups(self.messages)[-1])
        bulky = [i for i in range(newest) if _is_bulky(self.messages[i])]
        trimmed = list(self.messages)
        for number, place in enumerate(bulky):
            if excess <= 0 and number % _BLOCK == 0:
                break
            excess -= trimmed[place].tokens - _LEFT_OUT_TOKENS
            trimmed[place] = structs.replace(
                trimmed[place], content=LEFT_OUT, tokens=_LEFT_OUT_TOKENS
            )
        return structs.replace(self, messages=tuple(trimmed))

    def fitting(self, budget: int) -> Transcript:
        """Return the transcript, shortened to fit `budget` tokens.

        The oldest tool output is left out first and then, if that is not enough, the oldest
        messages.
        """
        return self if self.tokens <= budget else self.trimmed(budget).window(budget)

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """The tool calls at the very end that have no result."""
        groups = _groups(self.messages)
        return _unanswered(groups[-1]) if groups else ()

    def unfinished(
        self, at: datetime, outcome: Outcome = Outcome.INTERRUPTED
    ) -> tuple[Message, ...]:
        """Return the results to append when the last turn ended during tool calls."""
        return tuple(no_result(call, outcome, at) for call in self.unanswered)

    def repaired(self, at: datetime) -> Transcript:
        """Return the same conversation in a form that every provider accepts.

        Every tool call has exactly one result, right after it. Results without a call are dropped.
        """
        if _is_whole(self.messages):
            return self
        whole = tuple(m for group in _groups(self.messages) for m in _whole(group, at))
        return structs.replace(self, messages=whole)

    def exchanges(self, last: int) -> tuple[Exchange, ...]:
        """Return the last few turns in short, oldest first."""
        return tuple(map(_exchange, self.turns(last)))

    def turns(self, last: int) -> tuple[tuple[Message, ...], ...]:
        """Return the last few turns, oldest first, without synthetic prompts and summaries.

        The program's notices, such as that an answer did not arrive, are included.
        """
        said = (
            tuple(m for m in turn if m.kind is Kind.SAID or is_notice(m))
            for turn in _newest_turns(self.messages)
        )
        shown = (turn for turn in said if any(_is_shown(m) for m in turn))
        return tuple(reversed(tuple(islice(shown, max(last, 0)))))

    def recap(self, last: int = 3, length: int = 280) -> str:
        """Return the last few exchanges in a few readable lines, or an empty string."""
        return "\n".join(line for e in self.exchanges(last) for line in e.lines(length))


def is_notice(message: Message) -> bool:
    """Return whether the program says something with it to the user and the agent."""
    return message.role is Role.SYSTEM and message.kind is Kind.SYNTHETIC


def words(message: Message) -> str:
    """Return the message's text for the model, or what stands for its outcome or its pictures."""
    if message.outcome is not None:
        return _with_outcome(message, _OUTCOMES[message.outcome])
    count = len(message.images)
    if not count or message.content.strip():
        return message.content
    return "[a picture]" if count == 1 else f"[{count} pictures]"


def display_text(message: Message) -> str:
    """Return the message's text for the user, or what stands for its outcome or its pictures."""
    if message.outcome is None:
        return words(message)
    return _with_outcome(message, _SHOWN[message.outcome])


def _with_outcome(message: Message, outcome: str) -> str:
    """Return what an interrupted call had printed, if anything, and how it ended."""
    return f"{message.content}\n{outcome}" if message.content else outcome


def _is_bulky(message: Message) -> bool:
    return message.role is Role.TOOL and message.tokens > 4 * _LEFT_OUT_TOKENS


def _groups(messages: Iterable[Message]) -> list[tuple[Message, ...]]:
    """Group the messages that must stay together: a message and the tool results that follow it."""
    groups: list[list[Message]] = []
    for message in messages:
        if message.role is Role.TOOL and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    return [tuple(group) for group in groups]


def _unanswered(group: tuple[Message, ...]) -> tuple[ToolCall, ...]:
    answered = {m.tool_call_id for m in group[1:]}
    return tuple(call for call in group[0].tool_calls if call.id not in answered)


def _is_whole(messages: Iterable[Message]) -> bool:
    """Return whether every call has its result, in order, and every result has a call."""
    waiting: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            if not waiting or message.tool_call_id != waiting.pop():
                return False
        elif waiting:
            return False
        elif message.tool_calls:
            waiting = [call.id for call in reversed(message.tool_calls)]
    return not waiting


def _whole(group: tuple[Message, ...], at: datetime) -> Iterator[Message]:
    head, *results = group
    if head.role is Role.TOOL:
        return
    yield head
    first = {m.tool_call_id: m for m in reversed(results)}
    first |= {call.id: no_result(call, Outcome.INTERRUPTED, at) for call in _unanswered(group)}
    yield from (first[call.id] for call in head.tool_calls)


def _newest_turns(messages: tuple[Message, ...]) -> Iterator[tuple[Message, ...]]:
    """Yield the turns, newest first. Each starts with a user message, except perhaps the oldest."""
    end = len(messages)
    for start in range(end - 1, -1, -1):
        if start == 0 or messages[start].role is Role.USER:
            yield messages[start:end]
            end = start


def _is_shown(message: Message) -> bool:
    spoken = message.role in (Role.USER, Role.ASSISTANT) and words(message).strip()
    return bool(spoken or message.tool_calls)


def _exchange(turn: tuple[Message, ...]) -> Exchange:
    answers = [m.content for m in turn if m.role is Role.ASSISTANT and m.content.strip()]
    calls = Counter(call.name for m in turn for call in m.tool_calls)
    return Exchange(
        asked=next((words(m) for m in turn if m.role is Role.USER), ""),
        answered=answers[-1] if answers else "",
        tools=tuple(calls.most_common()),
    )
