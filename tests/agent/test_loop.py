"""The loop of a turn: with the real clients against strict servers where the wire matters, with
the scripted model elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.agent import loop
from segue.agent.approvals import Rules, fingerprint
from segue.agent.loop import CUT_SHORT, DENIED, NOT_BEGUN, TOO_MANY, Agent
from segue.agent.models.anthropic import AnthropicModel
from segue.agent.models.anthropic import request as anthropic_wire
from segue.agent.models.base import End, Model, Piece, Prompt, Stop, Text
from segue.agent.models.gemini import GeminiModel
from segue.agent.models.gemini import request as gemini_wire
from segue.agent.models.http import Patience
from segue.agent.models.openai import OpenAIModel
from segue.agent.models.openai import request as openai_wire
from segue.agent.models.scripted import Say, Script, ScriptedModel
from segue.agent.tools.base import Risk, Tool, ToolFailed, Workplace
from segue.agent.tools.shell import shell
from segue.core.approval import Answer, Policy
from segue.core.errors import ModelBusy, ModelCutOff, ModelRefused
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
from segue.core.session import Usage
from segue.core.transcript import INTERRUPTED, LEFT_OUT, Message, Role, ToolCall, Transcript
from segue.testing.http import Request, Response, serving
from segue.testing.models import anthropic as anthropic_fake
from segue.testing.models import gemini as gemini_fake
from segue.testing.models import openai as openai_fake
from segue.testing.models.anthropic import FakeAnthropic
from segue.testing.models.gemini import FakeGemini
from segue.testing.models.openai import FakeOpenAI
from segue.testing.models.travel import AT_ONCE, Travel

AT = datetime(2026, 11, 1, tzinfo=UTC)
LATER = AT + timedelta(hours=1)
HI = Message(Role.USER, "hi", AT)
BUSY = ModelBusy(provider="It", reason="full")
PATIENCE = Patience(connect=5, silence=20, tries=2, first_pause=0.001)
FIRST, REST = "Sixteen letters,", "LATER nobody hears."

T = TypeVar("T")
Work = Callable[[], Awaitable[str]]


class Where(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str = ""


def tool(name: str, work: Work | str = "done", risk: Risk = Risk.READ) -> Tool[Where]:
    """A tool that gives `work`, or what it comes to."""

    async def do(arguments: Where, place: Workplace) -> str:
        return work if isinstance(work, str) else await work()

    return Tool(
        name=name,
        description=f"It can {name}.",
        risk=risk,
        arguments=Where,
        work=do,
        tell=lambda arguments, place: f"{name} {arguments.path} in {place.cwd}",
    )


def call(number: int | str, name: str, path: str = "") -> ToolCall:
    return ToolCall(f"c{number}", name, msgspec.json.encode({"path": path}).decode())


class Person:
    """Answers what it is asked, in turn, and remembers it."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = iter(answers)
        self.asked: list[tuple[ToolCall, str]] = []

    async def __call__(self, asked: ToolCall, what: str) -> Answer:
        self.asked.append((asked, what))
        return next(self._answers)


def agent(model: Model | Script, *tools: Tool[Any], **more: Any) -> Agent:
    usual: dict[str, Any] = {
        "model": ScriptedModel(model) if isinstance(model, Iterable) else model,
        "system": "Be brief.",
        "place": Workplace(cwd=Path("/somewhere")),
        "tools": {t.name: t for t in tools},
        "rules": Rules(policy=Policy.AUTO),
        "approve": Person(),
        "now": lambda: AT,
    }
    return Agent(**{**usual, **more})


def ours() -> list[str]:
    """The tasks of the loop that are still there."""
    coroutines = [task.get_coro() for task in asyncio.all_tasks()]
    codes = [getattr(c, "cr_code", None) for c in coroutines]
    return [code.co_qualname for code in codes if code and code.co_filename == loop.__file__]


async def take(
    with_: Agent,
    *before: Message,
    interrupt: asyncio.Event | None = None,
    on: Callable[[Event], object] = lambda _: None,
) -> list[Event]:
    """The events of a turn, which leaves nothing behind."""
    events: list[Event] = []
    turn = with_.turn(Transcript(before or (HI,)), interrupt or asyncio.Event())
    async with aclosing(turn):
        async for event in turn:
            events.append(event)
            on(event)
    assert ours() == []
    return events


def added(events: Iterable[Event]) -> tuple[Message, ...]:
    return tuple(e.message for e in events if isinstance(e, MessageAdded))


def results(events: Iterable[Event]) -> list[tuple[str | None, str]]:
    return [(m.tool_call_id, m.content) for m in added(events) if m.role is Role.TOOL]


def deltas(events: Iterable[Event]) -> str:
    return "".join(e.text for e in events if isinstance(e, TextDelta))


def kinds(events: Iterable[Event]) -> list[str]:
    """The names of the events, a run of TextDeltas as one."""
    names = [type(e).__name__ for e in events]
    return [n for i, n in enumerate(names) if n != "TextDelta" or names[i - 1 : i] != ["TextDelta"]]


async def never() -> str:
    await asyncio.Event().wait()
    return "never"


# What every transcript has to be


