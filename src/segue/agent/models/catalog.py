"""The known providers and local servers, as of November 2026.

A model's name is `provider/model`. These entries go out of date: default models are replaced about
twice a year. Unknown contexts are set low, because a conversation that is shortened too early can
continue, while one that is too long fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field


class ApiFormat(StrEnum):
    """The API format of a provider."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"

    def headers(self, key: str) -> dict[str, str]:
        """The headers that carry the key."""
        match self:
            case ApiFormat.OPENAI:
                return {"Authorization": f"Bearer {key}"} if key else {}
            case ApiFormat.ANTHROPIC:
                return {"x-api-key": key, "anthropic-version": "2023-06-01"}
            case ApiFormat.GEMINI:
                return {"x-goog-api-key": key}


class Provider(Struct, frozen=True, kw_only=True):
    """A service that needs a key."""

    name: str
    title: str
    base_url: str
    wire: ApiFormat = ApiFormat.OPENAI
    default: str | None = None
    """The model to use if the user named none. None if they have to name one."""
    usual: int
    """The context in tokens of models that are not in `contexts`."""
    contexts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Context in tokens by model name prefix. The longest matching prefix wins."""
    key_start: str = ""
    """How its keys begin, if they can be told by that."""
    vendor: str = ""
    """The vendor to add to names without one, for a provider whose names are `vendor/model`."""

    def model(self, name: str) -> str:
        """The provider's own name for the model."""
        return f"{self.vendor}/{name}" if self.vendor and name and "/" not in name else name

    def shown(self, model: str) -> str:
        """The name that the user types for one of the provider's models."""
        return f"{self.name}/{model.removeprefix(f'{self.vendor}/') if self.vendor else model}"

    def context_of(self, model: str) -> int:
        """The context in tokens of `model`, given the provider's own name for it."""
        fitting = [beginning for beginning in self.contexts if model.startswith(beginning)]
        return self.contexts[max(fitting, key=len)] if fitting else self.usual


PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            name="anthropic",
            title="Anthropic",
            base_url="https://api.anthropic.com",
            wire=ApiFormat.ANTHROPIC,
            default="claude-sonnet-5",
            key_start="sk-ant-",
            usual=200_000,
            contexts={"claude-sonnet-5": 1_000_000},
        ),
        Provider(
            name="openai",
            title="OpenAI",
            base_url="https://api.openai.com/v1",
            default="gpt-5.5",
            key_start="sk-",
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
            wire=ApiFormat.GEMINI,
            default="gemini-flash-latest",
            key_start="AIza",
            usual=32_768,
            contexts={"gemini-": 1_000_000, "gemma-3": 128_000},
        ),
        Provider(
            name="openrouter",
            title="OpenRouter",
            base_url="https://openrouter.ai/api/v1",
            default="auto",
            key_start="sk-or-",
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
            name="groq", title="Groq", base_url="https://api.groq.com/openai/v1", usual=128_000
        ),
        Provider(
            name="mistral", title="Mistral", base_url="https://api.mistral.ai/v1", usual=128_000
        ),
        Provider(
            name="deepseek", title="DeepSeek", base_url="https://api.deepseek.com/v1", usual=128_000
        ),
    )
}
"""In order of preference, for when the user has several keys and named no model."""


class ModelServer(Struct, frozen=True, kw_only=True):
    """A program on this machine that serves models without a key."""

    name: str
    title: str
    port: int
    context: int = 8_192
    """In tokens. A server does not report its configured context. A user who configured a larger
    one can add the server as an endpoint with that context."""

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return f"http://{self.place}/v1"


SERVERS = (
    ModelServer(name="ollama", title="Ollama", port=11434),
    ModelServer(name="lmstudio", title="LM Studio", port=1234),
    ModelServer(name="llamacpp", title="llama.cpp", port=8080),
)
"""In the order in which they are offered."""

LOCAL = "local"
"""The name of the embedded model."""
SCRIPTED = "scripted"
"""The name of the scripted stand-in."""
