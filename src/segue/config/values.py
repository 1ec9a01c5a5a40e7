"""What settings are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from segue.core import redaction
from segue.core.address import Platform
from segue.core.approval import Policy
from segue.core.reset import ResetPolicies

KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
}
"""Whose keys we know, and the variables that hold them; the first that is set counts."""


class Secret:
    """A key, and the setting it came from. Only `reveal` shows it: no repr, no dump and no error
    does."""

    __slots__ = ("_value", "setting")

    def __init__(self, value: str, setting: str) -> None:
        self._value = value
        self.setting = setting
        redaction.remember(value)

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"<the key in {self.setting}>"

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not written down")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server that the person named, compatible with OpenAI's chat completions."""

    name: str
    url: str
    key: Secret | None = None
    context: int
    images: bool
    small: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """What the agent may do without asking."""

    policy: Policy = Policy.ASK
    platforms: Mapping[Platform, Policy] = field(default_factory=dict[Platform, Policy])
    allowed_commands: tuple[str, ...] = ()

    def policy_on(self, platform: Platform) -> Policy:
        return self.platforms.get(platform, self.policy)


class Groups(StrEnum):
    """What is answered in a chat with several people."""

    ADDRESSED = "addressed"
    """What is said to the agent: by its name, as a reply to it, or in a thread of its own."""
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSettings:
    """How to speak to one platform."""

    platform: Platform
    enabled: bool = True
    """Whether a gateway is to serve it."""
    adapter: str = ""
    """`package.module:function`, which makes the adapter; empty for the built-in one."""
    url: str | None = None
    """Where its server is, for platforms that have one of one's own."""
    token: Secret | None = None
    groups: Groups = Groups.ADDRESSED


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """How the built-in page is served."""

    enabled: bool = True
    port: int | None = None
    """None for the last one, or a usual one."""
    lan: bool = False
    """Whether the local network may open it, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the person decided, and what follows where they did not."""

    path: Path
    """The settings file, whether or not it is there."""
    store: str = field(repr=False)  # its address may hold a password
    """Where conversations are kept: `sqlite:///absolute/path.db` or `postgresql://…`."""
    models_folder: Path
    """Where the embedded model's weights are."""
    idle_minutes: float
    """After how long without use the embedded model leaves memory."""
    gateway_log: Path
    """Where a gateway that was started in the background tells what it does."""
    zone: tzinfo
    """Where the person lives, for hours of the day."""
    model: str | None = None
    """The name of the model that the person chose."""
    model_from: str = ""
    """The setting that chose it; empty when none did."""
    server_accounts: tuple[str, ...] = ()
    """Other accounts of this machine whose model servers may be used."""
    keys: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    """By the provider's name."""
    openai_url: str | None = None
    """Where OpenAI's API is, when it is somewhere else."""
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict[str, Endpoint])
    """By their names."""
    approvals: Approvals = Approvals()
    platforms: Mapping[Platform, PlatformSettings] = field(
        default_factory=dict[Platform, PlatformSettings]
    )
    """Those of which anything is set, the ones that are not enabled included."""
    web: WebSettings = WebSettings()
    resets: ResetPolicies = field(default_factory=ResetPolicies)
    private_network: bool = False
    """Whether pages on private addresses may be fetched."""
    warnings: tuple[str, ...] = ()
    """What the person should know about the settings themselves."""