async def refusals(messages: tuple[Message, ...], tools: Mapping[str, Tool[Any]]) -> list[bytes]:
    """What the three strict servers say against a conversation."""
    prompt = Prompt(
        system="Be brief.", messages=messages, tools=tuple(t.spec for t in tools.values())
    )

    def post(target: str, body: bytes, **headers: str) -> Request:
        return Request("POST", target, {k.replace("_", "-"): v for k, v in headers.items()}, body)

    claude = anthropic_wire.build("claude-fake", prompt, thinking=False)
    gemini = gemini_wire.build("gemini-3-fake", prompt, signed=False)
    gpt = openai_wire.build(
        prompt, model="gpt-test", dialect=openai_wire.Dialect(limit="max_tokens")
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
    """The conversation needs no repair, and everybody would take it, with or without one more
    word of the person's."""
    whole = Transcript((*before, *added(events)))
    assert whole.repaired(LATER) == whole
    assert await refusals(whole.messages, tools) == []
    assert await refusals((*whole.messages, HI), tools) == []


# The three wires


@dataclass(frozen=True, slots=True)
class Wire:
    model: Model
    left: asyncio.Event
    """Set when the server has noticed that the client is gone."""


Hook = Callable[[], object]


def _nothing() -> None: ...


def _script(answers: Iterable[T], asked: Hook) -> Callable[[dict[str, Any]], T]:
    """The answers in turn; `asked` is called when a request has come and nothing has gone."""
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


def _event_before(stream: bytes, words: str, mark: bytes) -> int:
    """Where the event that brings `words` begins."""
    return stream.rindex(mark, 0, stream.index(words.encode()))


def holding(
    wire: str, words: str, asked: Hook = _nothing
) -> contextlib.AbstractAsyncContextManager[Wire]:
    """A server that answers FIRST and REST, but stays at comments from the event with `words` on,
    for as long as the client stays."""
    if wire == "openai":
        say = openai_fake.Say(text=FIRST + REST)
        stream = openai_fake._stream(say, "gpt-test", usage=True)
        stop = _event_before(stream, words, b"data:")
        return openai(say, travel=Travel(drip_after=stop), asked=asked)
    if wire == "anthropic":
        claude = anthropic_fake.Answer(content=[anthropic_fake.text(FIRST + REST)])
        stop = _event_before(anthropic_fake.sse(claude), words, b"event:")
        return anthropic(replace(claude, travel=Travel(drip_after=stop)), asked=asked)
    answer = gemini_fake.Answer(chunks=[[gemini_fake.text(FIRST)], [gemini_fake.text(REST)]])
    stop = _event_before(gemini_fake.sse(answer), words, b"data:")
    return gemini(replace(answer, travel=Travel(drip_after=stop)), asked=asked)


WIRES = pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini"])


# What the model says


async def test_text_streams_and_then_becomes_one_message():
    usage = Usage(input=5, output=3)
    events = await take(agent([Say(text="Good day to you.", usage=usage)]))
    message = Message(Role.ASSISTANT, "Good day to you.", AT, tokens=3)
    assert events == [
        TextDelta("Good "),
        TextDelta("day "),
        TextDelta("to "),
        TextDelta("you."),
        UsageAdded(usage),
        MessageAdded(message),
        TurnDone(),
    ]


async def test_text_is_emitted_as_it_comes_and_not_at_the_end():
    seen = asyncio.Event()

    class Waiting(ScriptedModel):
        async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
            yield Text("first")
            await seen.wait()
            yield Text(" second")
            yield End(stop=Stop.DONE)

    events = await take(agent(Waiting()), on=lambda _: seen.set())
    assert deltas(events) == "first second"


async def test_a_turn_that_outgrows_its_model_leaves_out_the_oldest_output_and_loses_nothing():
    steps = 30
    model = ScriptedModel([*(call(n, "read") for n in range(steps)), "Done."], context=8192)
    events = await take(agent(model, tool("read", "long " * 400), most_steps=steps + 1))
    shown = model.prompts[-1]
    assert sum(m.tokens for m in shown.messages) < 8192 - shown.max_tokens
    assert shown.messages[2].content == LEFT_OUT
    assert shown.messages[-1].content == "long " * 400
    assert [m.tool_call_id for m in shown.messages[2::2]] == [f"c{n}" for n in range(steps)]
    assert LEFT_OUT not in {content for _, content in results(events)}


async def test_an_answer_without_words_is_a_message_too():
    events = await take(agent([""]))
    assert kinds(events) == ["UsageAdded", "MessageAdded", "TurnDone"]
    await assert_whole(events)


async def test_an_answer_that_ran_out_of_room_says_so_in_the_stream_and_in_the_message():
    events = await take(agent([Say(text="So long", stop=Stop.LENGTH)]))
    assert deltas(events) == added(events)[0].content == "So long" + CUT_SHORT
    assert events[-1] == TurnDone()


async def test_a_refusal_without_a_word_is_not_silence():
    events = await take(agent([Say(stop=Stop.REFUSED)]))
    assert isinstance(events[-1], TurnFailed)
    assert isinstance(events[-1].error, ModelRefused)
    await assert_whole(events)
    events = await take(agent([Say(text="I would rather not.", stop=Stop.REFUSED)]))
    assert events[-1] == TurnDone()


async def test_what_a_refused_answer_wanted_to_do_is_not_done():
    refused = Say(text="I would", calls=(call(1, "read"),), stop=Stop.REFUSED)
    events = await take(agent([refused], tool("read")))
    assert (kinds(events)[-1], results(events)) == ("TurnDone", [])
    assert added(events)[0].tool_calls == ()


async def test_an_error_before_the_first_word_adds_nothing():
    assert await take(agent([BUSY])) == [TurnFailed(BUSY)]


async def test_an_error_in_the_middle_keeps_what_was_said():
    events = await take(agent([Say(text="I was just", error=BUSY)]))
    assert [m.content for m in added(events)] == ["I was just" + CUT_SHORT]
    assert deltas(events) == "I was just" + CUT_SHORT
    assert events[-1] == TurnFailed(BUSY)
    await assert_whole(events)


async def test_an_error_after_a_tool_keeps_the_tools_result():
    events = await take(agent([call(1, "read"), BUSY], tool("read", "text")))
    assert results(events) == [("c1", "text")]
    assert events[-1] == TurnFailed(BUSY)
    await assert_whole(events)


async def test_a_stream_that_just_stops_is_a_failure_and_its_calls_are_not_made():
    class Stopping(ScriptedModel):
        async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
            async for piece in super().stream(prompt):
                if not isinstance(piece, End):
                    yield piece

    events = await take(agent(Stopping([Say(text="Look:", calls=(call(1, "read"),))])))
    assert kinds(events) == ["TextDelta", "MessageAdded", "TurnFailed"]
    assert isinstance(events[-1], TurnFailed)
    assert isinstance(events[-1].error, ModelCutOff)
    assert added(events)[0].tool_calls == ()


@WIRES
async def test_a_cut_connection_ends_the_turn_with_what_was_said(wire: str):
    cut = Travel(hang_up_after=0)
    if wire == "openai":
        say = openai_fake.Say(text=FIRST + REST)
        stop = _event_before(openai_fake._stream(say, "gpt-test", usage=True), "LATER", b"data:")
        server = openai(say, travel=Travel(hang_up_after=stop))
    elif wire == "anthropic":
        claude = anthropic_fake.Answer(content=[anthropic_fake.text(FIRST + REST)])
        stop = _event_before(anthropic_fake.sse(claude), "LATER", b"event:")
        server = anthropic(replace(claude, travel=replace(cut, hang_up_after=stop)))
    else:
        told = gemini_fake.Answer(chunks=[[gemini_fake.text(FIRST)], [gemini_fake.text(REST)]])
        stop = _event_before(gemini_fake.sse(told), "LATER", b"data:")
        server = gemini(replace(told, travel=replace(cut, hang_up_after=stop)))
    async with server as at:
        events = await take(agent(at.model))
    assert isinstance(events[-1], TurnFailed)
    assert isinstance(events[-1].error, ModelCutOff)
    assert [m.content for m in added(events)] == [FIRST + CUT_SHORT]
    await assert_whole(events)


# What the tools do


async def test_a_tool_runs_and_its_result_goes_back_to_the_model():
    model = ScriptedModel(
        [Say(text="Let me see.", calls=(call(1, "read", "a"),)), "It says hello."]
    )
    with_ = agent(model, tool("read", "hello"))
    events = await take(with_)
    assert kinds(events) == [
        "TextDelta", "UsageAdded", "MessageAdded",
        "ToolStarted", "ToolFinished", "MessageAdded",
        "TextDelta", "UsageAdded", "MessageAdded",
        "TurnDone",
    ]  # fmt: skip
    assert ToolFinished(call(1, "read", "a"), "hello", ok=True) in events
    assert model.prompts[1].messages == (HI, *added(events)[:2])
    assert model.prompts[0].tools == (with_.tools["read"].spec,)
    await assert_whole(events, tools=with_.tools)


async def test_tools_that_read_run_at_the_same_time():
    both = asyncio.Barrier(2)

    async def meet() -> str:
        await both.wait()
        return "met"

    calls = (call(1, "one"), call(2, "two"))
    events = await take(agent([Say(calls=calls), "Done."], tool("one", meet), tool("two", meet)))
    assert results(events) == [("c1", "met"), ("c2", "met")]


async def test_results_come_in_the_order_of_the_calls_whichever_ends_first():
    second_done = asyncio.Event()

    async def slow() -> str:
        await second_done.wait()
        return "slow"

    async def quick() -> str:
        second_done.set()
        return "quick"

    calls = (call(1, "slow"), call(2, "nothing"), call(3, "quick"), ToolCall("c4", "quick", "{"))
    tools = (tool("slow", slow), tool("quick", quick), tool("nothing"))
    events = await take(agent([Say(calls=calls), "Done."], *tools))
    assert [e.call.id for e in events if isinstance(e, ToolFinished)] == ["c1", "c2", "c3", "c4"]
    assert [name for name, _ in results(events)] == ["c1", "c2", "c3", "c4"]
    await assert_whole(events, tools={t.name: t for t in tools})


async def test_tools_that_write_run_one_after_another_in_order():
    steps: list[str] = []

    def writing(name: str) -> Work:
        async def work() -> str:
            steps.append(f"{name} begins")
            for _ in range(3):
                await asyncio.sleep(0)
            steps.append(f"{name} ends")
            return "ok"

        return work

    names = ("write", "look", "run")
    risks = (Risk.WRITE, Risk.READ, Risk.RUN)
    tools = [tool(n, writing(n), risk) for n, risk in zip(names, risks, strict=True)]
    calls = tuple(call(i, name) for i, name in enumerate(names))
    await take(agent([Say(calls=calls), "Done."], *tools))
    assert steps == [f"{name} {what}" for name in names for what in ("begins", "ends")]


async def test_every_call_gets_one_result_even_when_the_model_numbers_them_alike():
    calls = tuple(ToolCall(i, "read", "{}") for i in ("a", "a", "", "", "a_2"))
    with_ = agent([Say(calls=calls), "Done."], tool("read"))
    events = await take(with_)
    ids = [c.id for c in added(events)[0].tool_calls]
    assert len(set(ids)) == 5
    assert all(ids)
    assert [name for name, _ in results(events)] == ids
    await assert_whole(events, tools=with_.tools)


async def test_an_unknown_tool_tells_the_model_which_there_are():
    model = ScriptedModel([call(1, "fly"), "I cannot."])
    events = await take(agent(model, tool("read"), tool("write")))
    told = "There is no tool 'fly'. There are: read, write."
    assert results(events) == [("c1", told)]
    assert ToolFinished(call(1, "fly"), told, ok=False) in events
    assert not any(isinstance(e, ToolStarted) for e in events)
    assert model.prompts[1].messages[-1].content == told
    assert events[-1] == TurnDone()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"path": 3}', "Expected `str`, got `int` - at `$.path`"),
        ('{"where": "x"}', "unknown field `where`"),
        ('{"path": ', "truncated"),
        ("[]", "Expected `object`, got `array`"),
    ],
)
async def test_arguments_that_do_not_fit_tell_the_model_why(arguments: str, said: str):
    with_ = agent([ToolCall("c1", "read", arguments), "Oh."], tool("read"))
    events = await take(with_)
    ((_, told),) = results(events)
    assert said in told
    assert "read" in told
    assert events[-1] == TurnDone()
    await assert_whole(events, tools=with_.tools)


