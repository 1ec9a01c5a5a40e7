"""The types of settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path

from segue.core.address import Platform
from segue.core.approval import Policy
from segue.core.reset import ResetPolicies
from segue.core.secret import Secret
from segue.platforms.spec import PlatformSettings

KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
}
"""Known providers, and the variables that hold their keys. The first one that is set counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server named by the user, compatible with OpenAI's chat completions."""

    name: str
    url: str
    key: Secret | None = None
    context: int
    images: bool
    small: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """Actions that the agent may perform without asking."""

    policy: Policy = Policy.ASK
    platforms: Mapping[Platform, Policy] = field(default_factory=dict[Platform, Policy])
    allowed_commands: tuple[str, ...] = ()

    def policy_on(self, platform: Platform) -> Policy:
        return self.platforms.get(platform, self.policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """How the built-in page is served."""

    enabled: bool = True
    port: int | None = None
    """None for the port last used, or a default port."""
    lan: bool = False
    """Whether the page is also served to the local network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The user's settings, with defaults for the rest."""

    path: Path
    """The settings file, which may not exist."""
    store: str = field(repr=False)  # the URL may contain a password
    """The store's URL: `sqlite:///absolute/path.db` or `postgresql://…`."""
    models_folder: Path
    """The folder with the embedded model's weights."""
    idle_minutes: float
    """Idle time after which the embedded model is unloaded from memory."""
    gateway_log: Path
    """The log file of a gateway that runs in the background."""
    zone: tzinfo = field(metadata={"setting": "reset"})
    """The user's time zone, for hours of the day."""
    model: str | None = None
    """The name of the model that the user chose."""
    model_from: str = ""
    """The setting that chose the model, or an empty string."""
    server_accounts: tuple[str, ...] = ()
    """Other accounts of this machine whose model servers may be used."""
    keys: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    """Keyed by provider name."""
    openai_url: str | None = None
    """The URL of OpenAI's API, if not the usual one."""
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict[str, Endpoint])
    """Keyed by name."""
    approvals: Approvals = Approvals()
    platforms: Mapping[Platform, PlatformSettings] = field(
        default_factory=dict[Platform, PlatformSettings]
    )
    """All platforms with at least one setting, even if not enabled."""
    web: WebSettings = WebSettings()
    resets: ResetPolicies = field(default_factory=ResetPolicies, metadata={"setting": "reset"})
    private_network: bool = False
    """Whether pages on private addresses may be fetched."""
    warnings: tuple[str, ...] = ()
    """Warnings about the settings for the user."""
