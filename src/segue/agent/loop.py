"""One turn: the model speaks, tools run, the model goes on, until it has nothing more to do.

The loop keeps nothing. It is given a transcript and emits what is added to it, so that whoever
runs it can keep each Message as it comes. Interrupted or failed at any point, it first emits what
makes the transcript whole again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from segue.agent.approvals import Answer, Rules, Verdict, fingerprint
from segue.agent.models.base import Call, End, Model, Piece, Prompt, Stop, Text
from segue.agent.tools.base import Risk, Tool, ToolFailed, Workplace
from segue.core.errors import ModelError
from segue.core.events import (
    ApprovalNeeded,
    Event,
    MessageAdded,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnFailed,
    TurnInterrupted,
    UsageAdded,
)
from segue.core.transcript import INTERRUPTED, Message, Role, ToolCall, Transcript

MOST_STEPS = 40
CHARACTERS_PER_TOKEN = 4

DENIED = "[not allowed: the person said no to this call. Do not repeat it; ask, or do without.]"
TOO_MANY = "I stopped here because this took too many steps. Tell me to go on if I should."
CUT_SHORT = " […]"

T = TypeVar("T")
Approve = Callable[[ToolCall, str], Awaitable[Answer]]
"""Asks a person about one exact call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """What a turn is taken with. It keeps no session, and can take many turns at once."""

    model: Model
    system: str
    place: Workplace
    tools: Mapping[str, Tool[Any]]
    rules: Rules
    approve: Approve
    granted: frozenset[str] = frozenset()
    """Fingerprints of calls that the person has allowed for this session."""

    async def turn(self, transcript: Transcript, interrupt: asyncio.Event) -> AsyncGenerator[Event]:
        """Answer the last message of `transcript`. Set `interrupt` to stop at once."""
        turn = _Turn(self, transcript, interrupt)
        async for event in turn.run():
            yield event


