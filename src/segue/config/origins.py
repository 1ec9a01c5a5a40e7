"""The value of each setting, and its origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from segue.config import names
from segue.config.file import RESET_KEYS, EndpointTable, PlatformTable
from segue.config.values import KEY_VARIABLES, Settings
from segue.core.address import Platform
from segue.core.reset import ResetPolicy
from segue.core.secret import Secret
from segue.platforms import registry
from segue.platforms.spec import PlatformSettings, PlatformSpec

FILE = "file"
DEFAULT = "default"
OPENAI_URL = "OPENAI_BASE_URL"

Value = str | bool | float | tuple[str, ...] | Secret | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    name: str
    value: Value
    """None if it is not set and has no default."""
    origin: str
    """The variable that overrides it, `file`, or `default`."""


def explain(
    settings: Settings, tables: Mapping[str, Any], variables: Mapping[str, str]
) -> tuple[Setting, ...]:
    """Return all settings.

    `tables` holds the contents of the file. `variables` maps a setting to the environment variable
    that overrides it.
    """
    return tuple(
        Setting(name=name, value=value, origin=variables.get(name) or _origin(name, tables))
        for name, value in _values(settings)
    )


def _values(settings: Settings) -> Iterator[tuple[str, Value]]:
    yield "store", settings.store
    yield "model", settings.model
    yield "private_network", settings.private_network
    yield "server_accounts", settings.server_accounts
    yield "models_folder", str(settings.models_folder)
    yield "idle_minutes", settings.idle_minutes
    yield "gateway_log", str(settings.gateway_log)
    for provider in KEY_VARIABLES:
        yield f"keys.{provider}", settings.keys.get(provider)
    for endpoint in settings.endpoints.values():
        for field in EndpointTable.__struct_fields__:
            yield f"endpoints.{endpoint.name}.{field}", getattr(endpoint, field)
    yield "approvals.policy", str(settings.approvals.policy)
    for platform in Platform:
        yield f"approvals.platforms.{platform}", str(settings.approvals.policy_on(platform))
    yield "approvals.allowed_commands", settings.approvals.allowed_commands
    yield "web.enabled", settings.web.enabled
    yield "web.port", settings.web.port or 0
    yield "web.lan", settings.web.lan
    for spec in registry.SPECS.values():
        yield from _platform(spec, settings.platforms.get(spec.platform))
    yield from _policy("reset", settings.resets.default)
    yield "reset.zone", str(settings.zone)
    for name, chats in RESET_KEYS.items():
        if policy := settings.resets.overrides.get(chats):
            yield from _policy(f"reset.for.{name}", policy)
    if settings.openai_url:  # not a setting in the file
        yield OPENAI_URL, settings.openai_url


def _platform(spec: PlatformSpec, found: PlatformSettings | None) -> Iterator[tuple[str, Value]]:
    found = found or PlatformSettings(platform=spec.platform, enabled=False)
    for name in PlatformTable.__struct_fields__:
        yield f"platforms.{spec.platform}.{name}", getattr(found, name)
    for field in spec.fields:
        yield spec.setting(field), found.values.get(field.name)


def _policy(name: str, policy: ResetPolicy) -> Iterator[tuple[str, Value]]:
    yield f"{name}.mode", str(policy.mode)
    yield f"{name}.idle_minutes", policy.idle.total_seconds() / 60
    yield f"{name}.hour", policy.hour


def _origin(name: str, tables: Mapping[str, Any]) -> str:
    found: object = tables
    for part in names.parts(name):
        found = cast("dict[str, object]", found).get(part) if isinstance(found, dict) else None
    # An empty string counts as not set.
    return DEFAULT if found is None or found == "" else FILE
