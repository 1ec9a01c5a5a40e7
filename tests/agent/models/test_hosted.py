"""One suite for every hosted model, in all wire formats."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any

import pytest

from segue.agent.models.base import Call, End, Model, Piece, Text
from segue.agent.models.hosted import Timeouts
from segue.core.errors import (
    BadKey,
    ContextTooLong,
    ModelCutOff,
    ModelError,
    ModelOffline,
    ModelStalled,
    UnknownModel,
)
from segue.core.transcript import Message, ToolCall, Transcript
from segue.testing.http import Request, Response, serving
from tests.agent.models.answers import (
    AT,
    HASTE,
    ONCE,
    ask,
    assistant,
    heard,
    joined,
    places,
    result,
    user,
)
from tests.agent.models.providers import CLAUDE, GEMINI, Provider
from tests.fakes.models.strict import Failure, Stream
from tests.fakes.models.travel import Travel
from tests.harness.line_counts import growth

EACH = pytest.mark.parametrize("provider", [CLAUDE, GEMINI], ids=["anthropic", "gemini"])


@EACH
@pytest.mark.parametrize("travel", [Travel(chunk=1), Travel(chunk=200, pause=0.005)])
async def test_the_pieces_do_not_depend_on_how_the_stream_is_chunked(
    provider: Provider, travel: Travel
):
    whole = await provider.exchange(provider.recorded)
    stream = Stream(body=provider.sse(provider.recorded), travel=travel)
    assert await provider.exchange(stream) == whole


@pytest.mark.parametrize(
    ("provider", "way"),
    [
        (CLAUDE, "hang_up_after"),
        (GEMINI, "end_after"),
    ],
)
async def test_a_stream_cut_at_any_byte_is_complete_or_an_error(
    provider: Provider, way: str, seed: int
):
    stream = provider.sse(provider.recorded)
    whole = joined(await provider.exchange(provider.recorded))
    cuts = [
        Stream(body=stream, travel=Travel(**{way: at}))
        for at in (0, *places(stream, seed), len(stream))
    ]
    outcomes: dict[str, int] = {}
    lanes = asyncio.Semaphore(16)

    async def one(model: Model) -> None:
        pieces: list[Piece] = []
        async with lanes:
            try:
                async with aclosing(model.stream(ask())) as answer:
                    async for piece in answer:
                        pieces.append(piece)
            except (ModelCutOff, ModelOffline) as error:
                kind = type(error).__name__
                assert not any(isinstance(piece, Call | End) for piece in pieces)
            else:
                kind = "whole"
                assert joined(pieces) == whole
            outcomes[kind] = outcomes.get(kind, 0) + 1

    async with provider.talking(provider.fake(cuts), ONCE) as model, asyncio.timeout(60):
        await asyncio.gather(*(one(model) for _ in cuts))
    assert sum(outcomes.values()) == len(cuts)
    assert outcomes["ModelCutOff"] > len(cuts) // 2


@EACH
async def test_a_request_to_a_busy_server_is_retried_until_it_answers(provider: Provider):
    trouble = Failure(status=500, kind="INTERNAL")
    fake = provider.fake([provider.busy, trouble, provider.done])
    async with provider.talking(fake) as model:
        assert joined(await heard(model))[0] == "Done."
    assert len(fake.requests) == 3


@EACH
async def test_retry_after_is_honoured(provider: Provider):
    patience = Timeouts(tries=2, first_pause=0.0, longest_pause=5)
    begun = time.monotonic()
    pieces = await provider.exchange(provider.limited, provider.done, patience=patience)
    assert joined(pieces)[0] == "Done."
    assert time.monotonic() - begun >= 0.2


@EACH
async def test_a_stalled_stream_is_an_error(provider: Provider):
    stalled = Travel(stall_after=provider.middle)
    stream = Stream(body=provider.sse(provider.recorded), travel=stalled)
    with pytest.raises(ModelStalled):
        await provider.exchange(stream, patience=Timeouts(silence=0.1, tries=1))


@EACH
async def test_closing_the_stream_drops_the_connection(provider: Provider):
    dripping = Travel(drip_after=provider.middle)
    fake = provider.fake([Stream(body=provider.sse(provider.recorded), travel=dripping)])
    async with provider.talking(fake) as model, asyncio.timeout(10):
        async with aclosing(model.stream(ask())) as pieces:
            assert isinstance(await anext(pieces), Text)
        await fake.left.wait()


@EACH
async def test_a_wrong_key_names_its_setting(provider: Provider):
    with pytest.raises(BadKey, match=provider.given["setting"]):
        await provider.exchange(provider.done, key="wrong")


@EACH
@pytest.mark.parametrize("key", ["sk-té", "sk-\ntest"])
async def test_a_key_that_does_not_fit_in_a_header_is_a_bad_key(provider: Provider, key: str):
    fake = provider.fake([provider.done])
    async with provider.talking(fake, key=key) as model:
        with pytest.raises(BadKey, match=provider.given["setting"]):
            await heard(model)
    assert not fake.requests


@EACH
async def test_an_unknown_model_is_named(provider: Provider):
    with pytest.raises(UnknownModel, match="nobody-1"):
        await provider.exchange(provider.done, model="nobody-1")


@EACH
async def test_a_prompt_that_is_too_long_is_reported(provider: Provider):
    async with provider.talking(provider.fake([provider.done], context=100)) as model:
        with pytest.raises(ContextTooLong):
            await heard(model, ask(user("word " * 200)))


@EACH
async def test_an_unreachable_server_is_reported_as_offline(provider: Provider):
    model = provider.model_at("http://127.0.0.1:9", HASTE)
    with pytest.raises(ModelOffline, match=r"127\.0\.0\.1:9"):
        await heard(model)
    await model.close()


@EACH
@pytest.mark.parametrize(("status", "error"), [(404, ModelError), (413, ContextTooLong)])
async def test_a_page_that_is_not_the_api_is_reported_with_its_status_only(
    provider: Provider, status: int, error: type[ModelError]
):
    async def elsewhere(_: Request) -> Response:
        return Response(status=status, body=b"<html>nginx</html>")

    async with serving(elsewhere) as url:
        model = provider.model_at(url)
        with pytest.raises(error) as raised:
            await heard(model)
        await model.close()
    assert type(raised.value) is error
    assert error is ContextTooLong or f"HTTP {status}" in str(raised.value)


@EACH
async def test_a_stream_in_another_format_is_an_error(provider: Provider):
    with pytest.raises(ModelError, match="cannot be read"):
        await provider.exchange(Stream(body=b"data: <html>\n\n"))


# Complete conversations


@pytest.mark.parametrize(
    ("provider", "model"),
    [(CLAUDE, "claude-fake"), (GEMINI, "gemini-2.5-fake"), (GEMINI, "gemini-3-fake")],
)
async def test_a_conversation_from_another_provider_is_accepted(provider: Provider, model: str):
    foreign: dict[str, Any] = {
        "anthropic": [{"type": "thinking", "thinking": "", "signature": "s"}],
        "gemini": [{"call": "x", "signature": "s"}],
        "openai": {"reasoning": "r"},
    }
    del foreign[provider.name]
    one = ToolCall("call_é.1", "run", '{"command": "ls"}')
    two = ToolCall("call_é.1", "weird name", "{oops")
    lost = ToolCall("fc:77", "run", "{}")
    begun = Transcript((
        assistant("I am in the middle.", extras=foreign),
        user("go on"),
        assistant("", one, two, extras=foreign),
        result(one, "listing"),
        assistant("", lost, extras=foreign),
        user("are you there?"),
    ))  # fmt: skip
    await provider.accepted(*begun.repaired(AT), given={"model": model})


def long_history(length: int) -> tuple[Message, ...]:
    messages: list[Message] = []
    while len(messages) < length:
        call = ToolCall(f"call_{len(messages)}", "run", '{"command": "git status --short"}')
        messages += [
            user("Please look at the state of the repository. " * 4),
            assistant("I will look.", call),
            result(call, "M src/segue/agent.py\n" * 10),
            assistant("There is one change. " * 6),
        ]
    return (*messages[: length - 1], user("And now?"))


@EACH
async def test_five_thousand_messages_are_accepted(provider: Provider):
    fake = provider.fake([provider.done], context=10_000_000)
    async with provider.talking(fake) as model:
        await heard(model, ask(*Transcript(long_history(5000)).repaired(AT)))
    assert not fake.refusals


@EACH
def test_a_request_is_built_in_linear_time(provider: Provider):
    prompts = {length: ask(*long_history(length)) for length in (100, 400)}
    assert growth(lambda length: provider.build(prompts[length]), 100) < 1.1
