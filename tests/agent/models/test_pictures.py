"""Pictures in users' messages, in the form of each provider, against their strict fakes."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import pytest

from segue.agent.models.anthropic import AnthropicModel
from segue.agent.models.base import End, Model, Piece, Prompt, Text, ToolSpec
from segue.agent.models.gemini import GeminiModel
from segue.agent.models.hosted import Timeouts
from segue.agent.models.messages import MAX_BYTES, MAX_PICTURES, sentence
from segue.agent.models.openai import OpenAIModel
from segue.core.errors import ModelRefused, ModelServerError
from segue.core.images import LIMIT, image
from segue.core.transcript import Image, Message, Role, ToolCall
from segue.testing.http import serving
from tests.fakes.models import anthropic, gemini, openai
from tests.fakes.pictures import GIF, JPEG, WEBP, png

AT = datetime(2026, 11, 1, tzinfo=UTC)
HASTE = Timeouts(connect=5, silence=20, tries=3, first_pause=0.001, longest_pause=0.01)
RUN = ToolSpec(
    name="run",
    description="Run a command.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}},
)
CALL = ToolCall("call_1", "run", '{"command":"ls"}')
CAT, DOG = image(png(3, 4)), image(JPEG)
BROKEN = Image("image/png", b"no picture at all")
GIVEN: dict[str, Any] = {"setting": "A_KEY", "context": 200_000, "patience": HASTE}

Said = tuple[str, list[Image | str]]
"""A role, and its texts and pictures in their order."""


@dataclass(frozen=True)
class Wire:
    """One provider: how to reach it, and how to read its requests."""

    name: str
    serve: Callable[..., Any]
    read: Callable[[Any], Iterator[Said]]
    requests: list[Any] = field(default_factory=list[Any])

    @asynccontextmanager
    async def talking(self, *script: Any, **more: Any) -> AsyncGenerator[Model]:
        """A model that answers by the script, and with one word after its end."""
        self.requests.clear()
        async with self.serve(self.requests, script, **more) as model:
            try:
                yield model
            finally:
                await model.close()

    async def sent(self, *messages: Message, **more: Any) -> list[Said]:
        """The requests to a provider that refused none of them."""
        async with self.talking(**more) as model:
            await hear(model, *messages)
        assert len(self.requests) == 1
        return self.said()

    def said(self, number: int = -1) -> list[Said]:
        """The content of the last request, without the system prompt, calls and results."""
        return [(role, told) for role, told in self.read(self.requests[number]) if told]


async def hear(model: Model, *messages: Message) -> list[Piece]:
    prompt = Prompt(system="Be brief.", messages=messages, tools=(RUN,))
    return [piece async for piece in model.stream(prompt)]


def scripted(script: Iterable[Any], word: Any) -> Callable[[Any], Any]:
    left = iter(script)
    return lambda _: next(left, word)


@asynccontextmanager
async def at_openai(requests: list[Any], script: Any, **more: Any) -> AsyncGenerator[Model]:
    sees = more.pop("sees", True)
    fake = openai.FakeOpenAI(scripted(script, openai.Say(text="Ah.")), images=sees)
    fake.requests = requests
    async with fake.serving() as url:
        named: dict[str, Any] = {"name": "openai/gpt-test", "model": "gpt-test", "key": "sk-test"}
        yield OpenAIModel(base_url=url, **named, **{**GIVEN, **more})


@asynccontextmanager
async def at_anthropic(requests: list[Any], script: Any, **more: Any) -> AsyncGenerator[Model]:
    word = anthropic.Answer(content=[anthropic.text("Ah.")])
    fake = anthropic.FakeAnthropic(scripted(script, word))
    fake.requests = requests
    async with serving(fake) as url:
        named: dict[str, Any] = {"name": "claude", "model": "claude-fake", "key": "sk-ant-fake"}
        yield AnthropicModel(base_url=url, **named, **{**GIVEN, **more})


@asynccontextmanager
async def at_gemini(requests: list[Any], script: Any, **more: Any) -> AsyncGenerator[Model]:
    word = gemini.Answer(chunks=[[gemini.text("Ah.")]])
    fake = gemini.FakeGemini(scripted(script, word))
    fake.requests = requests
    async with serving(fake) as url:
        named: dict[str, Any] = {"name": "gemini", "model": "gemini-3-fake", "key": "AIza-fake"}
        yield GeminiModel(base_url=f"{url}/v1beta", **named, **{**GIVEN, **more})


def from_openai(body: Any) -> Iterator[Said]:
    for message in body["messages"]:
        content = message["content"]
        text: Any = [{"type": "text", "text": content}]
        parts = text if isinstance(content, str) else content or []
        told: list[Image | str] = []
        for part in parts if message["role"] in {"user", "assistant"} else []:
            if part["type"] == "text":
                told.append(part["text"])
            else:
                url = re.fullmatch("data:(.*);base64,(.*)", part["image_url"]["url"])
                assert url is not None
                told.append(Image(url[1], base64.b64decode(url[2])))
        yield message["role"], told


def from_anthropic(body: Any) -> Iterator[Said]:
    for message in body["messages"]:
        told: list[Image | str] = []
        for block in message["content"]:
            if block["type"] == "text":
                told.append(block["text"])
            elif block["type"] == "image":
                source = block["source"]
                told.append(Image(source["media_type"], base64.b64decode(source["data"])))
        yield message["role"], told


def from_gemini(body: Any) -> Iterator[Said]:
    for content in body["contents"]:
        told: list[Image | str] = []
        for part in content["parts"]:
            if "text" in part:
                told.append(part["text"])
            elif "inlineData" in part:
                data = part["inlineData"]
                told.append(Image(data["mimeType"], base64.b64decode(data["data"])))
        yield content["role"].replace("model", "assistant"), told


OPENAI = Wire("openai", at_openai, from_openai)
WIRES = [
    OPENAI,
    Wire("anthropic", at_anthropic, from_anthropic),
    Wire("gemini", at_gemini, from_gemini),
]


@pytest.fixture(params=WIRES, ids=lambda wire: wire.name)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


def user(words: str = "", *pictures: Image) -> Message:
    return Message(Role.USER, words, AT, images=pictures)


def said(words: str, *calls: ToolCall) -> Message:
    return Message(Role.ASSISTANT, words, AT, tool_calls=calls)


def result(call: ToolCall) -> Message:
    return Message(Role.TOOL, "ok", AT, tool_call_id=call.id, tool_name=call.name)


def joined(said: list[Said]) -> list[Said]:
    """Join consecutive texts: whether they are joined is up to each provider."""
    return [
        (role, [item for is_text, run in groupby(told, lambda part: isinstance(part, str))
                for item in (["\n\n".join(map(str, run))] if is_text else run)])
        for role, told in said
    ]  # fmt: skip


def a_picture(number: int, size: int = 0) -> Image:
    """A picture that differs from all others."""
    return image(png(1 + number, 1, size=size))


# Requests


async def test_pictures_come_before_the_text_of_their_message(wire: Wire):
    assert await wire.sent(user("Which?", CAT, DOG)) == [("user", [CAT, DOG, "Which?"])]


async def test_a_picture_needs_no_text(wire: Wire):
    assert await wire.sent(user("", CAT)) == [("user", [CAT])]


async def test_every_message_keeps_its_own_pictures(wire: Wire):
    messages = (user("One", CAT), said("A cat."), user("Two", DOG), said("A dog."), user("Sure?"))
    assert await wire.sent(*messages) == [
        ("user", [CAT, "One"]),
        ("assistant", ["A cat."]),
        ("user", [DOG, "Two"]),
        ("assistant", ["A dog."]),
        ("user", ["Sure?"]),
    ]


async def test_consecutive_messages_of_one_role_are_merged_in_order(wire: Wire):
    messages = (user("See:"), user("", CAT), user("and"), user("this", DOG), user("Well?"))
    assert joined(await wire.sent(*messages)) == [
        ("user", ["See:", CAT, "and", DOG, "this\n\nWell?"])
    ]


async def test_a_picture_may_follow_a_tools_result(wire: Wire):
    messages = (user("Go"), said("", CALL), result(CALL), user("And this?", CAT))
    assert (await wire.sent(*messages))[-1] == ("user", [CAT, "And this?"])


@pytest.mark.parametrize("picture", [image(WEBP), image(JPEG), image(png())])
async def test_every_supported_format_is_sent(wire: Wire, picture: Image):
    assert await wire.sent(user("", picture)) == [("user", [picture])]


async def test_a_picture_format_that_a_provider_refuses_is_described_in_text(wire: Wire):
    gif = image(GIF)
    told = sentence(gif) if wire.name == "gemini" else gif
    assert await wire.sent(user("What?", gif, CAT)) == [("user", [told, CAT, "What?"])]


async def test_a_model_without_vision_gets_a_description_in_text(wire: Wire):
    messages = (user("Which?", CAT, image(png(size=34_000))), said("I do not know."), user("Why?"))
    told = f"{sentence(CAT)}\n\n[A picture (image/png, 34 kB) that you cannot see now.]\n\nWhich?"
    assert joined(await wire.sent(*messages, images=False)) == [
        ("user", [told]),
        ("assistant", ["I do not know."]),
        ("user", ["Why?"]),
    ]


def test_the_description_has_the_size_in_common_units():
    assert "(image/png, 1 kB)" in sentence(Image("image/png", b"1"))
    assert "(image/png, 3.9 MB)" in sentence(Image("image/png", bytes(LIMIT)))


async def test_a_cache_mark_can_be_set_on_a_picture():
    claude = WIRES[1]
    await claude.sent(user("", CAT))
    assert claude.requests[0]["messages"][0]["content"][-1]["cache_control"]


# Limits


async def test_only_the_newest_pictures_are_shown(wire: Wire):
    album = [a_picture(n) for n in range(MAX_PICTURES + 3)]
    messages = [m for n, p in enumerate(album) for m in (user(f"{n}", p), said("Nice."))]
    asked = [told for role, told in await wire.sent(*messages, user("Which?")) if role == "user"]
    hidden = [told for told in asked if not any(isinstance(part, Image) for part in told)]
    assert [part for told in asked for part in told if isinstance(part, Image)] == album[3:]
    assert joined([("user", told) for told in hidden]) == [
        *(("user", [f"{sentence(album[n])}\n\n{n}"]) for n in range(3)),
        ("user", ["Which?"]),
    ]


async def test_within_one_message_the_first_pictures_are_dropped_and_the_order_is_kept(wire: Wire):
    album = [a_picture(n) for n in range(MAX_PICTURES + 1)]
    assert await wire.sent(user("All", *album)) == [
        ("user", [sentence(album[0]), *album[1:], "All"])
    ]


async def test_large_pictures_are_sent_up_to_the_total_limit(wire: Wire):
    album = [a_picture(n, LIMIT) for n in range(5)]
    [(_, told)] = await wire.sent(user("All", *album))
    assert [part for part in told if isinstance(part, Image)] == album[2:]
    assert 3 * LIMIT <= MAX_BYTES < 4 * LIMIT


async def test_pictures_in_an_unsupported_format_do_not_count_towards_the_limit(wire: Wire):
    odd = Image("image/tiff", b"II*\0")
    [(_, told)] = await wire.sent(user("All", CAT, *[odd] * MAX_PICTURES))
    assert told == [CAT, *[sentence(odd)] * MAX_PICTURES, "All"]


# Refusals despite that


async def test_a_picture_that_is_refused_does_not_end_the_conversation(wire: Wire):
    async with wire.talking() as model:
        assert (await hear(model, user("What?", BROKEN)))[0] == Text("Ah.")
        assert len(wire.requests) == 2
        assert joined(wire.said()) == [("user", [f"{sentence(BROKEN)}\n\nWhat?"])]
        assert model.images
        await hear(model, user("And this?", CAT))
        assert wire.said() == [("user", [CAT, "And this?"])]


def refusal_of(wire: Wire, words: str) -> Any:
    return {
        "openai": openai.refusal(400, words),
        "anthropic": anthropic.Failure(status=400, kind="invalid_request_error", message=words),
        "gemini": gemini.Failure(status=400, kind="INVALID_ARGUMENT", message=words),
    }[wire.name]


async def test_another_error_is_not_retried_without_pictures(wire: Wire):
    async with wire.talking(refusal_of(wire, "Your dog is in the way.")) as model:
        with pytest.raises(ModelRefused):
            await hear(model, user("What?", CAT))
    assert len(wire.requests) == 1


async def test_an_image_error_is_not_retried_if_no_image_was_sent(wire: Wire):
    async with wire.talking(refusal_of(wire, "Your image is in the way.")) as model:
        with pytest.raises(ModelRefused):
            await hear(model, user("What?"))
    assert len(wire.requests) == 1


async def test_thinking_and_a_picture_can_both_be_refused():
    claude = WIRES[1]
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "of another"}
    before = Message(Role.ASSISTANT, "A cat.", AT, extras={"anthropic": [thought, 6]})
    async with claude.talking() as model:
        pieces = await hear(model, user("", BROKEN), before, user("Sure?"))
    assert isinstance(pieces[-1], End)
    assert len(claude.requests) == 3
    assert claude.said() == [
        ("user", [sentence(BROKEN)]),
        ("assistant", ["A cat."]),
        ("user", ["Sure?"]),
    ]


# Servers with OpenAI's format


def said_with(status: int, body: str) -> openai.Failure:
    return openai.Failure(status=status, body=body.encode())


@pytest.mark.parametrize(
    "refusal",
    [
        # OpenAI (nextcloud/integration_openai#282)
        openai.refusal(400, "Invalid content type. image_url is only supported by certain models."),
        # llama.cpp (ggml-org/llama.cpp#15377, #13566, #12947)
        said_with(
            500,
            '{"error":{"code":500,"message":"image input is not supported - hint: if this is '
            'unexpected, you may need to provide the mmproj","type":"server_error"}}',
        ),
        said_with(
            500,
            r'{"error":{"code":500,"message":"Failed to parse messages: Unsupported content part '
            r'type: \"image_url\"; messages = [\n  {\n \"role\": \"user\"","type":"server_error"}}',
        ),
        # Ollama (OpenCoworkAI/open-cowork#251)
        said_with(400, '{"error":"this model does not support image input"}'),
        # LM Studio (lmstudio-ai/lmstudio-bug-tracker#908)
        said_with(400, '{"error":"Model does not support images. Please use a model that does."}'),
        # OpenRouter (JohnnyZ93/oai-compatible-copilot#229)
        said_with(
            404, '{"error":{"message":"No endpoints found that support image input","code":404}}'
        ),
        # vLLM (vllm-project/vllm#23402)
        said_with(
            400,
            '{"object":"error","message":"internlm/Intern-S1 is not a multimodal model",'
            '"type":"BadRequestError","param":null,"code":400}',
        ),
        # DeepSeek (1jehuang/jcode#310, browser-use/web-ui#163, chatboxai/chatbox#1740)
        openai.refusal(
            400,
            "Failed to deserialize the JSON body into the target type: messages[7]: unknown "
            "variant `image_url`, expected `text` at line 1 column 114708",
        ),
        openai.refusal(
            422,
            "Failed to deserialize the JSON body into the target type: messages[1]: data did not "
            "match any variant of untagged enum ChatCompletionRequestContent at line 1 column 9",
        ),
        openai.refusal(
            422,
            "Failed to deserialize the JSON body into the target type: messages[2]: invalid type: "
            "sequence, expected a string at line 1 column 2901",
        ),
        # Groq (vercel/ai#2837)
        openai.refusal(400, "'messages.0' : for 'role:user' messages[0].content must be a string"),
        # LM Studio, once the response has begun
        openai.Stream(
            b'event: error\ndata: {"error":{"message":"Model does not support images. Please use '
            b'a model that does."}}\n\n'
        ),
    ],
)
async def test_a_server_that_refuses_pictures_gets_none_again(refusal: Any):
    async with OPENAI.talking(refusal) as model:
        assert model.images
        assert (await hear(model, user("What?", CAT)))[0] == Text("Ah.")
        assert not model.images
        await hear(model, user("What?", CAT), said("Ah."), user("So?"))
    assert len(OPENAI.requests) == 3
    assert OPENAI.said(1) == [("user", [f"{sentence(CAT)}\n\nWhat?"])]
    assert OPENAI.said(2)[0] == ("user", [f"{sentence(CAT)}\n\nWhat?"])


async def test_a_model_without_vision_is_recognised_by_its_refusal():
    async with OPENAI.talking(sees=False) as model:
        assert (await hear(model, user("What?", CAT)))[0] == Text("Ah.")
    assert len(OPENAI.requests) == 2


async def test_a_picture_error_without_pictures_does_not_disable_pictures():
    says = said_with(500, '{"error":{"message":"image input is not supported by this server"}}')
    async with OPENAI.talking(says) as model:
        with pytest.raises(ModelRefused):
            await hear(model, user("What?"))
        assert model.images
        await hear(model, user("What?", CAT))
        assert OPENAI.said() == [("user", [CAT, "What?"])]


async def test_a_failing_server_is_retried_with_the_picture():
    async with OPENAI.talking(openai.server_error()) as model:
        await hear(model, user("What?", CAT))
        assert OPENAI.said() == [("user", [CAT, "What?"])]
    async with OPENAI.talking(*[openai.server_error()] * 3) as model:
        with pytest.raises(ModelServerError):
            await hear(model, user("What?", CAT))


async def test_refused_pictures_and_a_refused_field_are_handled_together():
    other = openai.refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'")
    usage = openai.refusal(400, "Unknown parameter: 'stream_options'")
    blind = openai.refusal(400, "this model does not support image input")
    async with OPENAI.talking(other, usage, blind) as model:
        assert (await hear(model, user("What?", CAT)))[0] == Text("Ah.")
    assert "max_completion_tokens" in OPENAI.requests[-1]
    assert "stream_options" not in OPENAI.requests[-1]


async def test_a_small_model_has_no_vision_unless_configured():
    assert await OPENAI.sent(user("Hm?", CAT), small=True) == [
        ("user", [f"{sentence(CAT)}\n\nHm?"])
    ]
    assert await OPENAI.sent(user("Hm?", CAT), small=True, images=True) == [("user", [CAT, "Hm?"])]


async def test_a_message_without_pictures_is_sent_as_a_plain_string():
    await OPENAI.sent(user("One", CAT), said("Ah."), user("Two"), images=False)
    assert all(isinstance(m["content"], str) for m in OPENAI.requests[0]["messages"])
    await OPENAI.sent(user("One", CAT), said("Ah."), user("Two"))
    assert [type(m["content"]) for m in OPENAI.requests[0]["messages"]] == [str, list, str, str]


# Lone surrogates


async def test_a_lone_surrogate_is_replaced(wire: Wire):
    half = "\ud83d"
    call = ToolCall(f"c{half}", f"run{half}", f'{{"command": "{half}"}}')
    messages = (user(f"a{half}"), said(f"b{half}", call), result(call), user(f"{half}\ude00", CAT))
    sent = await wire.sent(*messages)
    assert sent[0] == ("user", ["a\ufffd"])
    assert sent[1] == ("assistant", ["b\ufffd"])
    assert sent[-1] == ("user", [CAT, "😀"])


async def test_a_lone_surrogate_in_the_prompt_of_a_small_model_is_replaced():
    call = ToolCall("c1", "run", '{"command": "\ud83d"}')
    told = await OPENAI.sent(user("a\ud83d"), said("", call), result(call), small=True)
    assert told[0] == ("user", ["a\ufffd"])
    assert "\ufffd" in str(told[1])