async def test_a_tool_that_fails_tells_the_model_why():
    async def fail() -> str:
        raise ToolFailed("There is no file a. There are b and c.")

    events = await take(agent([call(1, "read", "a"), "Then b."], tool("read", fail)))
    told = "There is no file a. There are b and c."
    assert results(events) == [("c1", told)]
    assert ToolFinished(call(1, "read", "a"), told, ok=False) in events


async def test_a_broken_tool_is_written_down_and_leaves_the_others_alone(
    caplog: pytest.LogCaptureFixture,
):
    async def fail() -> str:
        raise ZeroDivisionError("ours")

    calls = (call(1, "bad"), call(2, "good"))
    events = await take(agent([Say(calls=calls), "Hm."], tool("bad", fail), tool("good")))
    assert results(events) == [
        ("c1", "The tool bad failed: ZeroDivisionError: ours"),
        ("c2", "done"),
    ]
    assert events[-1] == TurnDone()
    assert "ZeroDivisionError: ours" in caplog.text


async def test_a_tool_that_cannot_say_what_it_would_do_is_not_run(
    caplog: pytest.LogCaptureFixture,
):
    def tell(arguments: Where, place: Workplace) -> str:
        raise ValueError("embedded null byte")

    mute = replace(tool("write", risk=Risk.WRITE), tell=tell)
    events = await take(agent([call(1, "write"), "Oh."], mute))
    assert results(events) == [("c1", "The tool write failed: ValueError: embedded null byte")]
    assert "embedded null byte" in caplog.text


