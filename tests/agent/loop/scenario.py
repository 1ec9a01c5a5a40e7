"""Helpers for the tests of the agent loop.

They use the real clients against strict servers where the wire format matters, and the scripted
model elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from segue.agent import loop
from segue.agent.loop import Agent
from segue.agent.models import anthropic as anthropic_wire
from segue.agent.models import gemini as gemini_wire
from segue.agent.models import openai as openai_wire
from segue.agent.models.anthropic import AnthropicModel
from segue.agent.models.base import Model, Prompt
from segue.agent.models.gemini import GeminiModel
from segue.agent.models.hosted import Timeouts
from segue.agent.models.openai import OpenAIModel
from segue.agent.models.scripted import Say, Script, ScriptedModel
from segue.agent.tools.base import Proposal, Tool, Workplace
from segue.approvals.rules import Risk, Rules
from segue.core.approval import Answer, Description, Policy
from segue.core.errors import ModelBusy
from segue.core.events import (
    Event,
    MessageAdded,
    TextDelta,
)
from segue.core.transcript import Message, Role, ToolCall, Transcript
from segue.testing.http import Request, Response, serving
from tests.fakes.models import anthropic as anthropic_fake
from tests.fakes.models import gemini as gemini_fake
from tests.fakes.models import openai as openai_fake
from tests.fakes.models.anthropic import FakeAnthropic
from tests.fakes.models.gemini import FakeGemini
from tests.fakes.models.openai import FakeOpenAI
from tests.fakes.models.travel import AT_ONCE, Travel
from tests.harness.approver import Approver

AT = datetime(2026, 11, 1, tzinfo=UTC)
LATER = AT + timedelta(hours=1)
HI = Message(Role.USER, "hi", AT)
BUSY = ModelBusy(provider="It", reason="full")
PATIENCE = Timeouts(connect=5, silence=20, tries=2, first_pause=0.001)
FIRST, REST = "Sixteen letters,", "LATER nobody hears."

T = TypeVar("T")
Work = Callable[[], Awaitable[str]]


class Where(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str = ""


def tool(name: str, work: Work | str = "done", risk: Risk = Risk.READ) -> Tool[Where]:
    """A tool whose result is `work`, or what `work` returns."""

    async def do() -> str:
        return work if isinstance(work, str) else await work()

    return Tool(
        name=name,
        description=f"It can {name}.",
        risk=risk,
        arguments=Where,
        propose=lambda arguments, place: Proposal(
            what=Description(f"{name} {arguments.path} in {place.cwd}"), work=do
        ),
    )


def call(number: int | str, name: str, path: str = "") -> ToolCall:
    return ToolCall(f"c{number}", name, msgspec.json.encode({"path": path}).decode())


def agent(model: Model | Script, *tools: Tool[Any], **more: Any) -> Agent:
    usual: dict[str, Any] = {
        "model": ScriptedModel(model) if isinstance(model, Iterable) else model,
        "system": "Be brief.",
        "place": Workplace(cwd=Path("/somewhere")),
        "tools": {t.name: t for t in tools},
        "rules": Rules(policy=Policy.AUTO),
        "approve": Approver(),
        "now": lambda: AT,
    }
    return Agent(**{**usual, **more})


def ours() -> list[str]:
    """The loop's tasks that are still running."""
    coroutines = [task.get_coro() for task in asyncio.all_tasks()]
    codes = [getattr(c, "cr_code", None) for c in coroutines]
    return [code.co_qualname for code in codes if code and code.co_filename == loop.__file__]


async def take(
    with_: Agent,
    *before: Message,
    interrupt: asyncio.Event | None = None,
    pause: asyncio.Event | None = None,
    on: Callable[[Event], object] = lambda _: None,
) -> list[Event]:
    """Take a turn and return its events. Check that no task is left behind. Calls at the end of
    `before` have not started."""
    events: list[Event] = []
    transcript = Transcript(before or (HI,))
    turn = with_.turn(transcript, interrupt or asyncio.Event(), transcript.unanswered, pause)
    async with aclosing(turn):
        async for event in turn:
            events.append(event)
            on(event)
    assert ours() == []
    return events


def added(events: Iterable[Event]) -> tuple[Message, ...]:
    return tuple(e.message for e in events if isinstance(e, MessageAdded))


def results(events: Iterable[Event]) -> list[tuple[str | None, str]]:
    return [(m.tool_call_id, m.outcome or m.content) for m in added(events) if m.role is Role.TOOL]


def deltas(events: Iterable[Event]) -> str:
    return "".join(e.text for e in events if isinstance(e, TextDelta))


def kinds(events: Iterable[Event]) -> list[str]:
    """The class names of the events, with each run of TextDelta collapsed into one."""
    names = [type(e).__name__ for e in events]
    return [n for i, n in enumerate(names) if n != "TextDelta" or names[i - 1 : i] != ["TextDelta"]]


async def never() -> str:
    await asyncio.Event().wait()
    return "never"


# Rules for every transcript


