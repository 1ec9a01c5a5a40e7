"""Anthropic and Gemini for the tests: each with a strict fake and sample answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from segue.agent.models import anthropic as to_anthropic
from segue.agent.models import gemini as to_gemini
from segue.agent.models.anthropic import AnthropicModel
from segue.agent.models.base import Piece, Prompt
from segue.agent.models.gemini import GeminiModel
from segue.agent.models.hosted import HostedModel, Timeouts
from segue.core.transcript import Message
from segue.testing.http import serving
from tests.agent.models.answers import HASTE, ask, heard
from tests.fakes.models import anthropic, gemini
from tests.fakes.models.anthropic import FakeAnthropic
from tests.fakes.models.gemini import FakeGemini
from tests.fakes.models.strict import Failure, StrictFake


@dataclass(frozen=True, kw_only=True)
class Provider:
    name: str
    client: type[HostedModel]
    given: Mapping[str, Any]
    """The default arguments of the client."""
    fake: Callable[..., StrictFake[Any]]
    root: str = ""
    """The path of the API on its server."""
    build: Callable[[Prompt], dict[str, Any]]
    recorded: Any
    """An answer with text and two parallel calls."""
    middle: int
    """A number of bytes of the recorded answer that contains its first words, but not its end."""
    done: Any
    sse: Callable[[Any], bytes]
    busy: Failure
    limited: Failure
    """A rate limit error that asks the client to wait 0.2 seconds."""

    def model_at(self, url: str, patience: Timeouts = HASTE, **more: Any) -> HostedModel:
        known: dict[str, Any] = {"base_url": f"{url}{self.root}", "patience": patience}
        return self.client(**{**self.given, **known, **more})

    @asynccontextmanager
    async def talking(
        self, fake: StrictFake[Any], patience: Timeouts = HASTE, **more: Any
    ) -> AsyncGenerator[HostedModel]:
        async with serving(fake) as url:
            model = self.model_at(url, patience, **more)
            try:
                yield model
            finally:
                await model.close()

    async def exchange(
        self, *script: Any, prompt: Prompt | None = None, **more: Any
    ) -> list[Piece]:
        async with self.talking(self.fake(script), **more) as model:
            return await heard(model, prompt)

    async def accepted(
        self, *messages: Message, given: Mapping[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        """Return the request, after checking that the fake accepted it."""
        fake = self.fake([self.done])
        async with self.talking(fake, **(given or {})) as model:
            await heard(model, ask(*messages, **more))
        assert not fake.refusals
        return fake.requests[0]


CLAUDE = Provider(
    name="anthropic",
    client=AnthropicModel,
    given={
        "name": "anthropic/claude-fake",
        "model": "claude-fake",
        "key": "sk-ant-fake",
        "setting": "ANTHROPIC_API_KEY",
        "context": 200_000,
    },
    fake=FakeAnthropic,
    build=lambda prompt: to_anthropic.build("claude-fake", prompt, thinking=True),
    recorded=anthropic.Answer(
        content=[
            anthropic.text("Both files — «naïve», 漢字."),
            anthropic.tool_use("toolu_01A", "run", command="cat a", n=[1]),
            anthropic.tool_use("toolu_01B", "run"),
        ],
        stop="tool_use",
        usage={
            "input_tokens": 10,
            "cache_creation_input_tokens": 5,
            "cache_read_input_tokens": 300,
            "output_tokens": 42,
        },
    ),
    middle=900,
    done=anthropic.Answer(content=[anthropic.text("Done.")]),
    sse=anthropic.sse,
    busy=anthropic.OVERLOADED,
    limited=Failure(status=429, kind="rate_limit_error", headers={"retry-after": "0.2"}),
)

GEMINI = Provider(
    name="gemini",
    client=GeminiModel,
    given={
        "name": "gemini/gemini-3-fake",
        "model": "gemini-3-fake",
        "key": "AIza-fake",
        "setting": "GEMINI_API_KEY",
        "context": 1_048_576,
    },
    fake=FakeGemini,
    root="/v1beta",
    build=lambda prompt: to_gemini.build("gemini-3-fake", prompt, signed=True),
    recorded=gemini.Answer(
        chunks=[
            [gemini.text("Both files — "), gemini.text("«naïve», 漢字.")],
            [gemini.call("run", signature="c2lnMQ==", call_id="fc1", command="cat a", n=[1])],
            [gemini.call("run", call_id="fc2")],
        ],
        usage={
            "promptTokenCount": 310,
            "cachedContentTokenCount": 300,
            "candidatesTokenCount": 40,
            "thoughtsTokenCount": 2,
            "toolUsePromptTokenCount": 5,
        },
    ),
    middle=600,
    done=gemini.Answer(chunks=[[gemini.text("Done.")]]),
    sse=gemini.sse,
    busy=gemini.OVERLOADED,
    limited=Failure(status=429, kind="RESOURCE_EXHAUSTED", headers={"retry-after": "0.2"}),
)