class _Turn:
    def __init__(self, agent: Agent, transcript: Transcript, interrupt: asyncio.Event) -> None:
        self._agent = agent
        self._messages = list(transcript.repaired(_now()))
        self._interrupt = interrupt
        self._granted = set(agent.granted)

    async def run(self) -> AsyncGenerator[Event]:
        for _ in range(MOST_STEPS):
            calls: tuple[ToolCall, ...] = ()
            async for event in self._answer():
                if isinstance(event, MessageAdded):
                    calls = event.message.tool_calls
                yield event
                if isinstance(event, (TurnFailed, TurnInterrupted)):
                    return
            if not calls:
                yield TurnDone()
                return
            async for event in self._carry_out(calls):
                yield event
            if self._interrupt.is_set():
                yield TurnInterrupted()
                return
        yield self._add(Message(Role.ASSISTANT, TOO_MANY, _now(), tokens=_tokens(TOO_MANY)))
        yield TurnDone()

    # What the model says

    async def _answer(self) -> AsyncGenerator[Event]:
        """One answer of the model: text as it comes, then the Message."""
        text, calls, end = "", list[ToolCall](), None
        try:
            async for piece in self._pieces():
                match piece:
                    case Text(more):
                        text += more
                        yield TextDelta(more)
                    case Call(call):
                        calls.append(call)
                    case End():
                        end = piece
        except ModelError as error:
            over: Event = TurnFailed(error)
        else:
            over = TurnInterrupted()
        if end is not None:
            yield self._add(_said(text, calls, end))
            yield UsageAdded(end.usage)
            return
        if text:  # calls that came without an end are not made
            yield self._add(_said(text + CUT_SHORT))
        yield over

    async def _pieces(self) -> AsyncGenerator[Piece]:
        agent = self._agent
        prompt = Prompt(
            system=agent.system,
            messages=tuple(self._messages),
            tools=tuple(tool.spec for tool in agent.tools.values()),
        )
        stream = agent.model.stream(prompt)
        try:
            while True:
                piece = await self._unless_interrupted(anext(stream, None))
                if piece is None:
                    return
                yield piece
        finally:
            await stream.aclose()

    # What the tools do

    async def _carry_out(self, calls: tuple[ToolCall, ...]) -> AsyncGenerator[Event]:
        """Every call gets its result, in whatever way it ends."""
        for group in self._groups(calls):
            allowed: list[ToolCall] = []
            for call in group:
                async for event in self._ask(call, allowed):
                    yield event
            for call in allowed:
                yield ToolStarted(call)
            running = {asyncio.create_task(self._do(call)): call for call in allowed}
            while running:
                done = await self._first_done(set(running))
                for task in done:
                    call = running.pop(task)
                    result, ok = (INTERRUPTED, False) if task.cancelled() else task.result()
                    yield ToolFinished(call, result, ok)
                    yield self._add(_result(call, result))

    def _groups(self, calls: tuple[ToolCall, ...]) -> Iterator[list[ToolCall]]:
        """What runs together: calls that only read do; any other waits for those before it."""
        numbered = enumerate(calls)

        def group(item: tuple[int, ToolCall]) -> int:
            number, call = item
            tool = self._agent.tools.get(call.name)
            return -1 if tool is not None and tool.risk is Risk.READ else number

        for _, items in itertools.groupby(numbered, group):
            yield [call for _, call in items]

    async def _ask(self, call: ToolCall, allowed: list[ToolCall]) -> AsyncGenerator[Event]:
        """Add the call to `allowed`, or emit why it is not done."""
        agent = self._agent
        if self._interrupt.is_set():
            yield self._add(_result(call, INTERRUPTED))
            return
        tool = agent.tools.get(call.name)
        try:
            if tool is None:
                names = ", ".join(agent.tools)
                raise ToolFailed(f"There is no tool {call.name!r}. There are: {names}.")
            what = tool.tell(tool.parse(call), agent.place)
        except ToolFailed as error:
            yield ToolFinished(call, str(error), ok=False)
            yield self._add(_result(call, str(error)))
            return
        verdict = agent.rules.verdict(tool.risk, call, agent.place.cwd, self._granted)
        if verdict is Verdict.ASK:
            yield ApprovalNeeded(call, what)
            answer = await self._unless_interrupted(agent.approve(call, what))
            if answer is None or answer is Answer.NEVER:
                reason = INTERRUPTED if answer is None else DENIED
                yield ToolFinished(call, reason, ok=False)
                yield self._add(_result(call, reason))
                return
            if answer is Answer.SESSION:
                self._granted.add(fingerprint(call, agent.place.cwd))
        allowed.append(call)

    async def _do(self, call: ToolCall) -> tuple[str, bool]:
        tool = self._agent.tools[call.name]
        try:
            return await tool.work(tool.parse(call), self._agent.place), True
        except ToolFailed as error:
            return str(error), False

    # Stopping

    async def _unless_interrupted(self, work: Awaitable[T]) -> T | None:
        """What `work` gives; None, with the work cancelled, once somebody interrupts."""
        task = asyncio.ensure_future(work)
        await self._first_done({task})
        return None if task.cancelled() else task.result()

    async def _first_done(self, tasks: set[asyncio.Task[T]]) -> set[asyncio.Task[T]]:
        """Those of `tasks` that are done; once somebody interrupts, all of them are."""
        stop = asyncio.create_task(_wait(self._interrupt))
        try:
            await asyncio.wait({*tasks, stop}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _cancel(tasks)
            raise
        finally:
            stop.cancel()
        if self._interrupt.is_set():
            await _cancel(tasks)
        return {task for task in tasks if task.done()}

    def _add(self, message: Message) -> MessageAdded:
        self._messages.append(message)
        return MessageAdded(message)


async def _wait(interrupt: asyncio.Event) -> None:
    await interrupt.wait()


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _said(text: str, calls: list[ToolCall] | None = None, end: End | None = None) -> Message:
    spent = end.usage.output if end else 0
    if end is not None and end.stop is Stop.LENGTH:
        text += CUT_SHORT
    return Message(
        Role.ASSISTANT,
        text,
        _now(),
        tool_calls=tuple(calls or ()),
        tokens=spent or _tokens(text),
        extras=end.extras or None if end else None,
    )


def _result(call: ToolCall, text: str) -> Message:
    return Message(
        Role.TOOL,
        text,
        _now(),
        tool_call_id=call.id,
        tool_name=call.name,
        tokens=_tokens(text),
    )


def _tokens(text: str) -> int:
    """About how many tokens a text has, where nobody has counted them."""
    return len(text) // CHARACTERS_PER_TOKEN + 4


def _now() -> datetime:
    return datetime.now(UTC)