async def test_what_nobody_could_send_on_is_kept_out_of_the_transcript():
    """As in the name of a file that is no Unicode."""
    with_ = agent([call(1, "list"), "Odd."], tool("list", "caf\udce9.txt"))
    events = await take(with_)
    assert results(events) == [("c1", "caf\ufffd.txt")]
    assert ToolFinished(call(1, "list"), "caf\ufffd.txt", ok=True) in events
    await assert_whole(events, tools=with_.tools)


async def test_a_turn_takes_no_more_than_its_steps_and_says_so():
    model = ScriptedModel(call(i, "read") for i in range(100))
    with_ = agent(model, tool("read"), most_steps=3)
    events = await take(with_)
    assert len(model.prompts) == len(results(events)) == 3
    assert added(events)[-1].content == deltas(events) == TOO_MANY
    assert events[-1] == TurnDone()
    await assert_whole(events, tools=with_.tools)


async def test_a_turn_is_bounded_without_anybody_asking():
    model = ScriptedModel(call(i, "read") for i in range(1000))
    await take(agent(model, tool("read")))
    assert len(model.prompts) == loop.MOST_STEPS


# Approval


async def test_a_person_is_asked_with_the_exact_text_and_a_yes_is_for_once():
    person = Person(Answer.ONCE, Answer.NEVER)
    again = (call(1, "write", "a"), call(2, "write", "a"))
    write = tool("write", risk=Risk.WRITE)
    with_ = agent([Say(calls=again), "Done."], write, rules=Rules(), approve=person)
    events = await take(with_)
    what = "write a in /somewhere"
    assert person.asked == [(again[0], what), (again[1], what)]
    assert [e for e in events if isinstance(e, ApprovalNeeded)] == [
        ApprovalNeeded(again[0], what),
        ApprovalNeeded(again[1], what),
    ]
    assert results(events) == [("c1", "done"), ("c2", DENIED)]
    assert [e.call.id for e in events if isinstance(e, ToolStarted)] == ["c1"]
    await assert_whole(events, tools=with_.tools)


