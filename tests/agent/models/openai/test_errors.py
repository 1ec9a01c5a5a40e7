"""The OpenAI client: errors and retries."""

from __future__ import annotations

import asyncio
import gc
import json
from email.utils import format_datetime
from typing import Any

import httpx2
import pytest

from segue.agent.models.base import End, Stop, Text
from segue.agent.models.hosted import Timeouts
from segue.agent.models.openai import OpenAIModel
from segue.core.errors import (
    BadKey,
    ContextTooLong,
    ModelBusy,
    ModelCutOff,
    ModelError,
    ModelOffline,
    ModelRefused,
    ModelServerError,
    ModelStalled,
    NoCredit,
    UnknownModel,
)
from tests.agent.models.answers import AT, HASTE, ONCE
from tests.agent.models.openai.samples import (
    FINISHED,
    RECORDED,
    WHOLE,
    a_model,
    ask,
    hear,
    talking,
)
from tests.fakes.models.openai import (
    Failure,
    FakeOpenAI,
    Say,
    Stream,
    delta,
    no_quota,
    server_error,
    sse,
    too_long,
    too_many,
)
from tests.fakes.models.travel import Travel

# Errors


def said(status: int, body: str) -> Failure:
    return Failure(status=status, body=body.encode())


# Texts as servers send them, each with its source.
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (no_quota(), NoCredit),
        # OpenRouter's documentation, errors.
        (said(402, '{"error":{"code":402,"message":"Insufficient credits"}}'), NoCredit),
        (said(401, '{"error":{"code":401,"message":"User not found."}}'), BadKey),
        (said(401, ""), BadKey),
        (too_long(), ContextTooLong),
        # ggml-org/llama.cpp#15780, oobabooga/textgen#7257
        (said(400, '{"error":{"code":400,"message":"the request exceeds the available context '
                   'size. try increasing the context size or enable context shift","type":'
                   '"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}'),
         ContextTooLong),
        (said(500, '{"error":{"code":500,"message":"the request exceeds the available context '
                   'size, try increasing it","type":"server_error"}}'), ContextTooLong),
        # meta-llama/llama-verifications#58 (vLLM)
        (said(400, '{"object":"error","message":"This model\'s maximum context length is 131072 '
                   'tokens. However, you requested 156632 tokens (152536 in the messages, 4096 in '
                   'the completion). Please reduce the length of the messages or completion.",'
                   '"type":"BadRequestError","param":null,"code":400}'), ContextTooLong),
        # vllm-project/vllm#4667
        (said(400, '{"object":"error","message":"max_tokens must be at least 1, got -186.",'
                   '"type":"BadRequestError","code":400}'), ContextTooLong),
        # earendil-works/pi#6378 (OpenRouter)
        (said(400, '{"error":{"message":"This endpoint\'s maximum context length is 262000 tokens. '
                   'However, you requested about 263390 tokens","code":400}}'), ContextTooLong),
        # lmstudio-ai/lmstudio-bug-tracker#546, #2205; anomalyco/opencode#11141
        (said(400, '{"error":"Trying to keep the first 111490 tokens when context the overflows. '
                   'However, the model is loaded with context length of only 32768 tokens, which '
                   'is not enough."}'), ContextTooLong),
        (said(400, '{"error":"The number of tokens to keep from the initial prompt is greater than '
                   'the context length."}'), ContextTooLong),
        (said(400, '{"error":"Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"}'),
         ContextTooLong),
        # Ollama, from memory
        (said(400, '{"error":{"message":"prompt too long; exceeded max context length by 12 '
                   'tokens"}}'), ContextTooLong),
        # abetlen/llama-cpp-python#416
        (said(500, '{"error":{"message":"Requested tokens (2285) exceed context window of 2048"}}'),
         ContextTooLong),
        # OpenAI's limit of tokens a minute, from memory: no later request of this size would pass.
        (said(429, '{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): '
                   'Limit 30000, Requested 41235.","type":"tokens","code":"rate_limit_exceeded"}}'),
         ContextTooLong),
        # Ollama, from memory; vLLM, from memory
        (said(404, '{"error":{"message":"model \\"gpt-test\\" not found, try pulling it first",'
                   '"type":"api_error","param":null,"code":null}}'), UnknownModel),
        (said(404, '{"object":"error","message":"The model `gpt-test` does not exist.","type":'
                   '"NotFoundError","param":null,"code":404}'), UnknownModel),
        # maxnowack/anthropic-proxy#4 (OpenRouter)
        (said(400, '{"error":{"message":"gpt-test is not a valid model ID","code":400}}'),
         UnknownModel),
        # lastmile-ai/mcp-agent#237 (OpenRouter)
        (said(404, '{"error":{"message":"No endpoints found that support tool use.","code":404}}'),
         ModelRefused),
        (said(404, "404 page not found"), ModelOffline),
        # vllm-project/vllm#6862
        (said(400, '{"object":"error","message":"After the optional system message, conversation '
                   'roles must alternate","type":"BadRequestError","code":400}'), ModelRefused),
        (said(400, "nonsense"), ModelRefused),
        (said(403, '{"error":{"code":403,"message":"Your input was flagged"}}'), ModelRefused),
        (too_many(), ModelBusy),
        (server_error(500), ModelServerError),
        (server_error(503), ModelBusy),
        (said(502, "<html>Bad gateway</html>"), ModelServerError),
        (said(301, ""), ModelError),
        (said(501, "no"), ModelError),
    ],
)  # fmt: skip
async def test_an_error_response_becomes_an_error_that_the_user_can_act_on(
    answer: Failure, error: type[ModelError]
):
    async with talking(lambda _: answer) as (fake, model):
        with pytest.raises(ModelError) as caught:
            await hear(model)
    assert type(caught.value) is error
    assert len(fake.requests) == (HASTE.tries if error in {ModelBusy, ModelServerError} else 1)


