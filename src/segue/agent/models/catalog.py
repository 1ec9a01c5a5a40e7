"""Who serves models, and how to ask them: all that we know beforehand, as of November 2026.

A model's name is `provider/model`. What stands here grows old: default models are replaced about
twice a year, and a context that is not known is taken to be smaller than it may be, because a
conversation that is shortened early goes on, and one that is too long does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from segue.config import KEY_VARIABLES


class Wire(StrEnum):
    """What a provider speaks."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A service that wants a key."""

    name: str
    title: str
    base_url: str
    wire: Wire = Wire.OPENAI
    default: str | None = None
    """The model to use when the person named none; None when they have to."""
    usual: int
    """The context of models that are not in `contexts`, in tokens."""
    contexts: Mapping[str, int] = field(default_factory=dict[str, int])
    """By how a model's name begins; the longest beginning counts."""
    vendor: str = ""
    """Whose model it is when the name does not say so, where names there are `vendor/model`."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Where the key may be in the environment."""
        return KEY_VARIABLES[self.name]

    def model(self, name: str) -> str:
        """The model's name as the provider knows it."""
        return f"{self.vendor}/{name}" if self.vendor and name and "/" not in name else name

    def shown(self, model: str) -> str:
        """The name that a person types for one of the provider's models."""
        return f"{self.name}/{model.removeprefix(f'{self.vendor}/') if self.vendor else model}"

    def context_of(self, model: str) -> int:
        """How many tokens `model`, named as the provider knows it, can take."""
        fitting = [beginning for beginning in self.contexts if model.startswith(beginning)]
        return self.contexts[max(fitting, key=len)] if fitting else self.usual


PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            name="anthropic",
            title="Anthropic",
            base_url="https://api.anthropic.com",
            wire=Wire.ANTHROPIC,
            default="claude-sonnet-5",
            usual=200_000,
            contexts={"claude-sonnet-5": 1_000_000},
        ),
        Provider(
            name="openai",
            title="OpenAI",
            base_url="https://api.openai.com/v1",
            default="gpt-5.5",
            usual=128_000,
            contexts={
                "gpt-5": 400_000,
                "gpt-4.1": 1_000_000,
                "gpt-4-": 8_192,
                "gpt-4-turbo": 128_000,
                "gpt-3.5": 16_384,
                "o1": 200_000,
                "o3": 200_000,
                "o4": 200_000,
            },
        ),
        Provider(
            name="gemini",
            title="Gemini",
            base_url="https://generativelanguage.googleapis.com/v1beta",
            wire=Wire.GEMINI,
            default="gemini-flash-latest",
            usual=32_768,
            contexts={"gemini-": 1_000_000, "gemma-3": 128_000},
        ),
        Provider(
            name="openrouter",
            title="OpenRouter",
            base_url="https://openrouter.ai/api/v1",
            default="auto",
            usual=64_000,
            contexts={
                "openrouter/auto": 128_000,
                "anthropic/": 200_000,
                "anthropic/claude-sonnet-5": 1_000_000,
                "openai/": 128_000,
                "openai/gpt-5": 400_000,
                "google/gemini-": 1_000_000,
            },
            vendor="openrouter",
        ),
        Provider(
            name="groq",
            title="Groq",
            base_url="https://api.groq.com/openai/v1",
            usual=128_000,
        ),
        Provider(
            name="mistral",
            title="Mistral",
            base_url="https://api.mistral.ai/v1",
            usual=128_000,
        ),
        Provider(
            name="deepseek",
            title="DeepSeek",
            base_url="https://api.deepseek.com/v1",
            usual=128_000,
        ),
    )
}
"""In the order in which a key decides when the person did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A program on this machine that serves models without a key."""

    name: str
    title: str
    port: int
    context: int = 8_192
    """What such a server gives a conversation is its own setting, which it does not tell. Whoever
    gave more names the server as an endpoint, with its context."""

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return f"http://{self.place}/v1"


SERVERS = (
    Server(name="ollama", title="Ollama", port=11434),
    Server(name="lmstudio", title="LM Studio", port=1234),
    Server(name="llamacpp", title="llama.cpp", port=8080),
)
"""In the order in which one that answers is taken."""

LOCAL = "local"
"""The name of the embedded model."""
SCRIPTED = "scripted"
"""The name of the model that is none."""