async def test_a_yes_for_the_session_is_for_the_same_call_and_for_no_other():
    person = Person(Answer.SESSION, Answer.NEVER)
    script = [
        Say(calls=(call(1, "write", "a"), call(2, "write", "a"))),
        Say(calls=(ToolCall("c3", "write", '{ "path" : "a" }'), call(4, "write", "b"))),
        "Done.",
    ]
    with_ = agent(script, tool("write", risk=Risk.WRITE), rules=Rules(), approve=person)
    events = await take(with_)
    assert [asked.id for asked, _ in person.asked] == ["c1", "c4"]
    assert results(events) == [("c1", "done"), ("c2", "done"), ("c3", "done"), ("c4", DENIED)]


async def test_what_was_allowed_for_the_session_is_given_to_the_next_turn_by_whoever_keeps_it():
    person = Person(Answer.SESSION, Answer.NEVER)
    write = tool("write", risk=Risk.WRITE)
    calls = [call(number, "write", "a") for number in (1, 2, 3)]
    script = [step for made in calls for step in (made, "Done.")]
    with_ = agent(script, write, rules=Rules(), approve=person)
    await take(with_)
    events = await take(with_)
    assert results(events) == [("c2", DENIED)]
    granted = frozenset({fingerprint(call(1, "write", "a"), Path("/somewhere"))})
    events = await take(replace(with_, granted=granted))
    assert results(events) == [("c3", "done")]
    assert len(person.asked) == 2


async def test_tools_that_read_ask_nobody():
    person = Person()
    await take(agent([call(1, "read"), "Done."], tool("read"), rules=Rules(), approve=person))
    assert person.asked == []


async def test_a_person_who_cannot_be_asked_stops_the_turn_and_nothing_is_run():
    ran: list[str] = []

    async def run() -> str:
        ran.append("ran")
        return ""

    async def unreachable(asked: ToolCall, what: str) -> Answer:
        raise ConnectionError("nobody there")

    with_ = agent([call(1, "run")], tool("run", run, Risk.RUN), rules=Rules(), approve=unreachable)
    with pytest.raises(ConnectionError):
        await take(with_)
    assert (ran, ours()) == ([], [])


# Interruptions


@WIRES
async def test_interrupting_the_stream_drops_the_connection_and_keeps_what_was_said(wire: str):
    interrupt, heard = asyncio.Event(), list[Event]()

    def on(event: Event) -> None:
        heard.append(event)
        if deltas(heard) == FIRST:
            interrupt.set()

    async with holding(wire, "LATER") as at:
        events = await take(agent(at.model), interrupt=interrupt, on=on)
        async with asyncio.timeout(10):
            await at.left.wait()
    assert events[-1] == TurnInterrupted()
    assert [m.content for m in added(events)] == [FIRST + CUT_SHORT]
    await assert_whole(events)


@WIRES
async def test_interrupting_before_the_first_word_drops_the_connection_and_adds_nothing(wire: str):
    interrupt = asyncio.Event()
    async with holding(wire, "Sixteen", asked=interrupt.set) as at:
        assert await take(agent(at.model), interrupt=interrupt) == [TurnInterrupted()]
        async with asyncio.timeout(10):
            await at.left.wait()


async def test_an_interruption_before_the_turn_asks_no_model():
    model, interrupt = ScriptedModel(["never"]), asyncio.Event()
    interrupt.set()
    assert await take(agent(model), interrupt=interrupt) == [TurnInterrupted()]
    assert model.prompts == []


async def test_interrupting_a_tool_cancels_it_and_begins_no_other():
    interrupt, ended, begun = asyncio.Event(), asyncio.Event(), list[str]()

    async def work() -> str:
        interrupt.set()
        try:
            return await never()
        finally:
            ended.set()

    async def later() -> str:
        begun.append("later")
        return "?"

    tools = (tool("read", "text"), tool("hang", work), tool("write", later, Risk.WRITE))
    calls = (call(1, "read"), call(2, "hang"), call(3, "write"), call(4, "fly"))
    with_ = agent([Say(text="Look:", calls=calls)], *tools)
    events = await take(with_, interrupt=interrupt)
    assert events[-1] == TurnInterrupted()
    assert results(events) == [
        ("c1", "text"),
        ("c2", INTERRUPTED),
        ("c3", NOT_BEGUN),
        ("c4", NOT_BEGUN),
    ]
    assert ended.is_set()
    assert begun == []
    await assert_whole(events, tools=with_.tools)


async def test_a_tool_that_ends_well_though_interrupted_keeps_its_result():
    interrupt = asyncio.Event()

    async def work() -> str:
        interrupt.set()
        with contextlib.suppress(asyncio.CancelledError):
            await never()
        return "saved half of it"

    events = await take(agent([call(1, "read")], tool("read", work)), interrupt=interrupt)
    assert results(events) == [("c1", "saved half of it")]
    assert events[-1] == TurnInterrupted()


