"""Each setting's value, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from segue.config import names
from segue.config.file import EndpointTable
from segue.config.values import KEY_VARIABLES, Secret, Settings
from segue.core.address import Platform

FILE = "file"
DEFAULT = "default"
OPENAI_URL = "OPENAI_BASE_URL"

Value = str | bool | float | tuple[str, ...] | Secret | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    name: str
    value: Value
    """None when nothing is set, and nothing stands in for it."""
    origin: str
    """The variable that decides it, `file`, or `default`."""


def explain(
    settings: Settings, tables: Mapping[str, Any], variables: Mapping[str, str]
) -> tuple[Setting, ...]:
    """All settings. `tables` is what the file says, `variables` names the variable of each
    setting that has one which is set."""
    return tuple(
        Setting(name=name, value=value, origin=variables.get(name) or _origin(name, tables))
        for name, value in _values(settings)
    )


def _values(settings: Settings) -> Iterator[tuple[str, Value]]:
    yield "store", settings.store
    yield "model", settings.model
    yield "private_network", settings.private_network
    yield "models_folder", str(settings.models_folder)
    yield "idle_minutes", settings.idle_minutes
    for provider in KEY_VARIABLES:
        yield f"keys.{provider}", settings.keys.get(provider)
    for endpoint in settings.endpoints.values():
        for field in EndpointTable.__struct_fields__:
            yield f"endpoints.{endpoint.name}.{field}", getattr(endpoint, field)
    yield "approvals.policy", str(settings.approvals.policy)
    for platform in Platform:
        yield f"approvals.platforms.{platform}", str(settings.approvals.policy_on(platform))
    yield "approvals.allowed_commands", settings.approvals.allowed_commands
    if settings.openai_url:  # which is no setting of the file's
        yield OPENAI_URL, settings.openai_url


def _origin(name: str, tables: Mapping[str, Any]) -> str:
    found: object = tables
    for part in names.parts(name):
        found = cast("dict[str, object]", found).get(part) if isinstance(found, dict) else None
    # An empty text is as good as none.
    return DEFAULT if found is None or found == "" else FILE
