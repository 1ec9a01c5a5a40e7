"""The variables that we read from the environment, and which setting each of them overrules."""

from __future__ import annotations

from collections.abc import Mapping

from segue.config.values import KEY_VARIABLES
from segue.core.handoff import TARGETS

ENVIRONMENT = "the environment"
"""Where a variable is, for people."""

OVERRULE: Mapping[str, tuple[str, ...]] = {
    "store": ("SEGUE_STORE",),
    "model": ("SEGUE_MODEL",),
    "models_folder": ("SEGUE_MODELS",),
    "gateway_log": ("SEGUE_GATEWAY_LOG",),
    **{f"keys.{provider}": variables for provider, variables in KEY_VARIABLES.items()},
    **{f"platforms.{p}.url": (f"SEGUE_{p.upper()}_URL",) for p in TARGETS},
    **{f"platforms.{p}.token": (f"SEGUE_{p.upper()}_TOKEN",) for p in TARGETS},
}
"""The variables that go before a setting in the file; the first that is set counts."""

VARIABLES = (
    "SEGUE_CONFIG",
    "OPENAI_BASE_URL",
    *(variable for variables in OVERRULE.values() for variable in variables),
    "TZ",
    "VISUAL",
    "EDITOR",
)
"""Everything that we read from the environment."""


def decides(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """The variable that decides the setting `name`, and what is in it; empty when none does."""
    for variable in OVERRULE.get(name, ()):
        if value := environ.get(variable, "").strip():
            return variable, value
    return "", ""


def secret_names() -> frozenset[str]:
    """The variables that may hold a secret of ours, which no command of the agent's may see."""
    return frozenset(
        variable
        for name, variables in OVERRULE.items()
        # The address of a store may hold its password.
        if name == "store" or name.startswith("keys.") or name.endswith(".token")
        for variable in variables
    )