async def test_interrupting_a_command_ends_all_that_it_started(tmp_path: Path):
    started, alive = tmp_path / "started", tmp_path / "alive"
    os.mkfifo(started)
    os.mkfifo(alive)
    command = f"exec 3>{alive}; sleep 300 & sleep 300 & echo here >{started}; wait"
    arguments = msgspec.json.encode({"command": command}).decode()
    with_ = agent(
        [ToolCall("c1", "shell", arguments)],
        shell({"PATH": os.defpath}),
        place=Workplace(cwd=tmp_path),
    )
    interrupt = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        # Whoever was started holds this pipe open: it ends when they all have.
        all_gone = group.create_task(asyncio.to_thread(alive.read_bytes))
        here = group.create_task(asyncio.to_thread(started.read_text))
        here.add_done_callback(lambda _: interrupt.set())
        events = await take(with_, interrupt=interrupt)
        assert await all_gone == b""
    assert events[-1] == TurnInterrupted()
    assert results(events) == [("c1", INTERRUPTED)]
    await assert_whole(events, tools=with_.tools)


async def test_interrupting_the_wait_for_an_approval_withdraws_the_question():
    interrupt, withdrawn, ran = asyncio.Event(), asyncio.Event(), list[str]()

    async def approve(asked: ToolCall, what: str) -> Answer:
        interrupt.set()
        try:
            await never()
        finally:
            withdrawn.set()
        return Answer.ONCE

    async def run() -> str:
        ran.append("ran")
        return ""

    with_ = agent([call(1, "run")], tool("run", run, Risk.RUN), rules=Rules(), approve=approve)
    events = await take(with_, interrupt=interrupt)
    assert kinds(events)[-4:] == [
        "ApprovalNeeded",
        "ToolFinished",
        "MessageAdded",
        "TurnInterrupted",
    ]
    assert results(events) == [("c1", NOT_BEGUN)]
    assert withdrawn.is_set()
    assert ran == []
    await assert_whole(events, tools=with_.tools)


async def test_a_yes_that_comes_with_the_interruption_runs_nothing():
    interrupt, ran = asyncio.Event(), list[str]()

    async def approve(asked: ToolCall, what: str) -> Answer:
        interrupt.set()
        return Answer.ONCE

    async def run() -> str:
        ran.append("ran")
        return ""

    with_ = agent([call(1, "run")], tool("run", run, Risk.RUN), rules=Rules(), approve=approve)
    events = await take(with_, interrupt=interrupt)
    assert results(events) == [("c1", NOT_BEGUN)]
    assert ran == []
    assert "ToolStarted" not in kinds(events)
    assert events[-1] == TurnInterrupted()


async def test_an_interruption_on_seeing_the_question_asks_nobody():
    interrupt, person = asyncio.Event(), Person()

    def on(event: Event) -> None:
        if isinstance(event, ApprovalNeeded):
            interrupt.set()

    with_ = agent([call(1, "run")], tool("run", risk=Risk.RUN), rules=Rules(), approve=person)
    events = await take(with_, interrupt=interrupt, on=on)
    assert results(events) == [("c1", NOT_BEGUN)]
    assert person.asked == []


async def test_an_interruption_on_seeing_the_tool_start_comes_in_time():
    interrupt, ran = asyncio.Event(), list[str]()

    async def run() -> str:
        ran.append("ran")
        return ""

    def on(event: Event) -> None:
        if isinstance(event, ToolStarted):
            interrupt.set()

    with_ = agent([call(1, "run")], tool("run", run, Risk.RUN))
    events = await take(with_, interrupt=interrupt, on=on)
    assert results(events) == [("c1", NOT_BEGUN)]
    assert ran == []


async def test_interrupting_between_two_steps_asks_the_model_no_more():
    interrupt = asyncio.Event()

    async def work() -> str:
        interrupt.set()
        return "text"

    model = ScriptedModel([call(1, "read"), "never"])
    with_ = agent(model, tool("read", work))
    events = await take(with_, interrupt=interrupt)
    assert results(events) == [("c1", "text")]
    assert events[-1] == TurnInterrupted()
    assert len(model.prompts) == 1
    await assert_whole(events, tools=with_.tools)


RICH: list[Say | str] = [
    Say(text="One two", calls=(call(1, "read"), call(2, "read"), call(3, "write"))),
    Say(text="Three", calls=(call(4, "write"), call(5, "read"))),
    "Four five.",
]


def rich() -> Agent:
    person = Person(*[Answer.ONCE] * 2)
    tools = (tool("read", "text"), tool("write", risk=Risk.WRITE))
    return agent(RICH, *tools, rules=Rules(), approve=person)


async def test_an_interruption_at_any_event_leaves_a_whole_transcript():
    count = len(await take(rich()))
    for at in range(count):
        interrupt, seen, with_ = asyncio.Event(), list[Event](), rich()

        def on(event: Event, at: int = at) -> None:
            seen.append(event)  # noqa: B023
            if len(seen) == at + 1:  # noqa: B023
                interrupt.set()  # noqa: B023

        events = await take(with_, interrupt=interrupt, on=on)
        # Once the last answer is there, nothing is left to interrupt.
        over = TurnDone() if at >= count - 3 else TurnInterrupted()
        assert events[-1] == over, events[at]
        await assert_whole(events, tools=with_.tools)


# Whoever does not wait for the end