async def refusals(messages: tuple[Message, ...], tools: Mapping[str, Tool[Any]]) -> list[bytes]:
    """The errors with which the three strict servers refuse a conversation."""
    prompt = Prompt(
        system="Be brief.", messages=messages, tools=tuple(t.spec for t in tools.values())
    )

    def post(target: str, body: bytes, **headers: str) -> Request:
        return Request("POST", target, {k.replace("_", "-"): v for k, v in headers.items()}, body)

    claude = anthropic_wire.build("claude-fake", prompt, thinking=False)
    gemini = gemini_wire.build("gemini-3-fake", prompt, signed=False)
    gpt = openai_wire.build(
        prompt, model="gpt-test", dialect=openai_wire.ServerDialect(limit="max_tokens")
    )
    answers: list[Response] = [
        await FakeAnthropic([anthropic_fake.Answer()])(
            post(
                "/v1/messages",
                msgspec.json.encode(claude),
                x_api_key="sk-ant-fake",
                anthropic_version="1",
            )
        ),
        await FakeGemini([gemini_fake.Answer()])(
            post(
                "/v1beta/models/gemini-3-fake:streamGenerateContent?alt=sse",
                msgspec.json.encode(gemini),
                x_goog_api_key="AIza-fake",
            )
        ),
        await FakeOpenAI([openai_fake.Say()])._handle(
            post("/v1/chat/completions", gpt, authorization="Bearer sk-test")
        ),
    ]
    return [a.body for a in answers if a.status != 200 and isinstance(a.body, bytes)]


async def assert_whole(
    events: list[Event], before: tuple[Message, ...] = (HI,), tools: Mapping[str, Tool[Any]] = {}
) -> None:
    """Check that the conversation needs no repair, and that every provider accepts it.

    Each must accept it as it is, and with one more user message.
    """
    whole = Transcript((*before, *added(events)))
    assert whole.repaired(LATER) == whole
    assert await refusals(whole.messages, tools) == []
    assert await refusals((*whole.messages, HI), tools) == []


# The three wire formats


@dataclass(frozen=True, slots=True)
class Wire:
    model: Model
    left: asyncio.Event
    """Set when the server has noticed that the client disconnected."""


Hook = Callable[[], object]


def _nothing() -> None: ...


def _script(answers: Iterable[T], asked: Hook) -> Callable[[dict[str, Any]], T]:
    """Return the answers in order.

    `asked` is called for each request, before its answer is sent.
    """
    left = iter(answers)

    def answer(_: dict[str, Any]) -> T:
        asked()
        return next(left)

    return answer


@asynccontextmanager
async def openai(
    *says: openai_fake.Answer, travel: Travel = AT_ONCE, asked: Hook = _nothing
) -> AsyncGenerator[Wire]:
    fake = FakeOpenAI(_script(says, asked), travel=travel)
    async with fake.serving() as url:
        model = OpenAIModel(
            name="openai/gpt-test", model="gpt-test", base_url=url, key="sk-test",
            setting="OPENAI_API_KEY", context=100_000, patience=PATIENCE,
        )  # fmt: skip
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(model.close)
            yield Wire(model, fake.left)


@asynccontextmanager
async def anthropic(
    *answers: anthropic_fake.Answer, asked: Hook = _nothing
) -> AsyncGenerator[Wire]:
    fake = FakeAnthropic(_script(answers, asked))
    async with serving(fake) as url:
        model = AnthropicModel(
            name="anthropic/claude-fake", model="claude-fake", key="sk-ant-fake", base_url=url,
            setting="ANTHROPIC_API_KEY", context=200_000, patience=PATIENCE,
        )  # fmt: skip
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(model.close)
            yield Wire(model, fake.left)
    assert fake.refusals == []


@asynccontextmanager
async def gemini(*answers: gemini_fake.Answer, asked: Hook = _nothing) -> AsyncGenerator[Wire]:
    fake = FakeGemini(_script(answers, asked))
    async with serving(fake) as url:
        model = GeminiModel(
            name="gemini/gemini-3-fake", model="gemini-3-fake", key="AIza-fake",
            base_url=f"{url}/v1beta", setting="GEMINI_API_KEY", context=1_000_000,
            patience=PATIENCE,
        )  # fmt: skip
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(model.close)
            yield Wire(model, fake.left)
    assert fake.refusals == []


def event_before(stream: bytes, words: str, mark: bytes) -> int:
    """The offset of the event that contains `words`."""
    return stream.rindex(mark, 0, stream.index(words.encode()))


def holding(
    wire: str, words: str, asked: Hook = _nothing
) -> contextlib.AbstractAsyncContextManager[Wire]:
    """A server that streams FIRST and REST, but from the event with `words` on sends only comments
    until the client disconnects.
    """
    if wire == "openai":
        say = openai_fake.Say(text=FIRST + REST)
        stream = openai_fake._stream(say, "gpt-test", usage=True)
        stop = event_before(stream, words, b"data:")
        return openai(say, travel=Travel(drip_after=stop), asked=asked)
    if wire == "anthropic":
        claude = anthropic_fake.Answer(content=[anthropic_fake.text(FIRST + REST)])
        stop = event_before(anthropic_fake.sse(claude), words, b"event:")
        return anthropic(replace(claude, travel=Travel(drip_after=stop)), asked=asked)
    answer = gemini_fake.Answer(chunks=[[gemini_fake.text(FIRST)], [gemini_fake.text(REST)]])
    stop = event_before(gemini_fake.sse(answer), words, b"data:")
    return gemini(replace(answer, travel=Travel(drip_after=stop)), asked=asked)


WIRES = pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini"])


RICH: list[Say | str] = [
    Say(text="One two", calls=(call(1, "read"), call(2, "read"), call(3, "write"))),
    Say(text="Three", calls=(call(4, "write"), call(5, "read"))),
    "Four five.",
]


def rich() -> Agent:
    person = Approver(*[Answer.ONCE] * 2)
    tools = (tool("read", "text"), tool("write", risk=Risk.WRITE))
    return agent(RICH, *tools, rules=Rules(), approve=person)
