"""The settings: what can be set, and the values that the program uses.

Each setting is a field, and its type, default and description are there: `segue.core.setting`
explains them. Fields without a description are worked out while the settings are read.
"""

# Without `from __future__ import annotations`: the program reads the types of the fields.
from collections.abc import Iterator, Mapping
from datetime import timedelta, tzinfo
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from msgspec import Meta, Struct, field

from segue.core.address import TARGETS, ChatType, Platform
from segue.core.approval import Policy
from segue.core.reset import ResetMode, ResetPolicies, ResetPolicy
from segue.core.secret import Secret
from segue.core.setting import Described, Entries
from segue.platforms import registry
from segue.platforms.spec import PlatformSettings

KEYS: Mapping[str, Described] = {
    "anthropic": Described("the key for Anthropic", ("ANTHROPIC_API_KEY",)),
    "openai": Described("the key for OpenAI", ("OPENAI_API_KEY",)),
    "gemini": Described(
        "the key for Gemini; the first variable takes precedence",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "openrouter": Described("the key for OpenRouter", ("OPENROUTER_API_KEY",)),
    "groq": Described("the key for Groq", ("GROQ_API_KEY",)),
    "mistral": Described("the key for Mistral", ("MISTRAL_API_KEY",)),
    "deepseek": Described("the key for DeepSeek", ("DEEPSEEK_API_KEY",)),
}
"""Known providers. The first one with a key is used if the user names no model."""

KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {name: key.variables for name, key in KEYS.items()}
"""The variables that hold the keys of the providers. The first one that is set counts."""


VARIABLES = (
    Described(
        "the absolute path of another settings file",
        ("SEGUE_CONFIG",),
        "`config.toml` in your configuration folder",
    ),
    Described(
        "another URL for OpenAI's API; it receives the key for OpenAI",
        ("OPENAI_BASE_URL",),
        "OpenAI itself",
    ),
    Described("this machine's time zone", ("TZ",), "the system's"),
    Described(
        "the editor that `segue config edit` opens; the first takes precedence",
        ("VISUAL", "EDITOR"),
        "nano or vi",
    ),
)
"""What only environment variables say."""


# Texts with a meaning


def url(text: str) -> str:
    """Return the URL without a trailing slash, or raise ValueError."""
    try:
        parts = urlsplit(text)
        whole = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        named = parts.username is not None
    except ValueError:
        whole = named = False
    if named:
        raise ValueError("an address holds no name and no password; put a key into its setting")
    if not whole or not text.isprintable():
        raise ValueError("expected http://… or https://…")
    return text.rstrip("/")


def absolute_path(text: str) -> Path:
    """Return the path, or raise ValueError if it depends on the working directory."""
    try:
        found = Path(text).expanduser()
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    if not found.is_absolute():
        raise ValueError("expected a path that begins with / or ~")
    return found


def time_zone(text: str) -> tzinfo:
    """Return the time zone of this name, or raise ValueError."""
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError("there is no such time zone; expected one such as Europe/Oslo") from error


# The tables of the file


class Endpoint(Struct, frozen=True, kw_only=True):
    """A server named by the user, compatible with OpenAI's chat completions."""

    name: str
    url: Annotated[
        str, Described("the base URL of your own server, up to and including `/v1`", read=url)
    ]
    key: Annotated[Secret | None, Described("its key, if it needs one")] = None
    context: Annotated[
        int, Meta(ge=1024), Described("the context size of its models, in tokens")
    ] = 32_768
    images: Annotated[bool, Described("whether its models accept images")] = False
    small: Annotated[bool, Described("whether its models need a short prompt and few tools")] = (
        False
    )


class Approvals(Struct, frozen=True, kw_only=True):
    """Actions that the agent may perform without asking."""

    policy: Annotated[Policy, Described("what the agent may do without asking")] = Policy.ASK
    platforms: Annotated[
        Mapping[
            Platform,
            Annotated[
                Policy,
                Described(
                    "the same for one platform, such as local, web or telegram",
                    default="the value of `approvals.policy`",
                ),
            ],
        ],
        Entries("PLATFORM", lambda: Platform),
    ] = field(default_factory=dict[Platform, Policy])
    allowed_commands: Annotated[
        tuple[str, ...],
        Described("the first words of commands that `allow-list` allows: see below"),
    ] = ()

    def policy_on(self, platform: Platform) -> Policy:
        return self.platforms.get(platform, self.policy)


class WebSettings(Struct, frozen=True, kw_only=True):
    """How the built-in page is served."""

    enabled: Annotated[bool, Described("whether the gateway serves the built-in page")] = True
    port: Annotated[
        Annotated[int, Meta(ge=0, le=65535)] | None,
        Described(
            "the port of the page; 0 means the last port used, or else 8790 or the next free one",
            unset=0,
        ),
    ] = None
    lan: Annotated[
        bool,
        Described(
            "whether the local network may open the page; if not set, `/handoff web` asks: see"
            " [the page](web.md)"
        ),
    ] = False


class ResetRule(Struct, frozen=True, kw_only=True):
    """When some chats start a new session."""

    mode: Annotated[ResetMode, Described("when a chat starts a new session")] = ResetMode.NONE
    idle_minutes: Annotated[
        float,
        Meta(ge=0.001, le=36_500 * 24 * 60),
        Described("minutes without a message before a reset, for `idle` and `both`"),
    ] = 24 * 60.0
    hour: Annotated[
        int,
        Meta(ge=0, le=23),
        Described("the hour of the reset, from 0 to 23, for `daily` and `both`"),
    ] = 4

    @property
    def policy(self) -> ResetPolicy:
        return ResetPolicy(
            mode=self.mode, idle=timedelta(minutes=self.idle_minutes), hour=self.hour
        )


def chat_names() -> Iterator[str]:
    """Yield the names of chats that can have a rule of their own: a platform, a kind, or both."""
    yield from TARGETS
    yield from ChatType
    for platform in TARGETS:
        for kind in ChatType:
            yield f"{platform}-{kind}"


def _chats(name: str) -> tuple[Platform | None, ChatType | None]:
    """Return the platform and the kind of chat in a name of `chat_names`."""
    platform, _, kind = name.rpartition("-")
    if platform:
        return Platform(platform), ChatType(kind)
    return (Platform(kind), None) if kind in TARGETS else (None, ChatType(kind))


class ResetSettings(ResetRule, frozen=True, kw_only=True):
    """When chats start new sessions, in the user's time zone."""

    zone: Annotated[
        tzinfo,
        Described(
            "the time zone of that hour, such as `Europe/Oslo`",
            default="this machine's",
            read=time_zone,
        ),
    ]
    chats: Annotated[Mapping[str, ResetRule], Entries("CHATS", chat_names, inherit=True)] = field(
        name="for", default_factory=dict[str, ResetRule]
    )
    """The rules of some chats, by the names in `chat_names`."""

    @property
    def policies(self) -> ResetPolicies:
        overrides = {_chats(name): rule.policy for name, rule in self.chats.items()}
        return ResetPolicies(default=self.policy, overrides=overrides)


class Settings(Struct, frozen=True, kw_only=True):
    """The user's settings, with defaults for the rest."""

    store: Annotated[
        str,
        Described(
            "where conversations are stored: see [store.md](store.md)",
            ("SEGUE_STORE",),
            "a file in your data folder",
        ),
    ]
    """A URL: `sqlite:///absolute/path.db` or `postgresql://…`. It may contain a password."""
    model: Annotated[
        str | None,
        Described("the model to use: see below", ("SEGUE_MODEL",), "the first available one"),
    ] = None
    private_network: Annotated[
        bool, Described("whether the agent may fetch pages from private addresses")
    ] = False
    server_accounts: Annotated[
        tuple[str, ...],
        Described(
            "other accounts of this machine, such as `ollama`, whose model servers may receive"
            " conversations: see [models](models.md)"
        ),
    ] = ()
    models_folder: Annotated[
        Path,
        Described(
            "the absolute path of the embedded model's folder",
            ("SEGUE_MODELS",),
            "`models` in your data folder",
            absolute_path,
        ),
    ]
    idle_minutes: Annotated[
        float,
        Meta(gt=0),
        Described("minutes without use before the embedded model is unloaded from memory"),
    ] = 10.0
    gateway_log: Annotated[
        Path,
        Described(
            "the absolute path of a background gateway's log",
            ("SEGUE_GATEWAY_LOG",),
            "`gateway.log` in your data folder",
            absolute_path,
        ),
    ]
    keys: Annotated[Mapping[str, Secret], Entries("PROVIDER", lambda: KEYS, KEYS)] = field(
        default_factory=dict[str, Secret]
    )
    endpoints: Annotated[Mapping[str, Endpoint], Entries("NAME", own_name="name")] = field(
        default_factory=dict[str, Endpoint]
    )
    approvals: Approvals = Approvals()
    web: WebSettings = WebSettings()
    platforms: Annotated[
        Mapping[Platform, PlatformSettings],
        Entries("PLATFORM", lambda: registry.SPECS),
    ] = field(default_factory=dict[Platform, PlatformSettings])
    """All platforms with at least one setting, even if not enabled."""
    reset: ResetSettings

    path: Path
    """The settings file, which may not exist."""
    model_from: str = ""
    """The setting that chose the model, or an empty string."""
    openai_url: str | None = None
    """The URL of OpenAI's API, if not the usual one. It comes from a variable alone."""
    warnings: tuple[str, ...] = ()
    """Warnings about the settings for the user."""

    def __repr__(self) -> str:
        return f"Settings(path={self.path!r})"  # the store's URL may contain a password

    @property
    def zone(self) -> tzinfo:
        """The user's time zone, for hours of the day."""
        return self.reset.zone

    @property
    def resets(self) -> ResetPolicies:
        return self.reset.policies