async def test_cancelling_the_task_ends_the_tools_and_leaves_no_task():
    running, ended = asyncio.Event(), list[str]()

    async def work() -> str:
        running.set()
        try:
            return await never()
        finally:
            ended.append("ended")

    calls = (call(1, "read"), call(2, "read"))
    turn = asyncio.create_task(take(agent([Say(calls=calls)], tool("read", work))))
    await running.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert ended == ["ended", "ended"]
    assert ours() == []


async def test_cancelling_again_does_not_leave_a_tool_behind_that_is_cleaning_up():
    running, cleaning, cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> str:
        running.set()
        try:
            return await never()
        finally:
            cleaning.set()
            await cleaned.wait()

    turn = asyncio.create_task(take(agent([call(1, "read")], tool("read", work))))
    await running.wait()
    turn.cancel()
    await cleaning.wait()
    turn.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not turn.done()
    cleaned.set()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert ours() == []


async def test_cancelling_the_task_ends_the_commands_processes(tmp_path: Path):
    started, alive = tmp_path / "started", tmp_path / "alive"
    os.mkfifo(started)
    os.mkfifo(alive)
    command = f"exec 3>{alive}; sleep 300 & echo here >{started}; wait"
    arguments = msgspec.json.encode({"command": command}).decode()
    place = Workplace(cwd=tmp_path)
    script = [ToolCall("c1", "shell", arguments)]
    all_gone = asyncio.create_task(asyncio.to_thread(alive.read_bytes))
    turn = asyncio.create_task(take(agent(script, shell({"PATH": os.defpath}), place=place)))
    await asyncio.to_thread(started.read_text)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert await all_gone == b""


@WIRES
async def test_cancelling_the_task_drops_the_connection(wire: str):
    heard = asyncio.Event()
    async with holding(wire, "LATER") as at:
        turn = asyncio.create_task(take(agent(at.model), on=lambda _: heard.set()))
        await heard.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        async with asyncio.timeout(10):
            await at.left.wait()
    assert ours() == []


@WIRES
async def test_closing_the_generator_drops_the_connection(wire: str):
    async with holding(wire, "LATER") as at:
        turn = agent(at.model).turn(Transcript((HI,)), asyncio.Event())
        assert isinstance(await anext(turn), TextDelta)
        await turn.aclose()
        assert ours() == []
        async with asyncio.timeout(10):
            await at.left.wait()


async def test_closing_the_generator_after_any_event_leaves_nothing_behind():
    count = len(await take(rich()))
    for at in range(count + 1):
        turn = rich().turn(Transcript((HI,)), asyncio.Event())
        for _ in range(at):
            await anext(turn)
        await turn.aclose()
        assert ours() == []
    gc.collect()


async def test_closing_the_generator_while_tools_run_ends_them():
    ended: list[str] = []

    async def work() -> str:
        try:
            return await never()
        finally:
            ended.append("ended")

    calls = (call(1, "quick"), call(2, "hang"))
    with_ = agent([Say(calls=calls)], tool("quick"), tool("hang", work))
    turn = with_.turn(Transcript((HI,)), asyncio.Event())
    while not isinstance(await anext(turn), ToolFinished):
        pass
    await turn.aclose()
    assert ended == ["ended"]
    assert ours() == []


async def test_a_generator_that_was_never_begun_leaves_nothing_behind():
    await rich().turn(Transcript((HI,)), asyncio.Event()).aclose()
    rich().turn(Transcript((HI,)), asyncio.Event())
    gc.collect()
    assert ours() == []


# Between turns


async def test_the_loop_keeps_nothing_between_turns():
    model = ScriptedModel(["One.", "Two."])
    with_ = agent(model)
    given_ = Transcript((HI,))
    async for _ in with_.turn(given_, asyncio.Event()):
        pass
    async for _ in with_.turn(given_, asyncio.Event()):
        pass
    assert [prompt.messages for prompt in model.prompts] == [(HI,), (HI,)]
    assert given_ == Transcript((HI,))


async def test_one_agent_takes_two_turns_at_once():
    both = asyncio.Barrier(2)

    async def meet() -> str:
        await both.wait()
        return "met"

    def script(prompt: Prompt) -> ToolCall | str:
        if prompt.messages[-1].role is Role.TOOL:
            return prompt.messages[0].content
        return call(1, "read")

    with_ = agent([script] * 4, tool("read", meet))
    asked = [Message(Role.USER, words, AT) for words in ("one", "two")]
    first, second = await asyncio.gather(*(_said(with_, m) for m in asked))
    assert (first, second) == ("one", "two")


async def _said(with_: Agent, message: Message) -> str:
    turn = with_.turn(Transcript((message,)), asyncio.Event())
    return deltas([event async for event in turn])


async def test_a_torn_transcript_is_mended_before_the_model_sees_it():
    torn = (HI, Message(Role.ASSISTANT, "", AT, tool_calls=(call(1, "read"),)), HI)
    model = ScriptedModel(["Where were we?"])
    await take(agent(model), *torn)
    (prompt,) = model.prompts
    assert prompt.messages == Transcript(torn).repaired(AT).messages
    assert len(prompt.messages) == 4


async def test_the_same_instructions_and_tools_go_with_every_step():
    model = ScriptedModel([call(1, "read"), "Done."])
    await take(agent(model, tool("read")))
    first, second = model.prompts
    assert (first.system, first.tools) == (second.system, second.tools)