async def test_a_bad_key_names_the_setting_and_not_the_key():
    async with talking([], key="sk-secret") as (_, model):
        with pytest.raises(BadKey) as caught:
            await hear(model)
        assert caught.value.fields["setting"] == "OPENAI_API_KEY"
    assert "secret" not in str(caught.value)


async def test_a_missing_key_is_a_bad_key():
    async with talking([], key=None) as (fake, model):
        with pytest.raises(BadKey):
            await hear(model)
    assert "authorization" not in fake.received[0].headers


async def test_a_local_server_needs_no_key():
    async with talking([Say(text="ok")], {"key": None}, key=None) as (_, model):
        assert (await hear(model))[0] == Text("ok")


async def test_a_line_break_at_the_end_of_a_key_is_removed():
    async with talking([Say(text="ok")], key="sk-test\n") as (_, model):
        assert (await hear(model))[0] == Text("ok")


@pytest.mark.parametrize("key", ["sk-té", "sk-\ntest", "sk-\x00"])
async def test_a_key_that_does_not_fit_in_a_header_is_a_bad_key(key: str):
    async with talking([], key=key) as (fake, model):
        with pytest.raises(BadKey):
            await hear(model)
    assert not fake.received


async def test_an_unknown_model_is_named():
    async with talking([], model="gpt-none") as (_, model):
        with pytest.raises(UnknownModel) as caught:
            await hear(model)
        assert caught.value.fields["model"] == "gpt-none"


async def test_the_provider_is_named_in_the_error():
    with pytest.raises(ModelOffline) as caught:
        await hear(a_model("http://127.0.0.1:9/v1", name="ollama/qwen", patience=ONCE))
    assert caught.value.fields["provider"] == "ollama"


async def test_a_wrong_url_is_reported():
    async with FakeOpenAI([]).serving() as url:
        model = a_model(url.removesuffix("/v1"))
        with pytest.raises(ModelError, match="Invalid URL"):
            await hear(model)
        await model.close()


async def test_the_error_of_the_provider_behind_openrouter_is_shown():
    body = {"error": {"message": "Provider returned error", "code": 400,
                      "metadata": {"raw": "tool names are odd."}}}  # fmt: skip
    async with talking([said(400, json.dumps(body))]) as (_, model):
        with pytest.raises(ModelRefused) as caught:
            await hear(model)
        assert caught.value.fields["reason"] == "tool names are odd"


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"error": {"message": "The server had an error", "type": "server_error"}}, ModelError),
        ({"error": {"message": "overloaded", "code": 529}}, ModelBusy),
        ({"error": {"message": "slow down", "code": "429"}, "choices": []}, ModelBusy),
        ({"error": {"message": "broke", "code": 402}}, NoCredit),
        ({"error": {"code": 400, "message": "the request exceeds the available context size"}},
         ContextTooLong),
        ({"error": "just text"}, ModelError),
        ({"object": "error", "message": "max_tokens unsupported", "code": 400}, ModelError),
        ("not json", ModelError),
        ("[1, 2]", ModelError),
        ('{"choices": [{"delta": 7}]}', ModelError),
    ],
)  # fmt: skip
async def test_an_error_inside_the_stream_is_raised(event: Any, error: type[ModelError]):
    async with talking(lambda _: Stream(sse(delta(content="half"), event))) as (fake, model):
        pieces = model.stream(ask())
        assert await anext(pieces) == Text("half")
        with pytest.raises(ModelError) as caught:
            await anext(pieces)
    assert type(caught.value) is error
    assert len(fake.requests) == 1, "an answer that was begun is not asked for again"


