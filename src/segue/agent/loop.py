"""One turn: the model answers, its tool calls run, and the model continues until it is done.

The loop stores nothing. It takes a transcript and emits every Message it adds, so that the caller
can save each one immediately. If the turn is interrupted or the model fails, the emitted messages
still form a complete transcript: every tool call has a result, in the order of the calls. If it is
paused, the tool calls at the end that have no result have not started, and another turn can run
them.
Cancelling the task or closing the generator early stops everything that the turn has started.
Repair the transcript with Transcript.unfinished in that case.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from segue.agent import summaries
from segue.agent.models.base import Call, End, Model, Piece, Prompt, Stop, Text
from segue.agent.tools.base import Proposal, Tool, ToolFailed, ToolInterrupted, Work, Workplace
from segue.agent.tools.web import fetchable
from segue.approvals.rules import Permission, Risk, Rules, fingerprint
from segue.core import events, provenance
from segue.core.approval import Answer, Approve, Policy
from segue.core.errors import ModelCutOff, ModelError, ModelRefused
from segue.core.provenance import Author, Provenance
from segue.core.session import Summary, Usage
from segue.core.text import tokens_in, whole
from segue.core.transcript import (
    Message,
    Outcome,
    Role,
    ToolCall,
    Transcript,
    display_text,
    no_result,
    words,
)

MAX_STEPS = 40
MAX_ANSWER = 8192
"""In tokens. Too many models reject a higher limit."""
MAX_CONTEXT = 200_000
"""In tokens. Each request is billed for its whole prompt, so this caps even the largest models."""
FILLED_SHARE = 0.9
"""The share of a model's context to fill. Our token count is only an estimate."""

TOO_MANY = "I stopped here because this took too many steps. Tell me to go on if I should."
CUT_SHORT = " […]"
MAX_ANSWER_LENGTH = 2_000_000
"""In characters. A model that does not stop is cut short; what is there can still be stored."""
UNANSWERED = "Not run: it needs the user's approval, and no user answered."

T = TypeVar("T")

logger = logging.getLogger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