# Another provider in the middle


@pytest.mark.parametrize("word", [(), (HI,)], ids=["at once", "after a word"])
async def test_a_session_changes_provider_in_the_middle_of_a_tool_conversation(
    word: tuple[Message, ...],
):
    a, b = call("_a|odd id, far longer than forty characters", "read"), call("_b", "read", "b")
    signed = {"signature": "c2ln", "call_id": "fc1", "path": "e"}
    claude = [
        anthropic_fake.thinking("Let me think.", "sig"),
        anthropic_fake.text("I look."),
        anthropic_fake.tool_use("toolu_1", "read", path="c"),
        anthropic_fake.tool_use("toolu_2", "no such/tool", path="d"),
    ]
    google = [
        [gemini_fake.text("And I.")],
        [gemini_fake.call("read", **signed)],
        [gemini_fake.call("read")],
    ]
    read = tool("read", "text")
    async with (
        openai(
            openai_fake.Say(text="Reading.", calls=(a, b)), openai_fake.Say(text="All read.")
        ) as gpt,
        anthropic(
            anthropic_fake.Answer(content=claude, stop="tool_use"),
            anthropic_fake.Answer(content=[anthropic_fake.text("Still here.")]),
        ) as claude_wire,
        gemini(
            gemini_fake.Answer(chunks=google),
            gemini_fake.Answer(chunks=[[gemini_fake.text("Me too.")]]),
        ) as google_wire,
    ):
        so_far: tuple[Message, ...] = (HI,)
        for wire in (gpt, claude_wire, google_wire):
            interrupt = asyncio.Event()

            def on(event: Event, interrupt: asyncio.Event = interrupt) -> None:
                if isinstance(event, MessageAdded) and event.message.role is Role.TOOL:
                    interrupt.set()

            events = await take(agent(wire.model, read), *so_far, interrupt=interrupt, on=on)
            assert events[-1] == TurnInterrupted()
            assert len(results(events)) == 2
            so_far = (*so_far, *added(events), *word)
        for wire, words in (
            (gpt, "All read."),
            (claude_wire, "Still here."),
            (google_wire, "Me too."),
        ):
            events = await take(agent(wire.model, read), *so_far)
            assert events[-1] == TurnDone()
            assert deltas(events) == words
            so_far = (*so_far, *added(events), HI)


# Whatever happens

_IDS = st.sampled_from(["a", "b", "", "x y"])
_NAMES = st.sampled_from(["read", "slow", "write", "fail", "break", "stop", "fly", "no such/one"])
_ARGUMENTS = st.sampled_from(["{}", '{"path": "a"}', '{"path": 1}', "{", "", "[]"])
_CALLS = st.lists(st.builds(ToolCall, _IDS, _NAMES, _ARGUMENTS), max_size=4).map(tuple)
_ANSWERS = st.builds(
    Say,
    text=st.sampled_from(["", " ", "One.", "One two three."]),
    calls=_CALLS,
    error=st.sampled_from([None, None, None, BUSY]),
    stop=st.sampled_from([None, None, None, Stop.LENGTH, Stop.REFUSED]),
)


@settings(max_examples=150)
@given(
    script=st.lists(_ANSWERS, max_size=4),
    answers=st.lists(st.sampled_from([*Answer, None]), max_size=6),
    at=st.none() | st.integers(0, 30),
)
def test_whatever_happens_the_transcript_is_whole(
    script: list[Say], answers: list[Answer | None], at: int | None
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.logger, "disabled", True)  # a broken tool is written down each time
        asyncio.run(_whatever(script, answers, at))


async def _whatever(script: list[Say], answers: list[Answer | None], at: int | None) -> None:
    interrupt, left, seen = asyncio.Event(), iter(answers), list[Event]()

    async def approve(asked: ToolCall, what: str) -> Answer:
        answer = next(left, Answer.ONCE)
        if answer is None:
            interrupt.set()
            await never()
        return answer or Answer.NEVER

    async def slow() -> str:
        for _ in range(4):
            await asyncio.sleep(0)
        return ""

    async def fail() -> str:
        raise ToolFailed("No.")

    async def break_() -> str:
        raise RuntimeError("Oh.")

    async def stop() -> str:
        interrupt.set()
        return await never()

    def on(event: Event) -> None:
        seen.append(event)
        if at is not None and len(seen) > at:
            interrupt.set()

    tools = (
        tool("read"),
        tool("slow", slow),
        tool("write", risk=Risk.WRITE),
        tool("fail", fail),
        tool("break", break_),
        tool("stop", stop, Risk.RUN),
    )
    with_ = agent([*script, "The end."], *tools, rules=Rules(), approve=approve, most_steps=4)
    events = await take(with_, interrupt=interrupt, on=on)
    over = [e for e in events if isinstance(e, (TurnDone, TurnFailed, TurnInterrupted))]
    assert over == events[-1:]
    said = [m for m in added(events) if m.role is Role.ASSISTANT]
    assert deltas(events) == "".join(m.content for m in said)
    calls = [c for m in said for c in m.tool_calls]
    assert [e.call for e in events if isinstance(e, ToolFinished)] == calls
    await assert_whole(events, tools=with_.tools)