async def test_an_event_named_error_is_an_error():
    body = sse(delta(content="x")) + b'event: error\ndata: {"message": "boom"}\n\n'
    async with talking([Stream(body)]) as (_, model):
        with pytest.raises(ModelError, match="boom"):
            await hear(model)


# Retries


@pytest.mark.parametrize("failure", [server_error(500), server_error(503), too_many()])
async def test_a_request_to_a_busy_server_is_retried(failure: Failure):
    async with talking([failure, failure, Say(text="ok")]) as (fake, model):
        assert (await hear(model))[0] == Text("ok")
    assert len(fake.requests) == 3


async def test_the_error_is_raised_after_the_last_retry():
    async with talking([server_error(503)] * 3 + [Say(text="late")]) as (fake, model):
        with pytest.raises(ModelBusy, match="overloaded"):
            await hear(model)
    assert len(fake.requests) == 3


@pytest.mark.parametrize("after", ["0", "0.001", format_datetime(AT, usegmt=True), "soon", ""])
async def test_retry_after_is_honoured(after: str):
    async with talking([too_many(after), Say(text="ok")]) as (_, model):
        assert (await hear(model))[0] == Text("ok")


async def test_a_request_is_retried_if_the_connection_is_lost_before_the_answer():
    async with talking(lambda _: Say(text="ok")) as (fake, model):
        fake.travel = Travel(hang_up_after=0)
        with pytest.raises(ModelOffline):
            await hear(model)
        assert len(fake.requests) == HASTE.tries


async def test_a_request_is_not_retried_if_the_connection_is_lost_during_the_answer():
    async with talking(lambda _: Say(text="one two three")) as (fake, model):
        fake.travel = Travel(hang_up_after=400)
        with pytest.raises(ModelCutOff):
            await hear(model)
    assert len(fake.requests) == 1


@pytest.mark.parametrize("after", [0, 400])
async def test_a_silent_server_is_reported_as_stalled(after: int):
    patience = Timeouts(connect=5, silence=0.05, tries=3)
    fake = {"travel": Travel(stall_after=after)}
    async with talking([Say(text="one two three")], fake, patience=patience) as (_, model):
        with pytest.raises(ModelStalled):
            await hear(model)


async def test_a_complete_answer_is_kept_if_the_server_stalls_after_it():
    patience = Timeouts(connect=5, silence=0.5, tries=1)
    fake = {"travel": Travel(stall_after=FINISHED)}
    async with talking([Stream(RECORDED)], fake, patience=patience) as (_, model):
        assert await hear(model) == [*WHOLE, End(stop=Stop.CALLS)]


async def test_a_slow_server_does_not_time_out():
    fake = {"travel": Travel(chunk=100, pause=0.005)}
    patience = Timeouts(connect=5, silence=20, tries=1)
    async with talking([Stream(RECORDED)], fake, patience=patience) as (_, model):
        assert (await hear(model))[:-1] == WHOLE


async def test_cancelling_the_turn_drops_the_connection():
    fake = {"travel": Travel(drip_after=600)}
    async with talking([Say(text="one two three four five")], fake) as (server, model):
        begun = asyncio.Event()

        async def turn() -> None:
            async for _ in model.stream(ask()):
                begun.set()

        task = asyncio.create_task(turn())
        async with asyncio.timeout(10):
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.left.wait()


async def test_a_connection_is_reused_after_a_complete_answer():
    async with talking([Say(text="ok")] * 3) as (_, model):
        for _ in range(3):
            await hear(model)
            assert connections(model) == 1


async def test_a_connection_is_closed_if_keep_alive_is_off():
    async with talking([Say(text="ok")], reuse=False) as (_, model):
        await hear(model)
        assert connections(model) == 0


def connections(model: OpenAIModel) -> int:
    http = model._client._http
    assert isinstance(http, httpx2.AsyncClient)
    transport: Any = http._transport
    return len(transport._pool.connections)


async def test_no_resources_leak():
    async with talking([Say(text="ok"), no_quota()]) as (_, model):
        await hear(model)
        with pytest.raises(NoCredit):
            await hear(model)
    gc.collect()