async def _forget(fingerprint: str) -> None:
    """Discard the grant. The default, for turns whose grants end with the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The model, tools and rules for running turns. Stateless: many turns can run concurrently."""

    model: Model
    system: str
    place: Workplace
    tools: Mapping[str, Tool[Any]]
    rules: Rules
    approve: Approve
    background: Provenance = provenance.NOTHING
    """The authors of what `system` quotes. What the agent says under it may repeat that."""
    named: str = ""
    """What the user wrote outside of the transcript. Pages named there are fetched without asking.
    """
    granted: frozenset[str] = frozenset()
    """Fingerprints of the calls that the user has allowed for this session."""
    grant: Callable[[str], Awaitable[None]] = _forget
    """Saves the fingerprint of a call that the user allows for the session."""
    max_steps: int = MAX_STEPS
    """The maximum number of model requests per turn."""
    now: Callable[[], datetime] = _now

    @property
    def answer_tokens(self) -> int:
        """The maximum length of one answer, in tokens."""
        return min(MAX_ANSWER, self.model.context // 8)

    @property
    def room(self) -> int:
        """The number of tokens available for messages, as a conservative estimate."""
        specs = (msgspec.json.encode(tool.spec).decode() for tool in self.tools.values())
        context = min(self.model.context, MAX_CONTEXT)
        left = context - self.answer_tokens - tokens_in(self.system, *specs)
        return max(0, int(left * FILLED_SHARE))

    def turn(
        self,
        transcript: Transcript,
        interrupt: asyncio.Event,
        not_begun: Iterable[ToolCall] = (),
        pause: asyncio.Event | None = None,
    ) -> AsyncGenerator[events.Event]:
        """Answer the last message of `transcript`. Set `interrupt` to stop immediately, `pause` to
        stop at the next safe point: no tool runs, and no answer is half written.

        The last event is TurnDone, TurnFailed, TurnInterrupted or TurnPaused. `not_begun` are the
        tool calls at the end of the transcript that are known not to have started. The turn runs
        them first.
        """
        return _TurnRun(self, transcript, interrupt, not_begun, pause or asyncio.Event()).run()

    async def summarise(self, transcript: Transcript) -> Summary:
        """Summarise the conversation. Raise ModelError if the model fails."""
        return await summaries.summarise(self.model, transcript)

    async def title(self, transcript: Transcript) -> str:
        """Ask the model for a title. May be empty. Raise ModelError if the model fails."""
        return await summaries.title(self.model, transcript)

    def describe(self) -> str:
        """List the tools, and whether each of them asks first, in lines for the user."""
        return "\n".join(
            f"{name:<16}  {self.rules.shown(tool.risk):<13}"
            f"  {tool.description.partition('. ')[0].rstrip('.')}"
            for name, tool in self.tools.items()
        )


@dataclass(slots=True)
class _PartialAnswer:
    """The parts of an answer received so far."""

    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    end: End | None = None
    size: int = 0
    """Characters of the text."""
    _pieces: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def take(self, piece: Piece) -> str:
        """Add `piece` to the answer, and return the text in it to show to the user."""
        match piece:
            case Text(text):
                more = text if self.end else text[: MAX_ANSWER_LENGTH - self.size]
                self._pieces.append(more)
                self.size += len(more)
                return more
            case Call(call):
                self.calls.append(call)
            case End():
                self.end = piece
        return ""

    @property
    def cut_short(self) -> bool:
        return bool(self.text) if self.end is None else self.end.stop is Stop.LENGTH


@dataclass(frozen=True, slots=True)
class _Output:
    """The output of a tool call, as the model reads it."""

    text: str
    ok: bool = False
    interrupted: bool = False


_Result = _Output | Outcome
PreparedCall = tuple[ToolCall, Proposal | _Result]


class _TurnRun:
    def __init__(
        self,
        agent: Agent,
        transcript: Transcript,
        interrupt: asyncio.Event,
        not_begun: Iterable[ToolCall],
        pause: asyncio.Event,
    ) -> None:
        self._agent = agent
        self._not_begun = tuple(not_begun)
        repaired = transcript.repaired(agent.now()).messages
        self._messages = list(repaired[: len(repaired) - len(self._not_begun)])
        self._omitted = transcript.omitted
        self._specs = tuple(tool.spec for tool in agent.tools.values())
        self._room = agent.room
        self._interrupt = interrupt
        self._pause = pause
        self._granted = set(agent.granted)

    async def run(self) -> AsyncGenerator[events.Event]:
        calls = self._not_begun
        for _ in range(self._agent.max_steps):
            if not calls:
                if self._is_pausing():
                    yield events.TurnPaused()
                    return
                async with aclosing(self._answer()) as stream:
                    async for event in stream:
                        yield event
                        if isinstance(event, (events.TurnFailed, events.TurnInterrupted)):
                            return
                calls = self._messages[-1].tool_calls
                if not calls:
                    yield events.TurnDone()
                    return
            async with aclosing(self._carry_out(calls)) as stream:
                async for event in stream:
                    yield event
                    if isinstance(event, events.TurnPaused):
                        return
            calls = ()
            if self._interrupt.is_set():
                yield events.TurnInterrupted()
                return
        yield events.TextDelta(TOO_MANY)
        yield self._say(TOO_MANY)
        yield events.TurnDone()

    # Model

    async def _answer(self) -> AsyncGenerator[events.Event]:
        """Request one answer: emit its text as it streams, then the complete Message."""
        heard = _PartialAnswer()
        over: events.Event = events.TurnInterrupted()
        try:
            async with aclosing(self._pieces()) as pieces:
                async for piece in pieces:
                    if more := heard.take(piece):
                        yield events.TextDelta(more)
                    if heard.size >= MAX_ANSWER_LENGTH:
                        heard.end = End(stop=Stop.LENGTH, usage=Usage())
                        break
            if not self._interrupt.is_set():
                over = events.TurnFailed(ModelCutOff(provider=self._agent.model.name))
        except ModelError as error:
            over = events.TurnFailed(error)
        if heard.cut_short:
            yield events.TextDelta(heard.take(Text(CUT_SHORT)))
        if heard.end is None:
            if heard.text:  # without an End, tool calls are dropped
                yield self._say(heard.text)
            yield over
            return
        refused = heard.end.stop is Stop.REFUSED  # a refusal retracts the calls
        calls = () if refused else _with_own_ids(heard.calls)
        yield events.UsageAdded(heard.end.usage)
        yield self._say(heard.text, calls, heard.end)
        if refused and not heard.text:
            reason = "it gave no answer"
            yield events.TurnFailed(ModelRefused(provider=self._agent.model.name, reason=reason))

    async def _pieces(self) -> AsyncGenerator[Piece]:
        """Stream the model's answer until it ends or the turn is interrupted."""
        if self._interrupt.is_set():
            return
        shown = self._transcript().fitting(self._room)
        prompt = Prompt(
            system=self._agent.system,
            messages=tuple(structs.replace(m, content=words(m)) if m.outcome else m for m in shown),
            tools=self._specs,
            max_tokens=self._agent.answer_tokens,
        )
        heard: asyncio.Queue[Piece | ModelError | None] = asyncio.Queue()

        # A single task reads the whole stream, whichever task consumes the pieces.
        async def listen() -> None:
            try:
                async with aclosing(self._agent.model.stream(prompt)) as stream:
                    async for piece in stream:
                        heard.put_nowait(piece)
            except ModelError as error:
                heard.put_nowait(error)
            finally:
                heard.put_nowait(None)

        async with self._working(listen()) as (listening,):
            while piece := await heard.get():
                if self._interrupt.is_set():
                    return
                if isinstance(piece, ModelError):
                    raise piece
                yield piece
            await asyncio.wait({listening})
            if not listening.cancelled():
                listening.result()

    # Tools

    async def _carry_out(self, calls: tuple[ToolCall, ...]) -> AsyncGenerator[events.Event]:
        """Run the calls and emit exactly one result for each, however it ends, in the order of the
        calls, which the strictest providers require. If the turn is paused, the last event is
        TurnPaused, and the calls after it have not started."""
        left = calls
        while left:
            group = await self._group(left)
            left = left[len(group) :]
            if self._is_pausing():
                yield events.TurnPaused()
                return
            refused: dict[str, _Result] = {}
            works: dict[str, Work] = {}
            for call, proposal in group:
                if not isinstance(proposal, Proposal):
                    work = proposal
                elif (work := await self._allowed(call, proposal)) is None:
                    yield events.ApprovalNeeded(call, proposal.what)
                    work = await self._asked(call, proposal)
                    if work is None:  # the only call of its group
                        yield events.TurnPaused()
                        return
                if isinstance(work, _Result):
                    refused[call.id] = work
                elif work is not None:
                    works[call.id] = work
                    yield events.ToolStarted(call)
            doing = [self._do(call, works[call.id]) for call, _ in group if call.id in works]
            async with self._working(*doing) as tasks:
                running = dict(zip(works, tasks, strict=True))
                for call, _ in group:
                    result = refused.get(call.id) or await _result(running[call.id])
                    message = self._result_message(call, result)
                    is_ok = isinstance(result, _Output) and result.ok
                    yield events.ToolFinished(call, display_text(message), is_ok)
                    yield self._add(message)

    async def _group(self, calls: tuple[ToolCall, ...]) -> list[PreparedCall]:
        """The first of the calls that run concurrently.

        Consecutive calls that only read and need no approval share a group. Every other call waits
        for the calls before it, so nothing else is running while the user is asked.
        """
        reading: list[PreparedCall] = []
        for call in calls:
            proposal = await self._propose(call)
            if not (isinstance(proposal, Proposal) and self._only_reads(call, proposal)):
                return reading or [(call, proposal)]
            reading.append((call, proposal))
        return reading

    async def _propose(self, call: ToolCall) -> Proposal | _Result:
        """Return the proposal for the call, or its result if it cannot run."""
        if self._interrupt.is_set():
            return Outcome.NOT_BEGUN
        tool = self._agent.tools.get(call.name)
        if tool is None:
            names = ", ".join(self._agent.tools) or "none"
            return _Output(f"There is no tool {call.name!r}. There are: {names}.")
        try:
            return await tool.prepare(call, self._place())
        except ToolFailed as error:
            return _Output(str(error))
        except Exception as error:
            # A bug in one tool must not end the turn: the model gets the error as the result.
            logger.exception("tool failed unexpectedly tool=%s", call.name)
            return _broken(call, error)

    def _place(self) -> Workplace:
        agent = self._agent
        transcript = self._transcript()
        place = replace(agent.place, read=transcript.provenance | agent.background)
        if agent.rules.policy is Policy.AUTO:
            return place
        return replace(place, may_fetch=fetchable(transcript, agent.background, agent.named))

    def _only_reads(self, call: ToolCall, proposal: Proposal) -> bool:
        reads = self._agent.tools[call.name].risk is Risk.READ
        return reads and self._verdict(call, proposal) is Permission.ALLOWED

    def _verdict(self, call: ToolCall, proposal: Proposal) -> Permission:
        agent = self._agent
        risk = agent.tools[call.name].risk
        cwd = agent.place.cwd
        rules = agent.rules
        if proposal.always_asks:
            rules = replace(rules, policy=Policy.ASK, allowed_tools=())
        return rules.verdict(
            risk, call, cwd, self._granted, asks=proposal.asks, place=proposal.place
        )

    async def _allowed(self, call: ToolCall, proposal: Proposal) -> Work | None:
        """Return the work that may run without approval, or None if the user must be asked."""
        match self._verdict(call, proposal):
            case Permission.ALLOWED:
                return proposal.work
            case Permission.LISTED:
                return proposal.work if proposal.guarded is None else await proposal.guarded()
            case Permission.ASK:
                return None

    async def _asked(self, call: ToolCall, proposal: Proposal) -> Work | _Result | None:
        """Ask the user, and return the work if allowed, or the result otherwise. Return None if
        the turn is paused before the user has answered."""
        cwd = self._agent.place.cwd

        async def ask() -> Answer | None:
            if self._interrupt.is_set():
                return None
            return await self._agent.approve(
                call, proposal.what, fingerprint(call, cwd, proposal.exact)
            )

        async with self._working(ask()) as (asking,), self._working(self._pause.wait()) as pausing:
            await asyncio.wait({asking, *pausing}, return_when=asyncio.FIRST_COMPLETED)
            paused = self._is_pausing() and not asking.done()
        if paused and asking.cancelled():
            return None
        answer = None if asking.cancelled() else asking.result()
        if answer is None or self._interrupt.is_set():
            return Outcome.NOT_BEGUN
        if answer is Answer.NEVER:
            return Outcome.DENIED
        if answer is Answer.MISSING:
            return _Output(UNANSWERED)
        if answer is Answer.SESSION:
            lasting = fingerprint(call, cwd, proposal.place)
            self._granted.add(lasting)
            await self._agent.grant(lasting)
        return proposal.work

    async def _do(self, call: ToolCall, work: Work) -> _Result:
        if self._interrupt.is_set():
            return Outcome.NOT_BEGUN
        try:
            return _Output(await work(), ok=True)
        except ToolInterrupted as error:
            return _Output(str(error), interrupted=True)
        except ToolFailed as error:
            return _Output(str(error))
        except Exception as error:
            # A bug in one tool must not end the turn: the model gets the error as the result.
            logger.exception("tool failed unexpectedly tool=%s", call.name)
            return _broken(call, error)

    # Stopping

    def _is_pausing(self) -> bool:
        return self._pause.is_set() and not self._interrupt.is_set()

    @asynccontextmanager
    async def _working(
        self, *works: Coroutine[Any, Any, T]
    ) -> AsyncGenerator[list[asyncio.Task[T]]]:
        """Run `works` as tasks, cancelled when the turn is interrupted, and ended when the context
        exits."""
        tasks = [asyncio.create_task(work) for work in works]
        stop = asyncio.create_task(_cancel_on(self._interrupt, tasks))
        try:
            yield tasks
        finally:
            await _end(stop, *tasks)

    # Messages

    def _say(
        self, text: str, calls: Iterable[ToolCall] = (), end: End | None = None
    ) -> events.Event:
        calls = tuple(calls)
        spent = end.usage.output if end else 0
        said = Message(
            Role.ASSISTANT,
            text,
            self._agent.now(),
            tool_calls=calls,
            tokens=spent or tokens_in(text, *(call.arguments for call in calls)),
            extras=end.extras or None if end else None,
            provenance=provenance.AGENT | self._agent.background,
        )
        return self._add(said)

    def _result_message(self, call: ToolCall, result: _Result) -> Message:
        at = self._agent.now()
        if isinstance(result, Outcome):
            return no_result(call, result, at)
        text = whole(result.text)  # a file name, for example, may not be valid Unicode
        tool = self._agent.tools.get(call.name)
        author = Author.TOOL if tool is None else tool.author
        return Message(
            Role.TOOL,
            text,
            at,
            tool_call_id=call.id,
            tool_name=call.name,
            tokens=tokens_in(text),
            outcome=Outcome.INTERRUPTED if result.interrupted else None,
            provenance=frozenset({author}),
        )

    def _transcript(self) -> Transcript:
        return Transcript(tuple(self._messages), self._omitted)

    def _add(self, message: Message) -> events.MessageAdded:
        self._messages.append(message)
        return events.MessageAdded(message)


async def _cancel_on(interrupt: asyncio.Event, tasks: Iterable[asyncio.Task[Any]]) -> None:
    await interrupt.wait()
    for task in tasks:
        task.cancel()


async def _end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and wait for their end, even if this task is cancelled meanwhile: a tool
    that is abandoned before it ends cannot stop its processes."""
    for task in tasks:
        task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while left := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _result(task: asyncio.Task[_Result]) -> _Result:
    await asyncio.wait({task})
    return Outcome.INTERRUPTED if task.cancelled() else task.result()


def _broken(call: ToolCall, error: Exception) -> _Output:
    """The output after an unexpected exception in a tool: our bug, but the call needs a result."""
    return _Output(f"The tool {call.name} failed: {type(error).__name__}: {error}")


def _with_own_ids(calls: Iterable[ToolCall]) -> Iterable[ToolCall]:
    """The calls, with ids made unique within the answer."""
    taken: set[str] = set()
    for call in calls:
        ids = itertools.chain([call.id], (f"{call.id or 'call'}_{n}" for n in itertools.count(2)))
        own = next(name for name in ids if name and name not in taken)
        taken.add(own)
        yield call if own == call.id else ToolCall(own, call.name, call.arguments)
